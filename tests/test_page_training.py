"""The curves of Training progress: whose histories they are, and where they lie."""

from dataclasses import replace

import pytest

from tests.making import gone_on_from, make_run
from vitdemo.metrics.learning import reached, stages
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


def test_an_accuracy_is_reached_in_the_training_that_had_it_first(line):
    first, second = line
    shares = [record["val_accuracy"] for record in first.history]
    found = reached(second, [shares[1]])
    assert found == reached(first, [shares[1]]) and found[0].epoch == 2


def test_a_stage_that_a_training_was_ended_before_is_not_told(tmp_path):
    run = make_run(tmp_path / "run", recipe={"warmup_epochs": 1, "epochs": 9, "schedule": "cosine",
                                             "mixup": 0.5, "unmixed_epochs": 2})  # fmt: skip
    assert [stage.after for stage in stages(run)] == [1, 7]
    ended = replace(run, config=run.config | {"stopped": {"epoch": 3, "step": 1, "steps": 2}})
    assert [stage.after for stage in stages(ended)] == [1]


def test_a_training_that_is_shown_itself_is_drawn_once(line):
    named, _ = losses(line)
    assert [name for name, *_ in named] == ["first", "second"]
    assert named[0][2] != named[1][2]
