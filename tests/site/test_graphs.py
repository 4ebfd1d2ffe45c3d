"""Graphs of views equal the Python functions that they were recorded from."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import site_graphs
from tests.support.factories import CONVNET, make_context, make_run
from vitdemo.context import AppContext
from vitdemo.page import FEATURE
from vitdemo.page.state_keys import IMAGE, MODEL
from vitdemo.page.view_state import ViewState, get_needs
from vitdemo.site.export import add_need
from vitdemo.site.graphs import CROP, FOLDER, TASKS
from vitdemo.site.record import Recorder

onnx_reference = pytest.importorskip("onnx.reference")
# Convolutions add in another order, which can change the rounding of a pixel.
ROUNDED = "changed_image"


def list_needs(name: str) -> list[str]:
    return [key.name for key in get_needs(add_need(FEATURE.payloads[name], MODEL)).watched]


def read_graph(site: Path, name: str, model: str) -> tuple[ViewState, Path]:
    """Return the state and the file of the first graph of a view for `model`."""
    entries = json.loads((site / FOLDER / f"{name}.json").read_bytes())
    for text, entry in entries.items():
        for graph in entry["graphs"]:
            if graph["run"] == model:
                values = dict(zip(list_needs(name), json.loads(text), strict=True))
                given = {key.name for key in (IMAGE, MODEL)}
                options = {key: value for key, value in values.items() if key not in given}
                return ViewState(None, model, options), site / FOLDER / graph["file"]
    raise AssertionError(f"no graph of {name} for {model}")


def compare(context: AppContext, name: str, state: ViewState, run_graph) -> dict[str, float]:
    run, images = context.find_run(state.model), site_graphs.list_squares(4)
    return site_graphs.compare_graph(context, FEATURE.graphs[name], run, state, images, run_graph)


def make_runner(file: Path):
    return partial(onnx_reference.ReferenceEvaluator(str(file)).run, None)


@pytest.mark.parametrize("name", [*FEATURE.graphs])
def test_a_graph_equals_its_function(shown, exported_site, name):
    state, file = read_graph(exported_site, name, "vit")
    largest = compare(shown, name, state, make_runner(file))
    assert largest["whole numbers"] <= (name == ROUNDED)


@pytest.mark.parametrize("task", [*FEATURE.loops])
def test_steps_of_a_task_equal_their_functions(shown, exported_site, task):
    run, images = shown.find_run("vit"), site_graphs.list_squares(2)
    folder = exported_site / FOLDER
    entries = json.loads((folder / TASKS).read_bytes())[task]
    assert {*entries} == {"vit", "timm", "resnet"}
    loops = FEATURE.loops[task](shown, run)
    for loop, entry in zip(loops, entries["vit"], strict=True):
        runners = [make_runner(folder / entry[part]["file"]) for part in ("start", "step")]
        largest = site_graphs.compare_loop(shown, loop, run, images, *runners)
        assert not largest["whole numbers"] and largest["float32"]


def test_another_result_is_reported(shown, exported_site):
    state, file = read_graph(exported_site, "predictions", "vit")
    run_graph = make_runner(file)

    def run_changed(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        return run_graph({CROP: 255 - given[CROP]})

    with pytest.raises(ValueError, match="of vit differs by"):
        compare(shown, "predictions", state, run_changed)


def test_a_model_with_a_maximum_has_attribution_maps(tmp_path):
    make_run(tmp_path / "runs" / "convnet", CONVNET)
    context = make_context(tmp_path / "runs")
    writer = Recorder(context, tmp_path).graphs
    name, graph = "class_attribution", FEATURE.graphs["class_attribution"]
    keys = get_needs(FEATURE.payloads[name]).watched
    state = {key.name: key.start for key in keys} | {MODEL.name: "convnet"}
    (entry,) = writer.describe_graphs(graph, state)["graphs"]
    options = {key: value for key, value in state.items() if key not in ("image", "model")}
    file = tmp_path / FOLDER / entry["file"]
    assert compare(context, name, ViewState(None, "convnet", options), make_runner(file))
