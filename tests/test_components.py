"""What the tabs share of gradio."""

import pytest

from vitdemo.ui.components import renewed


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
