"""The curves of Training progress: whose histories they are, and where they lie."""

import pytest

from tests.making import gone_on_from, make_run
from vitdemo.page.training import View, drawing


@pytest.fixture
def line(tmp_path):
    """A training of three epochs of 30 s, and one of two that went on from it after the second."""
    first = make_run(tmp_path / "first")
    return first, gone_on_from(make_run(tmp_path / "second", epochs=2), first, 2)


def losses(runs, **view):
    found = drawing(list(runs), list(runs), View(**view))["plots"][0]
    named = [
        (it["run"], it["x"], it["colour"]) for it in found["lines"] if it["name"] == "validation"
    ]
    return named, [mark["x"] for mark in found["marks"]]


def test_a_curve_begins_with_the_training_that_a_run_goes_on_from(line):
    (early, late), marks = losses(line[1:])
    assert early[:2] == ("first", [1, 2, 3]) and late[:2] == ("second", [3, 4])
    assert early[2] == late[2]  # one run's colour
    assert marks == [2]  # where it went on
    (early, late), _ = losses(line[1:], by_minutes=True)
    assert early[1] == [0.5, 1.0, 1.5] and late[1] == [1.5, 2.0]


def test_a_training_that_is_shown_itself_is_drawn_once(line):
    named, _ = losses(line)
    assert [name for name, *_ in named] == ["first", "second"]
    assert named[0][2] != named[1][2]
