"""Graphs of views equal the Python functions that they were recorded from."""

import numpy as np
import pytest

from benchmarks import site_graphs
from vitdemo.page import FEATURE
from vitdemo.site.graphs import INPUT_NAME

onnx_reference = pytest.importorskip("onnx.reference")


def find_graph(context, folder, name: str, model: str):
    for view, run, state, file in site_graphs.write_graphs(context, folder):
        if (view, run.name) == (name, model):
            return run, state, onnx_reference.ReferenceEvaluator(str(file))
    raise AssertionError(f"no graph of {name} for {model}")


@pytest.mark.parametrize("name", [*FEATURE.graphs])
def test_a_graph_equals_its_function(shown, tmp_path, name):
    run, state, evaluator = find_graph(shown, tmp_path, name, "vit")
    images = site_graphs.list_squares(6)
    largest = site_graphs.compare_graph(
        shown, FEATURE.graphs[name], run, state, images, lambda given: evaluator.run(None, given)
    )
    assert largest["whole numbers"] == 0


def test_another_result_is_reported(shown, tmp_path):
    run, state, evaluator = find_graph(shown, tmp_path, "predictions", "vit")

    def run_graph(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        return evaluator.run(None, {INPUT_NAME: 255 - given[INPUT_NAME]})

    with pytest.raises(ValueError, match="of vit differs by"):
        site_graphs.compare_graph(
            shown, FEATURE.graphs["predictions"], run, state, site_graphs.list_squares(1), run_graph
        )
