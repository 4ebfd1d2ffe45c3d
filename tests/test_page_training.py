"""Curves of Training progress, including those of continued runs."""

import pytest

from tests.factories import make_run, record_start_weights
from vitdemo.page.training import CurveSettings, render_curves, stage_list
from vitdemo.runs import Run


@pytest.fixture
def line(tmp_path) -> tuple[Run, Run]:
    """Run of three 30-second epochs, and a two-epoch run that continues after the second."""
    first = make_run(tmp_path / "first", recipe={"warmup_epochs": 1})
    return first, record_start_weights(make_run(tmp_path / "second", epochs=2), first, 2)


def validation_curves(runs, **view):
    plot = render_curves(list(runs), list(runs), CurveSettings(**view))["plots"][0]
    lines = {line["run"]: line for line in plot["lines"] if line["name"] == "validation"}
    return lines, [mark["x"] for mark in plot["marks"]]


def test_curve_includes_the_epochs_of_the_parent_run(line):
    lines, marks = validation_curves(line[1:])
    losses = [record["val_loss"] for record in line[0].history]
    assert lines["second"]["x"] == [1, 2, 3, 4]
    assert lines["second"]["y"] == [*losses[:2], *losses[:2]]  # without the third epoch of "first"
    assert marks == [1, 2]  # end of the warm-up, start of "second"
    assert validation_curves(line[1:], by_minutes=True)[0]["second"]["x"] == [0.5, 1.0, 1.5, 2.0]
    items = stage_list([line[1]])[1].items
    assert "after 1 epoch: warm-up" in items[0]
    assert "after 2 epochs: started from the weights of first" in items[1]


def test_each_run_has_its_own_curve_and_colour(line):
    lines, _ = validation_curves(line)
    assert {name: len(curve["x"]) for name, curve in lines.items()} == {"first": 3, "second": 4}
    assert lines["first"]["colour"] != lines["second"]["colour"]
