"""What the page says where numbers are unusual: all right, hardly any, too many, one alone."""

from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import torch

from tests.making import CLASSES, evaluation, make_run
from vitdemo.errors import DataError
from vitdemo.evaluation.errors import Filters
from vitdemo.explorer import Explorer, errors
from vitdemo.explorer.metrics import table_of
from vitdemo.ui.calibration import verdict
from vitdemo.ui.compare.robustness import doubt, least
from vitdemo.ui.components import cache_folder
from vitdemo.ui.data import similar
from vitdemo.ui.errors import kind_words
from vitdemo.ui.metrics.tables import point_words


@pytest.mark.parametrize(
    ("sure", "right", "words"),
    [
        (0.95, 0.90, "surer than it may be"),
        (0.85, 0.90, "less sure than it may be"),
        (0.9000, 0.9001, "too sure of some answers and not sure enough of others"),
    ],
)
def test_the_verdict_of_calibration_names_the_side_only_where_there_is_one(sure, right, words):
    found = SimpleNamespace(
        run="vit",
        loss=0.3,
        mean_confidence=sure,
        accuracy=right,
        before=SimpleNamespace(error=0.05),
        chance=SimpleNamespace(error=0.01),
    )
    assert words in verdict(found)
    found.chance.error = 0.06
    assert "chance alone could do that" in verdict(found)


def test_a_model_that_is_always_right_is_not_known_exactly(tmp_path):
    found = evaluation(0)
    found.probabilities[:] = np.eye(len(CLASSES))[found.labels]
    words = point_words(table_of(make_run(tmp_path / "vit", tested=found)))
    # Wilson's intervals of 200 of 200 and of 20 of 20
    assert "known to about ±0.9 points: 1 point more or less says something" in words
    assert "known to about ±8.1 points: there 1 point says nothing" in words


def test_points_at_the_ends_are_not_known_exactly():
    assert "known to ±1.8 or better" in doubt({"vit": [1.0, 0.0]}, 100)


def test_a_run_without_pictures_hinders_no_other():
    def size(run):
        if run == "foreign":
            raise DataError("of other classes")
        return {"small": 40, "large": 1000}[run]

    assert least(["large", "foreign", "small"], size) == (40, ["of other classes"])
    assert least(["foreign"], size) == (0, ["of other classes"])


@pytest.mark.parametrize("kind", ["only_right", "all_wrong"])
def test_a_model_alone_is_not_compared_with_none(tmp_path, kind):
    make_run(tmp_path / "vit")
    group = errors.answered(Explorer([tmp_path], None, torch.device("cpu")), "vit")
    words = kind_words(group, errors.Chosen("vit", Filters(kind)))
    assert words == "vit alone was tested on these pictures: there is no model beside it."


@pytest.mark.parametrize("count", [10, 100])
def test_every_class_can_be_brought_out(count):
    classes = tuple(f"class {i}" for i in range(count))
    legend = similar.legend_html(classes, np.arange(count))
    css = similar.class_css(count)
    for k, name in enumerate(classes):
        assert f'id="pick-k{k}"' in legend and f"</i>{name} <small>1</small>" in legend
        assert f"#pick-k{k}:checked) .vd-dot:not(.k{k}) " in css
    assert ("come again after 40 classes" in legend) == (count > 40)


def test_files_to_save_lie_where_gradio_clears_up():
    button = gr.DownloadButton()
    first, second = cache_folder(button), cache_folder(button)
    assert first != second
    assert {str(first.parent), str(second.parent)} == {button.GRADIO_CACHE}
    first.rmdir(), second.rmdir()
