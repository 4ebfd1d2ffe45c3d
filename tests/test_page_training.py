"""The curves of Training progress: whose histories they are, and where they lie."""

import pytest

from tests.factories import make_run, record_start_weights
from vitdemo.page.training import CurveSettings, render_curves, stage_list
from vitdemo.runs import Run


@pytest.fixture
def line(tmp_path) -> tuple[Run, Run]:
    """A training of three epochs of 30 s, and one of two that went on from it after the second."""
    first = make_run(tmp_path / "first", recipe={"warmup_epochs": 1})
    return first, record_start_weights(make_run(tmp_path / "second", epochs=2), first, 2)


def validation_curves(runs, **view):
    plot = render_curves(list(runs), list(runs), CurveSettings(**view))["plots"][0]
    lines = {it["run"]: it for it in plot["lines"] if it["name"] == "validation"}
    return lines, [mark["x"] for mark in plot["marks"]]


def test_curve_includes_the_epochs_of_the_parent_run(line):
    lines, marks = validation_curves(line[1:])
    own = [record["val_loss"] for record in line[0].history]
    assert lines["second"]["x"] == [1, 2, 3, 4]
    assert lines["second"]["y"] == [*own[:2], *own[:2]]  # the first one's third epoch led nowhere
    assert marks == [1, 2]  # warm-up ends; it goes on
    assert validation_curves(line[1:], by_minutes=True)[0]["second"]["x"] == [0.5, 1.0, 1.5, 2.0]
    items = stage_list([line[1]])[1].items
    assert "after 1 epoch: warm-up" in items[0]
    assert "after 2 epochs: started from the weights of first" in items[1]


def test_each_run_has_its_own_curve_and_colour(line):
    lines, _ = validation_curves(line)
    assert {name: len(it["x"]) for name, it in lines.items()} == {"first": 3, "second": 4}
    assert lines["first"]["colour"] != lines["second"]["colour"]
