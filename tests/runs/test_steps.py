"""The step log `steps.jsonl`, and training runs that are stopped early."""

import os
import signal
import time
from types import SimpleNamespace

import pytest

from tests.support.factories import run_train_py
from tests.training.test_trainer import make_trainer
from vitdemo import runs
from vitdemo.runs import steps
from vitdemo.runs.steps import STEPS_FILE, StepLog, read_steps, truncate_steps
from vitdemo.training import progress_bar
from vitdemo.training.stopping import Stopper
from vitdemo.training.trainer import StepProgress

pytestmark = pytest.mark.usefixtures("tiny_recipe")


@pytest.fixture
def now(monkeypatch):
    """List of one item, the current time in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    return seconds


def make_progress(step: int, loss: float, epoch: int = 1) -> StepProgress:
    return StepProgress(epoch, step, 10, loss, loss / 10)


def test_each_log_line_has_the_loss_since_the_previous_line(tmp_path, now):
    log = StepLog(tmp_path, make_trainer())
    log.add(make_progress(2, 4.0))
    now[0] = 3
    log.add(make_progress(4, 3.0))  # the mean of the epoch so far
    log.add(make_progress(1, 1.0, epoch=2))
    logged = read_steps(tmp_path)
    assert [(line["epoch"], line["step"]) for line in logged] == [(1, 2), (1, 4), (2, 1)]
    assert [line["loss"] for line in logged] == [4.0, 2.0, 1.0]
    assert [line["seconds"] for line in logged] == [0, 3, 3]


def test_step_log_has_bounded_length_and_even_spacing(tmp_path, now, monkeypatch):
    monkeypatch.setattr(steps, "MAX_STEP_LINES", 20)
    log = StepLog(tmp_path, make_trainer())
    for second in range(200):
        now[0] = second
        log.add(make_progress(1, 1.0, epoch=second + 1))
    seconds = [line["seconds"] for line in read_steps(tmp_path)]
    assert 10 <= len(seconds) <= 20
    assert seconds[-1] > 180 and seconds[0] < 40


def test_damaged_line_is_skipped_and_resume_continues_the_log(tmp_path, now):
    log = StepLog(tmp_path, make_trainer())
    for epoch in (1, 2):
        now[0] += 5
        log.add(make_progress(3, 1.0, epoch))
    with open(tmp_path / STEPS_FILE, "a") as file:
        file.write('{"epoch": 3, "st')
    assert len(read_steps(tmp_path)) == 2
    truncate_steps(tmp_path, SimpleNamespace(epoch=1, epoch_progress=None))
    resumed_log = StepLog(tmp_path, make_trainer())
    resumed_log.add(make_progress(2, 1.0, epoch=2))
    assert [(line["epoch"], line["seconds"]) for line in read_steps(tmp_path)] == [(1, 5), (2, 5)]


def test_finish_signal_ends_the_run_early_and_allows_resume(tmp_path, monkeypatch):
    folder, draw, files = tmp_path / "run", progress_bar.update_progress_bar, []
    monkeypatch.setattr(
        progress_bar,
        "update_progress_bar",
        lambda *now: os.kill(os.getpid(), signal.SIGUSR1) or draw(*now),
    )
    assert run_train_py("tiny", "--smoke", "--epochs", 30, "--out", folder) == 0
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    run = runs.read_run(folder)
    assert run.has_evaluation and run.has_weights
    (folder / runs.REFERENCE).write_bytes(b"")
    stopped, last = run.config["stopped"], run.history[-1]
    assert stopped["epoch"] == last["epoch"] <= 2 and stopped["step"] <= stopped["steps"]
    assert last["share"] == pytest.approx(stopped["step"] / stopped["steps"])
    assert [line["epoch"] for line in read_steps(folder)][-1] == last["epoch"]
    monkeypatch.setattr(
        progress_bar,
        "update_progress_bar",
        lambda *now: files.extend(path.name for path in folder.iterdir()) or draw(*now),
    )
    assert run_train_py("tiny", "--smoke", "--epochs", 4, "--out", folder, "--resume") == 0
    # The final files of the stopped run are deleted before training continues.
    old = {runs.WEIGHTS_FILE, runs.EVALUATION_FILE, runs.REFERENCE}
    assert runs.CHECKPOINT_FILE in files and not old & {*files}
    run = runs.read_run(folder)  # resumed and finished
    assert len(run.history) == 4 and "stopped" not in run.config


def test_stopper_stops_after_the_time_limit(now):
    stopper = Stopper(minutes=1)
    now[0] = 59
    assert not stopper.should_stop()
    now[0] = 61
    assert stopper.should_stop() and not stopper.should_pause()
    assert not Stopper().should_stop()
