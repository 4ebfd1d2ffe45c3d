"""`steps.jsonl` and the end of a training that is asked to keep what it has."""

import os
import signal
import time

import pytest

from tests.conftest import train_py
from tests.test_training import make_trainer
from vitdemo import runs
from vitdemo.runs import steps
from vitdemo.runs.steps import STEPS, StepLog, cut_steps, read_steps
from vitdemo.training import Progress, bar
from vitdemo.training.stopping import Clock, Stopper

pytestmark = pytest.mark.usefixtures("tiny_recipe")


@pytest.fixture
def now(monkeypatch):
    """now[0] is the time, in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    return seconds


def said(step: int, loss: float, epoch: int = 1) -> Progress:
    return Progress(epoch, step, 10, loss, loss / 10)


def test_a_line_is_of_the_steps_since_the_one_before(tmp_path, now):
    log = StepLog(tmp_path, make_trainer())
    log.add(said(2, 4.0))
    now[0] = 3
    log.add(said(4, 3.0))  # the mean of the epoch so far
    log.add(said(1, 1.0, epoch=2))
    found = read_steps(tmp_path)
    assert [(line["epoch"], line["step"]) for line in found] == [(1, 2), (1, 4), (2, 1)]
    assert [line["loss"] for line in found] == [4.0, 2.0, 1.0]
    assert [line["seconds"] for line in found] == [0, 3, 3]


def test_the_file_stays_bounded_and_even(tmp_path, now, monkeypatch):
    monkeypatch.setattr(steps, "MOST", 20)
    log = StepLog(tmp_path, make_trainer())
    for second in range(200):
        now[0] = second
        log.add(said(1, 1.0, epoch=second + 1))
    seconds = [line["seconds"] for line in read_steps(tmp_path)]
    assert 10 <= len(seconds) <= 20
    assert seconds[-1] > 180 and seconds[0] < 40


def test_a_torn_line_is_skipped_and_a_resumed_run_goes_on_after_its_epoch(tmp_path, now):
    log = StepLog(tmp_path, make_trainer())
    for epoch in (1, 2):
        now[0] += 5
        log.add(said(3, 1.0, epoch))
    with open(tmp_path / STEPS, "a") as file:
        file.write('{"epoch": 3, "st')
    assert len(read_steps(tmp_path)) == 2
    cut_steps(tmp_path, 1)
    again = StepLog(tmp_path, make_trainer())
    again.add(said(2, 1.0, epoch=2))
    assert [(line["epoch"], line["seconds"]) for line in read_steps(tmp_path)] == [(1, 5), (2, 5)]


def test_the_time_that_a_process_is_held_does_not_count(now):
    clock = Clock()
    now[0] = 60  # before it trains, nobody looks
    assert clock.seconds() == 60
    with clock.looking():
        for second in (61, 62, 63):
            now[0] = second
            assert clock.seconds() == second
        now[0] = 1000
        assert clock.seconds() == 63
        now[0] = 1004  # a slow second is none that was held
        assert clock.seconds() == 67
    now[0] = 1064
    assert clock.seconds() == 127


@pytest.mark.parametrize("where", ["_draw_epoch", "_step", "_validate", "_make_forward"])
def test_a_training_may_be_held_anywhere(where, monkeypatch):
    trainer, real, held = make_trainer(), time.perf_counter, [0.0]
    work = getattr(trainer, where)

    def hold(*arguments):
        held[0] += 7200
        return work(*arguments)

    monkeypatch.setattr(time, "perf_counter", lambda: real() + held[0])
    monkeypatch.setattr(trainer, where, hold)
    trainer.stop = Stopper(minutes=60)
    trainer.stop.by(trainer.clock)
    records = list(trainer.fit())
    assert held[0] and len(records) == trainer.recipe.total_epochs
    assert all(record["epoch_seconds"] < 600 and "share" not in record for record in records)


def test_a_signal_ends_the_epoch_and_keeps_what_there_is(tmp_path, monkeypatch):
    folder, show, seen = tmp_path / "run", bar.show, []
    monkeypatch.setattr(
        bar, "show", lambda *now: os.kill(os.getpid(), signal.SIGUSR1) or show(*now)
    )
    assert train_py("tiny", "--smoke", "--epochs", 30, "--out", folder) == 0
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    run = runs.read_run(folder)
    assert run.has_evaluation and run.has_weights
    (folder / runs.REFERENCE).write_bytes(b"")
    stopped, last = run.config["stopped"], run.history[-1]
    assert (stopped["epoch"], stopped["step"]) == (last["epoch"], 1) and last["epoch"] <= 2
    assert last["share"] == pytest.approx(1 / stopped["steps"])
    assert [line["epoch"] for line in read_steps(folder)][-1] == last["epoch"]
    monkeypatch.setattr(
        bar, "show", lambda *now: seen.extend(path.name for path in folder.iterdir()) or show(*now)
    )
    assert train_py("tiny", "--smoke", "--epochs", 4, "--out", folder, "--resume") == 0
    # Files of the epoch at which it was stopped are not taken for those of the end.
    old = {runs.WEIGHTS, runs.EVALUATION, runs.REFERENCE}
    assert runs.CHECKPOINT in seen and not old & {*seen}
    run = runs.read_run(folder)  # it went on, and to its end
    assert len(run.history) == 4 and "stopped" not in run.config


def test_minutes_end_it_too(now):
    stopper = Stopper(minutes=1)
    now[0] = 59
    assert not stopper()
    now[0] = 61
    assert stopper()
    assert not Stopper()()
