"""What the tabs share of gradio."""

from types import SimpleNamespace

import gradio as gr
import pytest

from vitdemo.ui.components import renewed, run_choice
from vitdemo.ui.look.shared import limited


@pytest.mark.parametrize(
    ("names", "current", "value"), [(["a", "b"], "c", "a"), (["a"], None, "a"), ([], "a", None)]
)
def test_a_choice_that_is_gone_becomes_the_first(names, current, value):
    update, holds = renewed(names, current)
    assert (update["choices"], update["value"], holds) == (names, value, value)


def test_a_choice_that_is_there_is_left_to_the_person():
    update, holds = renewed(["a", "b"], "b")
    assert holds == "b"
    assert "value" not in update  # which would undo a click made meanwhile


def test_a_choice_has_a_label_of_its_own():
    update, holds = renewed([("nobody", ""), ("A", "a")], "b")
    assert (update["choices"], update["value"], holds) == ([("nobody", ""), ("A", "a")], "", "")
    assert "value" not in renewed([("nobody", ""), ("A", "a")], "a")[0]


@pytest.mark.parametrize(("value", "kept"), [(12, 6), (0, 1), (None, 1)])
def test_a_slider_out_of_its_range_moves_to_the_nearest_end(value, kept):
    update = limited(value, 6)
    assert (update["maximum"], update["value"]) == (6, kept)


def test_a_slider_within_its_range_is_left_to_the_person():
    update = limited(4, 6)
    assert update["maximum"] == 6
    assert "value" not in update  # which would undo a slide made meanwhile


@pytest.mark.parametrize(("count", "kind"), [(0, gr.Radio), (8, gr.Radio), (9, gr.Dropdown)])
def test_many_runs_are_a_list_that_unfolds(count, kind):
    found = run_choice([SimpleNamespace(name=f"run {i}") for i in range(count)])
    assert isinstance(found, kind)
    assert [value for _, value in found.choices] == [f"run {i}" for i in range(count)]
    assert found.value == ("run 0" if count else None)
