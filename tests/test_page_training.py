"""The curves of Training progress: whose histories they are, and where they lie."""

import pytest

from tests.making import gone_on_from, make_run
from vitdemo.page.training import View, drawing, stage_list
from vitdemo.runs import Run


@pytest.fixture
def line(tmp_path) -> tuple[Run, Run]:
    """A training of three epochs of 30 s, and one of two that went on from it after the second."""
    first = make_run(tmp_path / "first", recipe={"warmup_epochs": 1})
    return first, gone_on_from(make_run(tmp_path / "second", epochs=2), first, 2)


def losses(runs, **view):
    plot = drawing(list(runs), list(runs), View(**view))["plots"][0]
    lines = {it["run"]: it for it in plot["lines"] if it["name"] == "validation"}
    return lines, [mark["x"] for mark in plot["marks"]]


def test_a_curve_begins_with_the_training_that_a_run_goes_on_from(line):
    lines, marks = losses(line[1:])
    own = [record["val_loss"] for record in line[0].history]
    assert lines["second"]["x"] == [1, 2, 3, 4]
    assert lines["second"]["y"] == [*own[:2], *own[:2]]  # the first one's third epoch led nowhere
    assert marks == [1, 2]  # warm-up ends; it goes on
    assert losses(line[1:], by_minutes=True)[0]["second"]["x"] == [0.5, 1.0, 1.5, 2.0]
    items = stage_list([line[1]])[1].items
    assert "after 1 epoch: warm-up" in items[0]
    assert "after 2 epochs: started from the weights of first" in items[1]


def test_each_run_that_is_shown_has_a_curve_of_its_own(line):
    lines, _ = losses(line)
    assert {name: len(it["x"]) for name, it in lines.items()} == {"first": 3, "second": 4}
    assert lines["first"]["colour"] != lines["second"]["colour"]
