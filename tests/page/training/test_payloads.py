"""The tab Train without a browser: chosen runs, curves, status and results."""

import os
import time

import pytest

from tests.support.factories import (
    make_context,
    make_run,
    make_unfinished_run,
    record_start_weights,
)
from vitdemo import runs
from vitdemo.figures.curves import COLOURS, MAX_TRAINING_CURVES
from vitdemo.jobs import JobQueue
from vitdemo.page.state_key import NOT_CHOSEN
from vitdemo.page.training import (
    curves,
    image_across_epochs,
    make_feature,
    results,
    run_choice,
)
from vitdemo.page.training.curves import (
    NO_RUN_MESSAGE,
    NO_SELECTION_MESSAGE,
    SAME_COLOUR_NOTE,
    render_curves,
)
from vitdemo.page.view_state import ViewState
from vitdemo.report.training import stage_list
from vitdemo.runs import Run
from vitdemo.runs.steps import MAX_SILENT_SECONDS


@pytest.fixture
def line(tmp_path) -> tuple[Run, Run]:
    """Run of three 30-second epochs, and a two-epoch run that continues after the second."""
    first = make_run(tmp_path / "first", recipe={"warmup_epochs": 1})
    return first, record_start_weights(make_run(tmp_path / "second", epochs=2), first, 2)


def make_state(chosen=NOT_CHOSEN, known=()) -> ViewState:
    return ViewState(None, "", {"runs": list(chosen), "training.known": list(known)})


def validation_curves(trained):
    data = render_curves(trained, trained)
    plot = data["plots"][1]  # loss
    lines = {line["run"]: line for line in plot["lines"] if line["name"] == "validation"}
    return {name: curve | {"x": data["x"][curve["x"]]} for name, curve in lines.items()}, plot


def test_curve_includes_the_epochs_of_the_parent_run(line):
    lines, plot = validation_curves(line[1:])
    losses = [record["val_loss"] for record in line[0].history]
    assert lines["second"]["x"] == {
        "epoch": [1, 2, 3, 4],
        "minutes": [0.5, 1.0, 1.5, 2.0],
        "share": [25, 50, 75, 100],
    }
    assert lines["second"]["y"] == [*losses[:2], *losses[:2]]  # without the third epoch of "first"
    # end of the warm-up, start of "second"
    assert [(mark["epoch"], mark["minutes"]) for mark in plot["marks"]] == [(1, 0.5), (2, 1.0)]
    items = stage_list([line[1]])[1].items
    assert "after 1 epoch: warm-up" in items[0]
    assert [mark["label"] for mark in plot["marks"]] == ["warm-up ends", "start from weights"]
    assert "after 2 epochs: started from the weights of first" in items[1]


def test_many_runs_have_only_validation_curves(tmp_path):
    found = [make_run(tmp_path / f"run-{i:02}", epochs=1) for i in range(MAX_TRAINING_CURVES + 1)]
    few, many = (render_curves(found, found[:count]) for count in (2, len(found)))
    assert {line["name"] for line in few["plots"][0]["lines"]} == {"validation", "training"}
    assert {line["name"] for line in many["plots"][0]["lines"]} == {"validation"}
    assert not few["note"] and str(MAX_TRAINING_CURVES) in many["note"]


def test_runs_without_curves_are_explained(line, tmp_path):
    assert render_curves([], []) == {"message": NO_RUN_MESSAGE}
    assert render_curves(line, []) == {"message": NO_SELECTION_MESSAGE}
    context = make_context(tmp_path)
    assert curves.payload(context, make_state([])) == {"message": NO_SELECTION_MESSAGE}
    nothing = results.payload(context, make_state([]))
    assert nothing["curves"] == {}
    assert nothing["blocks"] == [{"kind": "Text", "text": NO_SELECTION_MESSAGE}]
    more = results.payload(context, make_state())
    assert [block["kind"] for block in more["blocks"][:2]] == ["Text", "Heading"]
    assert [plot["title"] for plot in more["curves"]["plots"]][1:] == ["Time per epoch"]
    (table,) = more["blocks"][-1]["pieces"]
    assert not any("e+" in str(row) for row in table["rows"])  # as 5.92e+04 images per second


def test_the_share_of_an_unfinished_run_refers_to_its_planned_epochs(tmp_path):
    run = make_run(tmp_path / "growing", epochs=2, recipe={"epochs": 8})
    assert curves.x_positions(run)["share"] == [50, 100]  # it ended early
    (run.path / runs.EVALUATION_FILE).unlink()
    assert curves.x_positions(runs.read_run(run.path))["share"] == [12.5, 25]


def test_each_run_has_its_own_curve_and_the_colour_of_the_legend(line):
    looks = run_choice.describe_looks(line, ["first", "second"])
    lines, _ = validation_curves(line)
    assert [len(lines[name]["x"]["epoch"]) for name in ("first", "second")] == [3, 4]
    colours = {name: curve["colour"] for name, curve in lines.items()}
    assert {name: look["colour"] for name, look in looks.items()} == colours
    assert colours["first"] != colours["second"]
    many = run_choice.describe_looks([*line] * (MAX_TRAINING_CURVES + 1), ["first"])
    assert many["first"]["lighter"] is None


def test_new_runs_are_chosen_once(tmp_path):
    old = [make_run(tmp_path / name) for name in ("a", "b")]
    found = [*old, make_run(tmp_path / "new")]

    def names(*arguments):
        return [run.name for run in run_choice.choose_runs(found, make_state(*arguments))]

    assert names() == ["a", "b", "new"]
    assert names(["b", "gone"]) == ["b"]
    assert names(["b"], ["a", "b"]) == ["b", "new"]
    assert names(["b"], ["a", "b", "new"]) == ["b"]
    assert names([], ["a", "b", "new"]) == []
    (tmp_path / "a" / runs.WEIGHTS_FILE).unlink()
    found = [runs.read_run(run.path) for run in found]
    assert names() == names(["b"], ["b"]) == ["b", "new"]  # "a" has only results


def test_a_note_explains_markers_of_runs_with_the_same_colour(tmp_path):
    found = [make_run(tmp_path / f"run-{i}", epochs=1) for i in range(len(COLOURS) + 1)]
    assert render_curves(found, found[:2])["note"] == ""
    assert render_curves(found, [found[0], found[-1]])["note"] == SAME_COLOUR_NOTE


def test_status_of_the_runs(tmp_path):
    context, jobs = make_context(tmp_path), JobQueue(tmp_path / "jobs")
    payload = make_feature(jobs).payloads[run_choice.VIEW]

    def status():
        return payload(context, make_state()).data["in_progress"]

    assert status()  # the page waits for the first run
    make_run(tmp_path / "finished")
    assert not status()
    run = make_unfinished_run(tmp_path / "growing")
    assert status()
    before = time.time() - MAX_SILENT_SECONDS - 1
    for file in run.path.iterdir():
        os.utime(file, (before, before))
    assert not status()  # interrupted


def test_a_default_choice_is_not_part_of_the_url(tmp_path):
    for name in ("a", "b"):
        make_run(tmp_path / name)
    context = make_context(tmp_path)

    def value(*arguments):
        found = run_choice.payload(None, context, make_state(*arguments))
        assert found.controls["runs"]["props"]["defaults"] == ["a", "b"]
        return found.controls["runs"]["value"]

    assert value() == value(["b", "a"]) == [*NOT_CHOSEN]
    assert value(["a", "gone"]) == ["a"]
    assert value([]) == []


def test_a_page_without_training_has_no_views_of_jobs():
    assert make_feature(None).payloads.keys() == {run_choice.VIEW, image_across_epochs.VIEW}
