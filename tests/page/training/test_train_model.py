"""The form and the runs of the tab Train without a browser: permissions, states, guess, curves."""

import json
import os
import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.factories import (
    make_context,
    make_evaluation,
    make_history_record,
    make_run,
    make_unfinished_run,
)
from vitdemo import runs
from vitdemo.cli import app
from vitdemo.errors import JobError
from vitdemo.figures.curves import HUES
from vitdemo.jobs import JOB_ACTIONS, JobQueue
from vitdemo.jobs.gain import measure_validation_gain
from vitdemo.jobs.options import OPTIONS, preset_values
from vitdemo.jobs.state import ACTIVE_STATES, Job, find_live_job, read_progress
from vitdemo.metrics.intervals import difference_interval
from vitdemo.page import state_keys as keys
from vitdemo.page.components.task_list import parse_task_action
from vitdemo.page.kit import check_training_allowed
from vitdemo.page.training.run_choice import describe_looks
from vitdemo.page.training.train_model import (
    form,
    jobs_payload,
    live_payload,
    render_live_curves,
)
from vitdemo.page.training.train_model import jobs as rows
from vitdemo.page.training.train_model.form import TrainingForm, describe_recipe, parse_guess
from vitdemo.page.view_state import ViewState
from vitdemo.runs.steps import STEPS_FILE

VALIDATION_LABELS = np.repeat(np.arange(10), 20)  # labels (M,)


def make_run_with_errors(folder, wrong: int, seed: int = 0):
    """Create a run with errors in the first `wrong` of 200 validation images."""
    probs = np.eye(10, dtype=np.float32)[(VALIDATION_LABELS + (np.arange(200) < wrong)) % 10]
    evaluation = replace(
        make_evaluation(0),
        validation_probabilities=probs,
        validation_labels=VALIDATION_LABELS.astype(np.int64),
    )
    return make_run(folder, tested=evaluation, recipe={"seed": seed})


@pytest.fixture
def trained(tmp_path):
    """Write runs "old" and "new"; "new" classifies 10 more validation images correctly."""
    errors = {"old": 60, "new": 50}
    return {name: make_run_with_errors(tmp_path / name, n) for name, n in errors.items()}


def test_the_gain_is_paired_on_the_same_images(trained, tmp_path):
    old = trained["old"]
    gain = measure_validation_gain(trained["new"], old)
    assert gain.paired and gain.points == pytest.approx(5.0)
    assert (gain.low, gain.high) == pytest.approx(tuple(100 * difference_interval(10, 0, 200)))
    other = measure_validation_gain(make_run_with_errors(tmp_path / "elsewhere", 50, seed=1), old)
    assert not other.paired and other.points == pytest.approx(5.0)
    assert other.low < -3 and other.high > 13  # a much wider interval


def test_the_guess_is_compared_with_the_result(trained):
    new, record = trained["new"], {"beside": "old", "guess": 4.0}
    job = Job("new", new.path, record, "finished", epoch=3, epochs=3)
    text = rows.describe_guess(job, new, trained)
    guess = "Guess: +4.0 percentage points of validation accuracy compared with old."
    assert text.startswith(f"{guess} Result: +5.0")
    assert "The guess is within this interval" in text
    assert "no longer exists" in rows.describe_guess(job, new, {})
    queued = replace(job, state="queued")
    assert rows.describe_guess(queued, None, trained) == guess
    assert rows.describe_guess(replace(job, record={}), new, trained) == ""


def test_every_state_has_a_text_and_known_actions(trained):
    run = trained["new"]
    for state, actions in rows.STATE_ACTIONS.items():
        job = Job("new", run.path, {"arguments": []}, state, "why", 2, 3, True, 0.5, 100.0, 200.0)
        row = rows.job_row(job, run, {}, {"new": 1})
        assert row.colour == HUES[1]
        assert row.progress and {action for action, _ in actions} <= set(JOB_ACTIONS)
        assert (row.done == 1) == (state in ("finished", "stopped"))
    assert set(ACTIVE_STATES) < set(rows.STATE_ACTIONS)
    training = Job("new", run.path, {}, "training", "", 2, 3, True, 0.5, 99.6, 200.0)
    assert rows.describe_job(training, run) == "epoch 3 of 3, 100 images/s, 3 min left"
    ended = replace(training, state="evaluating", epoch=1, epochs=5)
    assert rows.describe_job(ended, run).startswith("1 epoch of 5 done, evaluating")
    stopped = replace(ended, last_fraction=0.19)
    assert rows.describe_job(stopped, run).startswith("0.19 of 5 epochs done, evaluating")
    assert rows.describe_job(replace(stopped, state="stopped"), run).startswith("0.19 of 5 epochs,")


def test_a_starting_run_can_be_stopped_and_paused(trained):
    def find_actions(**changes):
        job = Job("new", trained["new"].path, {}, "starting")
        return rows.job_row(replace(job, **changes), None, {}, {}).actions

    assert find_actions() == [("pause", "Pause"), ("stop", "Stop")]
    assert find_actions(done=0.5) == [("pause", "Pause"), rows.STOP_ACTION]
    assert find_actions(done=0.5, record={"request": "finish"}) == [rows.DELETE_ACTION]


def test_an_incomplete_epoch_counts_as_a_fraction(tmp_path):
    run = make_run(tmp_path / "new", epochs=2, recipe={"epochs": 4})
    runs.append_record(run.path, make_history_record(3) | {"share": 0.25})
    progress = read_progress(run.path, run.config, [], None)
    assert progress["last_fraction"] == 0.25
    assert progress["done"] == 2.25 / 4


def test_the_time_left_is_not_above_the_limit(tmp_path):
    run = make_run(tmp_path / "new", epochs=1, recipe={"epochs": 100})
    lines = [{"epoch": 2, "step": i, "steps": 10, "seconds": 10 * i} for i in range(1, 6)]
    unlimited, limited = (read_progress(run.path, run.config, lines, end) for end in (None, 60))
    assert unlimited["seconds_left"] == pytest.approx(98.5 * 100)
    assert limited["seconds_left"] == 10


def test_payloads_describe_the_runs_of_the_page(tmp_path):
    make_run(tmp_path / "vit")
    context, jobs = make_context(tmp_path), JobQueue(tmp_path)
    found = jobs_payload(jobs, context, ViewState(None, "", {keys.BASELINE_RUN.name: "vit"}))
    assert found.data == {"rows": [], "note": "", "in_progress": False}
    props = {"groups": [("Models", ["vit"])], "warning": ""}
    assert found.controls[keys.BASELINE_RUN.name] == {"props": props, "value": "vit"}
    gone = jobs_payload(jobs, context, ViewState(None, "", {keys.BASELINE_RUN.name: "gone"}))
    assert gone.controls[keys.BASELINE_RUN.name]["value"] == ""
    assert (
        gone.controls[keys.BASELINE_RUN.name]["props"]["warning"]
        == "There is no model 'gone' in this menu."
    )
    jobs.register_run("copy", lambda folder: make_run(folder))
    (row,) = jobs_payload(jobs, context, ViewState(None, "")).data["rows"]
    assert (row["name"], row["state"]) == ("copy-1", "finished")
    live = live_payload(jobs, context, ViewState(None, ""))
    assert live == {"rows": [], "plots": {}, "in_progress": False}


def test_live_run_is_drawn_with_the_baseline_and_the_chosen_runs_as_references(tmp_path):
    runs_ = [make_run(tmp_path / name, epochs=3) for name in ("baseline", "other", "third")]
    growing = make_unfinished_run(tmp_path / "growing", epochs=1)
    lines = [
        {"epoch": 1, "step": i, "steps": 4, "loss": 2.0, "accuracy": 0.25, "seconds": i}
        for i in (2, 4)
    ]
    (growing.path / STEPS_FILE).write_text("".join(json.dumps(each) + "\n" for each in lines))
    job = Job("growing", growing.path, {"beside": "baseline"}, "training", epoch=1, epochs=2)
    accuracy, loss = render_live_curves(job, [*runs_, growing], [runs_[1], growing])["plots"]
    assert [each["label"] for each in accuracy["lines"]] == [
        "baseline (baseline)",
        "other",
        "training",
        "validation",
    ]
    assert [each["faint"] for each in loss["lines"]] == [True, True, False, False]
    assert accuracy["span"] == [0, 2]
    references, training = accuracy["lines"][:2], accuracy["lines"][2]
    assert all(each["x"] == [1, 2] for each in references)  # only as long as the run
    assert (training["x"], training["y"]) == ([0.5, 1.0], [25, 25])
    # The run has the same colour in all plots and lists.
    looks = describe_looks([*runs_, growing], ["growing"])["growing"]
    assert looks["colour"] == accuracy["lines"][3]["colour"]
    waiting = replace(job, path=tmp_path / "none")
    assert "after the first step" in render_live_curves(waiting, runs_, [])["note"]


def test_live_run_is_in_progress_or_has_just_ended(tmp_path):
    def find(*states, path=tmp_path, record=None):
        jobs = [Job(str(i), path, record or {}, state) for i, state in enumerate(states)]
        found = find_live_job(jobs)
        return found and int(found.name)

    assert find("queued", "training", "finished") == 1
    assert find("failed", "finished") == find("queued") == 0
    assert find("finished", "failed") is find() is None
    new = make_run(tmp_path / "new", tested=make_evaluation(0))
    assert find("stopped", "failed", path=new.path) == 0  # the result is shown first
    assert find("finished", path=new.path, record={"made": True}) is None
    os.utime(new.path / runs.EVALUATION_FILE, (0, 0))
    assert find("stopped", path=new.path) is None


def test_a_new_recipe_fills_the_options_with_values_that_they_accept():
    recipe = {keys.TRAINING_RECIPE.name: "shuffled-labels"}
    filled = describe_recipe(None, ViewState(None, "", recipe)).controls
    assert filled.pop(keys.FILLED_RECIPE.name) == {"value": "shuffled-labels"}
    for name, value in preset_values("shuffled-labels").items():
        key = keys.TRAINING_OPTIONS[name]
        assert filled[key.name] == {"value": value}
        assert key.read(value) == OPTIONS[name].validate(value) == value
    chosen = recipe | {keys.FILLED_RECIPE.name: "shuffled-labels"}
    assert describe_recipe(None, ViewState(None, "", chosen)).controls == {}


def test_a_run_starts_with_the_options_of_its_recipe(tmp_path, monkeypatch):
    started = []
    jobs = SimpleNamespace(
        for_all=True,
        start=lambda *given: started.append(given) or SimpleNamespace(name="a", state="queued"),
    )
    monkeypatch.setattr("gradio.Info", lambda text: None)
    panel, context = TrainingForm(jobs), make_context(tmp_path)
    state = {keys.TRAINING_RECIPE.name: "good", keys.TRAINING_OPTIONS["epochs"].name: 3}
    for filled in ("first-steps", "good"):
        panel.start(context, ViewState(None, "", state | {keys.FILLED_RECIPE.name: filled}), {})
    assert [given[1]["epochs"] for given in started] == [preset_values("good")["epochs"], 3]
    with pytest.raises(JobError, match="Enter a guess"):
        panel.start(context, ViewState(None, "", state | {keys.BASELINE_RUN.name: "vit"}), {})


def test_cost_is_measured_in_the_background(tmp_path, put_pictures, monkeypatch):
    measured = threading.Event()

    def estimate(recipe, images, device, busy, live_speed):
        measured.wait(10)
        size = f"{recipe.epochs} epochs, {images} images"
        return SimpleNamespace(time_text="2 minutes", speed_text="fast", size_text=size)

    monkeypatch.setattr(form, "estimate_training_cost", estimate)
    monkeypatch.setattr(form, "COST_SECONDS", 0.01)
    root = put_pictures({"train/ant": 20, "train/bee": 20, "test/ant": 2})
    context, jobs = make_context(tmp_path, data_root=root), JobQueue(tmp_path, root, "cpu")
    panel, state = TrainingForm(jobs), ViewState(None, "")
    first = panel.describe_cost(context, state)
    assert (first["time"], first["is_measuring"]) == (form.NOT_MEASURED, True)
    measured.set()
    while (found := panel.describe_cost(context, state))["is_measuring"]:
        pass
    assert (found["time"], found["size"]) == ("2 minutes", "5 epochs, 38 images")
    measured.clear()  # a new measurement of the same recipe keeps the previous cost
    again = panel.describe_cost(context, state)
    assert (again["time"], again["is_measuring"]) == ("2 minutes", True)
    measured.set()
    monkeypatch.setattr(context, "is_dataset_missing", lambda: True)
    missing = panel.describe_cost(context, state)
    assert (missing["time"], missing["is_measuring"]) == (form.NOT_MEASURED, False)


def test_browser_events_and_guesses_are_checked():
    assert parse_task_action({"action": "pause", "name": "a"}, list(JOB_ACTIONS)) == ("pause", "a")
    for fields in ({}, {"action": "launch", "name": "a"}, {"action": "pause", "name": 3}):
        with pytest.raises(JobError):
            parse_task_action(fields, list(JOB_ACTIONS))
    assert parse_guess(" −2,5 ", "old") == -2.5
    for text in ("", "nan", "1e9", "many"):
        with pytest.raises(JobError, match=r"Enter a guess|Invalid guess"):
            parse_guess(text, "old")


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ("", {}, True),
        ("--host localhost", {}, True),
        ("--host 0.0.0.0", {}, False),
        ("--share", {}, False),
        ("--root-path /vitdemo", {}, False),
        ("", {"GRADIO_SERVER_NAME": "0.0.0.0"}, False),
        ("", {"GRADIO_SHARE": "True"}, False),
        ("", {"SPACE_ID": "me/mine"}, False),
        ("", {"GRADIO_ROOT_PATH": "/vitdemo"}, False),
    ],
)
def test_training_is_enabled_only_on_localhost(arguments, variables, expected, monkeypatch):
    for name in ("GRADIO_SERVER_NAME", "GRADIO_SHARE", "SPACE_ID", "GRADIO_ROOT_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    args = app.build_parser().parse_args(arguments.split())
    assert app.is_local_only(args) == expected


@pytest.mark.parametrize(
    ("host", "headers", "for_all", "allowed"),
    [
        ("127.0.0.1", {"Host": "localhost:7860"}, False, True),
        ("::1", {"host": "[::1]:7860"}, False, True),
        ("127.0.0.1", {"Host": "127.0.0.1", "X-Forwarded-For": "10.0.0.7"}, False, False),
        ("127.0.0.1", {"Host": "rebound.example:7860"}, False, False),
        ("127.0.0.1", {"Host": "localhost:7860", "Origin": "http://localhost:7860"}, False, True),
        ("127.0.0.1", {"Host": "localhost:7860", "Origin": "https://a.example"}, False, False),
        ("127.0.0.1", {"Host": "localhost:7860", "Origin": "null"}, False, False),
        ("10.0.0.7", {"Host": "127.0.0.1"}, False, False),
        ("10.0.0.7", {}, True, True),
    ],
)
def test_requests_through_a_proxy_are_not_local(tmp_path, host, headers, for_all, allowed):
    request = SimpleNamespace(headers=headers, client=SimpleNamespace(host=host))
    rejected = pytest.raises(JobError, match="Only this computer can train")
    with nullcontext() if allowed else rejected:
        check_training_allowed(JobQueue(tmp_path, for_all=for_all), request)
