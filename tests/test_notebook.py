"""The functions for notebooks."""

import ast
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import vitdemo
from tests.support.factories import make_context, make_run, noise
from tests.support.loops import call_in_loop
from tests.support.serving import ROOT
from vitdemo import notebook
from vitdemo.analyses.activation_patching import compute_patching, load_image_pair
from vitdemo.analyses.class_attribution import (
    compute_class_attribution,
    find_best_order,
    measure_faithfulness,
)
from vitdemo.analyses.patch_similarity import colour_images
from vitdemo.analyses.sinks import compute_sinks
from vitdemo.context import AppContext
from vitdemo.data.ground_truth import make_ground_truth_image
from vitdemo.errors import ImageError, VitdemoError
from vitdemo.explain.norms import head_norms, norms_to_weights, summed_head_norms
from vitdemo.installation import included_folder
from vitdemo.page.bridge import load_square
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.saved_view.code import write_code
from vitdemo.page.saved_view.html import ENTRY, build_saved_view, list_modules, serialise
from vitdemo.page.view_state import ViewState
from vitdemo.runs.timm_run import create_timm_run

IMAGE = noise(size=(48, 48))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("notebook") / "vit")


@pytest.fixture(scope="module")
def context(run):
    return make_context(run.path.parent)


def test_results_equal_those_of_the_library(run, context):
    trace = context.trace_image(context.find_run("vit"), IMAGE)
    found = vitdemo.trace(str(run.path), IMAGE)
    np.testing.assert_array_equal(found.attention, trace.attention)
    np.testing.assert_array_equal(
        vitdemo.rollout(str(run.path), IMAGE),
        trace.rollout_map(trace.num_layers, fusion="mean", discard_ratio=0.0),
    )
    maps = vitdemo.attribute(str(run.path), IMAGE, run.classes[3])
    assert {values.shape for values in maps.values()} == {trace.grid}
    scores = vitdemo.faithfulness(str(run.path), IMAGE, run.classes[3])
    asked = compute_class_attribution(
        context, context.find_run("vit"), IMAGE, target=run.classes[3]
    )
    expected = measure_faithfulness(context, asked, IMAGE, fill="drop").scores  # the page's test
    assert set(maps) <= set(scores) == set(expected)
    for name, score in expected.items():
        assert scores[name].score == pytest.approx(score.score, abs=1e-6)
        assert scores[name].p_orders == pytest.approx(score.p_orders)
        assert scores[name].verdict == score.verdict


def test_map_checks_are_those_of_the_page(run, context):
    found = vitdemo.map_checks(str(run.path), IMAGE, run.classes[3])
    options = {"target": run.classes[3], "include_slow": False}
    expected = compute_class_attribution(context, context.find_run("vit"), IMAGE, **options)
    checked = [each for each in expected.maps if each.check]  # slow maps may be cached
    assert [*found] == [each.method.name for each in checked]
    for each in checked:
        own = found[each.method.name]
        np.testing.assert_allclose(own.cascade, each.check.cascade, atol=1e-5)
        np.testing.assert_allclose(own.noise, each.check.noise, atol=1e-5)


def test_best_order_is_the_order_of_the_page(run, context):
    found = vitdemo.best_order(str(run.path), IMAGE, run.classes[3])
    asked = compute_class_attribution(
        context, context.find_run("vit"), IMAGE, target=run.classes[3]
    )
    expected = find_best_order(context, asked, IMAGE, fill="drop")
    np.testing.assert_array_equal(found.best_ranks, expected.best_ranks)
    assert found.compute_share("relevance") == pytest.approx(expected.compute_share("relevance"))


def test_patch_colours_share_the_axes_of_all_images(run, context):
    other = noise(2, size=(30, 70))
    found = vitdemo.patch_colours(str(run.path), IMAGE, other)
    squares = [notebook.read_image(each) for each in (IMAGE, other)]
    _, expected = colour_images(context, context.find_run("vit"), squares)
    assert [each.shape for each in found] == [(3, 4, 4, 3)] * 2
    for i, each in enumerate(found):
        np.testing.assert_allclose(each.reshape(3, 16, 3), expected[:, i], atol=1e-5)
    assert not np.allclose(found[0], vitdemo.patch_colours(str(run.path), IMAGE)[0])
    with pytest.raises(ImageError, match="at least one image"):
        vitdemo.patch_colours(str(run.path))


def test_patching_equals_the_library(run, context):
    other = noise(2, size=(48, 48))
    found = vitdemo.patching(str(run.path), IMAGE, other)
    pair = load_image_pair(context, context.find_run("vit"), IMAGE, other)
    expected = compute_patching(context, pair)
    np.testing.assert_allclose(found.maps, expected.maps, atol=1e-5)
    assert found.curves.keys() == expected.curves.keys() == {"class token", "patches"}
    assert found.curves["patches"][0] == pytest.approx(1, abs=1e-5)


def test_sinks_equal_the_library(run, context):
    found = vitdemo.sinks(str(run.path), IMAGE)
    expected = compute_sinks(context, context.find_run("vit"), IMAGE)
    np.testing.assert_array_equal(found.positions, expected.positions)
    np.testing.assert_allclose(found.norm_ratios, expected.norm_ratios, atol=1e-5)
    np.testing.assert_allclose(found.similarities.sinks, expected.similarities.sinks, atol=1e-5)


def test_an_image_is_a_file_an_array_or_a_pillow_image(tmp_path):
    IMAGE.save(tmp_path / "image.png")
    sources = [tmp_path / "image.png", str(tmp_path / "image.png"), np.asarray(IMAGE), IMAGE]
    for source in sources:
        np.testing.assert_array_equal(notebook.read_image(source), IMAGE)
    assert notebook.read_image(Image.new("L", (9, 7))).mode == "RGB"
    for array in (np.zeros((3, 8, 8), np.uint8), np.zeros((8, 8, 3))):
        with pytest.raises(ImageError, match=r"\(height, width, 3\) uint8"):
            notebook.read_image(array)


def test_invalid_arguments_are_rejected(run, tmp_path):
    layers = vitdemo.trace(str(run.path), IMAGE).num_layers
    with pytest.raises(ValueError, match=f"layer must be 1 to {layers}, not {layers + 1}"):
        vitdemo.rollout(str(run.path), IMAGE, layers + 1)
    with pytest.raises(VitdemoError):
        vitdemo.trace("local:" + str(tmp_path / "none"), IMAGE)
    with pytest.raises(AttributeError, match="no attribute 'explode'"):
        vitdemo.explode  # noqa: B018


def test_view_is_one_file_without_addresses_of_a_server(run, tmp_path):
    view = vitdemo.explore(str(run.path), IMAGE, height=500)
    page = view.save(tmp_path / "view.html").read_text("utf-8")
    assert page == view.html
    assert not re.search(r'(?:src|href)="', page)
    imports = json.loads(re.search(r'<script type="importmap">(.*?)</script>', page)[1])["imports"]
    assert set(imports) == {f"vitdemo/{name}" for name in list_modules(ENTRY)}
    assert all(source.startswith("data:text/javascript;base64,") for source in imports.values())
    frame = view._repr_html_()
    assert frame.startswith('<iframe srcdoc="') and "height: 500px" in frame
    assert page not in frame  # it is escaped


def run_cell(source: str, names: dict) -> object:
    """Run a cell as Jupyter does and return the value of its last line, or None."""
    *statements, last = ast.parse(source).body
    is_value = isinstance(last, ast.Expr)
    exec(
        compile(ast.Module(statements if is_value else [*statements, last], []), "", "exec"), names
    )
    return eval(compile(ast.Expression(last.value), "", "eval"), names) if is_value else None


@pytest.mark.usefixtures("few_steps")
def test_tutorial_runs_and_shows_the_view(tmp_path, monkeypatch):
    """Run the cells while an event loop runs, as in the kernel of a notebook."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names = {}
    values = call_in_loop(lambda: [run_cell(source, names) for source in sources])
    (view,) = (value for value in values if hasattr(value, "_repr_html_"))
    assert view._repr_html_().startswith("<iframe srcdoc=")
    assert (tmp_path / "cat.html").stat().st_size > 500_000


def test_view_begins_with_the_chosen_options(context):
    run = context.find_run("vit")
    state = ViewState(None, "vit", {"layer": 2, "source": "head", "head": 2, "secret": "<script>"})
    page = build_saved_view(context, run, IMAGE, state)
    saved = json.loads(re.search(r'id="saved">(.*?)</script>', page, re.DOTALL)[1])
    assert saved["state"] == {"model": "vit", "source": "head", "head": 2, "layer": 2}
    assert [card["run"] for card in saved["views"]["predictions"]["models"]] == ["vit"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"source": "head", "head": 2, "layer": 1}, lambda t, v: t.attention[0, 1, 0, 1:]),
        (
            {"source": "mean", "layer": 2, "token": "2,3"},
            lambda t, v: t.attention[1].mean(0)[7, 1:],
        ),
        (
            {"source": "mean", "layer": 2, "token": "t0", "direction": "incoming"},
            lambda t, v: t.attention[1].mean(0)[1:, 0],
        ),
        (
            {"source": "similar", "layer": 2, "token": "1,1"},
            lambda t, v: t.token_similarity[1, 1, 1:],
        ),
        (
            {"source": "head", "layer": 1, "token": "mean"},
            lambda t, v: t.attention[0, 0, 1:, 1:].mean(0),
        ),
        (
            {"source": "rollout", "layer": 2, "fusion": "max", "discard": 0.3},
            lambda t, v: t.rollout_map(2, fusion="max", discard_ratio=0.3).reshape(-1),
        ),
        (
            {"source": "norm-head", "layer": 1, "head": 2},
            lambda t, v: norms_to_weights(head_norms(t.attention, v))[0, 1, 0, 1:],
        ),
        (
            {"source": "norm", "layer": 2},
            lambda t, v: norms_to_weights(summed_head_norms(t.attention, v))[1, 0, 1:],
        ),
        (
            {"source": "head", "head": 99, "layer": 99, "token": "9,9"},
            lambda t, v: t.attention[-1, -1, -1, 1:],
        ),
    ],
)
def test_written_code_computes_and_draws_the_map(
    context, options, expected, tmp_path, monkeypatch, capsys
):
    request = ImageRequest("photo:cat", crop_position=0.25)
    code = write_code(context, ViewState(request, "vit", options))
    values = {}
    monkeypatch.chdir(tmp_path)
    exec(code, values)
    values["plt"].close("all")
    assert "The image of the map is in vitdemo-map.png." in capsys.readouterr().out
    with Image.open(tmp_path / "vitdemo-map.png") as drawn:
        assert len(np.unique(drawn.convert("L"))) > 10  # the image is not blank
    trace = context.trace_image(context.find_run("vit"), load_square(context, request))
    assert trace.num_prefix_tokens == 1
    products = context.value_products(trace)
    wanted = expected(trace, products)
    np.testing.assert_allclose(values["values"].reshape(-1), wanted, atol=1e-6)


def test_written_code_names_image_and_model(context):
    def write(source: str, path: str | None = None) -> str:
        return write_code(context, ViewState(ImageRequest(source, path), "vit"))

    assert "included_folder(\"photos\") / 'cat.jpg'" in write("photo:cat")
    assert "lion.jpg" in write("photo:lion")
    included = AppContext([included_folder("runs")], None, torch.device("cpu"))
    state = ViewState(ImageRequest("photo:cat"), "vit-scratch")
    assert "vitdemo.trace('vit-scratch', image)" in write_code(included, state)
    truth = make_context(truth_root=included_folder("ground_truth"))
    code = write_code(truth, ViewState(ImageRequest("truth:one-mark:3"), "one-mark"))
    assert "image = make_ground_truth_image('one-mark', 3).image" in code
    assert "vitdemo.trace('one-mark', image)" in code
    opened = replace(create_timm_run("timm:test_vit", pretrained=False), is_downloaded=True)
    others = AppContext([], None, torch.device("cpu"), timm_models=[opened])
    state = ViewState(ImageRequest("photo:cat"), opened.name)
    assert "vitdemo.trace('timm:test_vit', image)" in write_code(others, state)


def test_ground_truth_measures_every_method():
    found = vitdemo.ground_truth("one-mark", images=2)
    assert found.images == 2 and found.accuracy == 1
    image = make_ground_truth_image("one-mark", 0).image
    assert {*vitdemo.attribute("one-mark", image)} == {*found.shares}
    with pytest.raises(ValueError, match="'none': choose one of one-mark"):
        vitdemo.ground_truth("none")


def test_data_cannot_close_their_script_element():
    assert "<" not in serialise({"name": "</script><script>alert(1)</script>"})
