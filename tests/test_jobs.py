"""Training jobs: consistent states after crashes, limits, and checks of the settings."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.conftest import write_noise_images
from vitdemo import runs
from vitdemo.errors import DataError, JobError, VitdemoError
from vitdemo.jobs import JOB_ACTIONS, JobLimits, JobQueue, cost, processes, state
from vitdemo.jobs.cost import SPEEDS_FILE, estimate_training_cost
from vitdemo.jobs.options import OPTIONS, PRESETS, build_recipe, preset_values, train_arguments
from vitdemo.jobs.state import LOG_FILE, last_log_message, read_job, write_job
from vitdemo.runs import JOB_FILE
from vitdemo.runs.steps import read_steps
from vitdemo.training.recipes import get_recipe

LIGHT_COMMAND = (sys.executable, str(Path(__file__).with_name("light_training.py")))
IMAGE_COUNTS = {f"{part}/{name}": 12 for part in ("train", "test") for name in ("ant", "bee")}
MANY_EPOCHS = {"epochs": 200}
TINY = {"embed_dim": 16, "depth": 1, "num_heads": 2, "batch_size": 8, "patch_size": 16}


@pytest.fixture
def jobs(tmp_path, put_pictures):
    """Light trainings, which end with the test."""
    made = JobQueue(tmp_path / "runs", put_pictures(IMAGE_COUNTS), "cpu", command=LIGHT_COMMAND)
    yield made
    for job in made.list_jobs():
        made.delete(job.name)


def wait_for(jobs, name, *states, seconds=60):
    until = time.monotonic() + seconds
    while (job := jobs.find_job(name)).state not in states:
        assert time.monotonic() < until, f"{job} is not one of {states}"
        time.sleep(0.02)
    return job


def start_training_job(jobs, epochs=200):
    """(name, pid) of a training that trains."""
    name = jobs.start("first-steps", {"epochs": epochs}).name
    wait_for(jobs, name, "training")
    return name, read_process(jobs, name)["pid"]


def read_process(jobs, name):
    return read_job(jobs.root / name)["process"]


# --- states --------------------------------------------------------------------------------------


def test_a_job_finishes_with_low_cpu_priority(jobs):
    name, pid = start_training_job(jobs, epochs=8)
    assert name == "first-steps-1"
    job = jobs.find_job(name)
    assert job.epochs == 8 and 0 < job.done <= 1
    assert os.getpgid(0) != pid
    expected = min(19, os.getpriority(os.PRIO_PROCESS, 0) + processes.TRAINING_NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, pid) == expected
    session = Path(f"/proc/{pid}/autogroup")
    if session.exists():  # Linux with groups of sessions
        assert session.read_text().split()[-1] == str(processes.SESSION_NICENESS)
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert b"GOMP_SPINCOUNT=20000" in environment
    assert wait_for(jobs, name, "finished").epoch == 8


def test_pause_resume_and_stop_keep_the_progress(jobs):
    name, _ = start_training_job(jobs)
    jobs.pause(name)
    wait_for(jobs, name, "paused")
    before = len(read_steps(jobs.root / name))
    time.sleep(0.2)
    assert len(read_steps(jobs.root / name)) == before
    with pytest.raises(JobError, match="cannot be paused"):
        jobs.pause(name)
    jobs.resume(name)
    wait_for(jobs, name, "training")
    while (running := jobs.find_job(name)).seconds_left is None:
        time.sleep(0.02)
    assert running.seconds_left > 0 and running.images_per_second > 0
    jobs.pause(name)
    jobs.stop(name)  # a paused one goes on to its end
    assert wait_for(jobs, name, "stopped").epoch < 200
    with pytest.raises(JobError, match="cannot be continued"):
        jobs.resume(name)


def test_one_job_runs_while_the_others_are_queued(jobs):
    jobs.limits = JobLimits(waiting=2)
    first, second, third = (jobs.start("first-steps", MANY_EPOCHS).name for _ in range(3))
    wait_for(jobs, first, "training")
    assert [job.state for job in jobs.list_jobs()] == ["queued", "queued", "training"]
    with pytest.raises(JobError, match="2 training runs are waiting"):
        jobs.start("first-steps", MANY_EPOCHS)
    with pytest.raises(JobError, match="no model to evaluate"):
        jobs.stop(second)
    jobs.delete(second)
    jobs.pause(first)
    jobs.start_next()
    assert jobs.find_job(third).state == "queued"  # a paused one holds its place
    jobs.delete(first)
    wait_for(jobs, third, "training")
    assert [job.name for job in jobs.list_jobs()] == [third]
    with pytest.raises(JobError, match="no longer exists"):
        jobs.pause(first)


def test_a_failed_job_reports_the_last_log_message(jobs):
    name = jobs.start("first-steps", {"epochs": 66}).name
    job = wait_for(jobs, name, "failed")
    assert job.message == "The loss is not a number in epoch 1: the training diverged."


def test_a_full_disk_is_reported_without_a_log_message(jobs, monkeypatch):
    name, _ = start_training_job(jobs)
    processes.kill_process(read_process(jobs, name))
    (jobs.root / name / LOG_FILE).write_text("--- launched first\nepoch 1/3: 5%|")
    assert jobs.find_job(name).message == state.UNKNOWN_FAILURE_MESSAGE
    monkeypatch.setattr(state.shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    assert jobs.find_job(name).message == state.DISK_FULL_MESSAGE


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("epoch 1/3: 5%|", "The process ended unexpectedly"),
        (
            "Stopped. 2 of 3 epochs are saved in 'x'; continue with: ...",
            "The process was stopped outside",
        ),
        ("Traceback (most recent call last):\nRuntimeError: no memory", "RuntimeError: no memory"),
        ("train.py: one\n--- launched again\n1%|\r2%|\ntrain.py: two", "two"),
    ],
)
def test_log_message_is_read_from_the_last_process(tmp_path, log, words):
    (tmp_path / LOG_FILE).write_text(f"--- launched first\n{log}")
    assert last_log_message(tmp_path).startswith(words) and bool(words) == bool(
        last_log_message(tmp_path)
    )


def test_exceeded_limits_are_reported(jobs):
    jobs.limits = JobLimits(kept=1)
    name = jobs.start("first-steps", {"epochs": 1}).name
    with pytest.raises(JobError, match="limit of 1 stored training runs"):
        jobs.start("first-steps", {})
    wait_for(jobs, name, "finished")
    jobs.limits = JobLimits(mib=0)
    with pytest.raises(JobError, match="take 0 MB, more than the limit of 0 MB"):
        jobs.start("first-steps", {})
    jobs.limits = JobLimits(free_mib=10**9)
    with pytest.raises(JobError, match="disk has less"):
        jobs.start("first-steps", {})


# --- whoever dies --------------------------------------------------------------------------------


def test_process_with_a_reused_pid_is_not_the_job(jobs):
    name, _ = start_training_job(jobs)
    folder, asked = jobs.root / name, read_job(jobs.root / name)
    processes.kill_process(asked["process"])
    with subprocess.Popen(["sleep", "60"]) as stranger:
        write_job(folder, asked | {"process": asked["process"] | {"pid": stranger.pid}})
        assert jobs.find_job(name).state == "failed"
        assert not processes.send_signal(read_process(jobs, name), signal.SIGKILL)
        jobs.delete(name)
        assert stranger.poll() is None
        stranger.kill()


def test_a_killed_job_can_be_resumed_from_another_page(jobs):
    name = jobs.start("first-steps", {"epochs": 40}).name
    for moment in (random.uniform(0, 0.3) for _ in range(5)):
        time.sleep(moment)
        other = JobQueue(
            jobs.root, jobs.data_root, "cpu", command=LIGHT_COMMAND
        )  # as if started anew
        processes.kill_process(read_process(jobs, name))
        killed = other.find_job(name)
        assert killed.state in ("failed", "queued", "finished")
        if killed.state == "failed":
            other.resume(name)
        other.start_next()
    assert wait_for(jobs, name, "finished").epoch == 40
    epochs = [record["epoch"] for record in runs.read_history(jobs.root / name)]
    assert epochs == [*range(1, 41)]


def test_a_job_killed_before_its_first_output_has_failed(jobs):
    silent = ["/bin/sh", "-c", "sleep 0.1; kill -9 $$", "sh"]  # no room for the pictures, say
    jobs.command = silent
    name = jobs.start("first-steps", {"epochs": 3}).name
    jobs.command = LIGHT_COMMAND
    second = jobs.start("first-steps", {"epochs": 3}).name
    assert wait_for(jobs, name, "failed").message.startswith("The process ended unexpectedly")
    jobs.start_next()
    assert wait_for(jobs, second, "finished").epoch == 3
    assert jobs.find_job(name).state == "failed"
    assert (jobs.root / name / LOG_FILE).read_text().count("--- launched") == 1


def test_a_crash_during_the_start_leaves_the_job_queued(jobs, monkeypatch):
    def dies(process):
        process.stdin.close()
        process.wait()

    with monkeypatch.context() as patch:
        patch.setattr(processes, "release_process", dies)
        name = jobs.start("first-steps", {"epochs": 3}).name
    assert not (jobs.root / name / runs.CONFIG_FILE).exists()
    assert jobs.find_job(name).state == "queued"
    jobs.start_next()
    wait_for(jobs, name, "finished")
    assert (jobs.root / name / LOG_FILE).read_text().count("--- launched") == 2


def _start_in_child(root, data, results):
    jobs = JobQueue(root, data, "cpu", command=LIGHT_COMMAND)
    results.put(jobs.start("first-steps", {"epochs": 100}).name)
    os._exit(0)  # the training lives on


def test_simultaneous_starts_run_one_job(jobs):
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    arguments = (jobs.root, jobs.data_root, results)
    both = [context.Process(target=_start_in_child, args=arguments) for _ in range(2)]
    for one in both:
        one.start()
    names = {results.get() for _ in both}
    for one in both:
        one.join()
    assert names == {"first-steps-1", "first-steps-2"}
    states = sorted(job.state for job in jobs.list_jobs())
    assert states in (["queued", "starting"], ["queued", "training"])


def test_watcher_starts_queued_jobs(jobs, monkeypatch):
    monkeypatch.setattr("vitdemo.jobs.QUEUE_CHECK_SECONDS", 0.05)
    jobs.start_watching()
    first, second = (jobs.start("first-steps", {"epochs": 2}).name for _ in range(2))
    wait_for(jobs, second, "finished")
    assert jobs.find_job(first).state == "finished"


# --- what a browser may send ---------------------------------------------------------------------


def test_train_py_accepts_every_preset():
    for name in PRESETS:
        recipe = build_recipe(name, preset_values(name))
        assert set(preset_values(name)) == set(OPTIONS)
        assert train_arguments(recipe)[0] == PRESETS[name].recipe
        assert recipe.saved_epochs and max(recipe.saved_epochs) == recipe.epochs
    chosen = {"shuffled_labels": True, "flip": False, "pos_embed": "none", "depth": 2}
    words = train_arguments(build_recipe("first-steps", chosen))
    assert words[:1] == ["first-steps"]
    assert {"--shuffled-labels", "--no-flip"} <= set(words)
    assert words[words.index("--pos-embed") + 1] == "none"
    assert train_arguments(replace(get_recipe("first-steps"))) == ["first-steps"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("epochs", 0, "from 1 to 200"),
        *(("epochs", value, "whole number") for value in (2.5, True, "3; rm -rf /", None)),
        ("learning_rate", float("nan"), "a number from"),
        ("learning_rate", [1], "a number from"),
        ("optimizer", "--out=/etc", "must be one of adamw"),
        ("optimizer", ["adamw"], "must be one of"),
        ("patch_size", 5, "must be one of 2, 4"),
        ("flip", "yes", "on or off"),
        ("num_heads", 5, r"not a multiple of the number of heads \(5\)"),
        ("out", "/etc", "Unknown setting 'out'"),
        ("weights", "/etc/passwd", "Unknown setting 'weights'"),
    ],
)
def test_invalid_values_never_reach_the_command_line(jobs, name, value, words):
    with pytest.raises(VitdemoError, match=words):
        jobs.start("first-steps", {name: value})
    assert jobs.list_jobs() == []


def test_unknown_presets_names_and_folders_are_rejected(jobs, tmp_path):
    for preset in ("vit-scratch", None, ["first-steps"], "../x"):
        with pytest.raises(JobError, match="Unknown recipe"):
            jobs.start(preset, {})
    stranger = tmp_path / "runs" / "mine"
    stranger.mkdir(parents=True)
    for action in JOB_ACTIONS.values():
        for name in ("mine", "../pictures", None, 3):
            with pytest.raises(JobError, match="no longer exists"):
                action(jobs, name)
    (stranger / JOB_FILE).write_text("{}")
    assert jobs.list_jobs() == [] and stranger.is_dir()


def test_a_byte_order_mark_in_job_files_is_ignored(tmp_path):
    """Editors on Windows put one before the text."""
    asked = {"arguments": ["first-steps"], "at": 1.0}
    write_job(tmp_path, asked)
    (tmp_path / JOB_FILE).write_bytes(b"\xef\xbb\xbf" + (tmp_path / JOB_FILE).read_bytes())
    assert read_job(tmp_path) == asked
    (tmp_path / SPEEDS_FILE).write_text('{"a": 3.5}', encoding="utf-8-sig")
    assert cost.known_speeds(tmp_path) == {"a": 3.5}


def test_training_without_a_dataset_is_rejected(tmp_path):
    with pytest.raises(DataError, match="Training needs a dataset"):
        JobQueue(tmp_path / "runs", tmp_path / "none").start("first-steps", {})


def test_the_training_cost_is_measured_once(jobs):
    recipe = jobs.resolve_recipe("first-steps", TINY)
    assert recipe.train_pictures == 0  # there are fewer than it asks for
    found = estimate_training_cost(recipe, 1000, jobs.root, torch.device("cpu"))
    assert found.parameters == 15_882
    (speed,) = json.loads((jobs.root / SPEEDS_FILE).read_text()).values()
    assert speed == pytest.approx(found.images_per_second, abs=0.1)
    doubled = estimate_training_cost(
        replace(recipe, epochs=10), 1000, jobs.root, torch.device("cpu")
    )
    assert doubled.images_per_second == speed and doubled.minutes > found.minutes


# --- with train.py itself ------------------------------------------------------------------------


def test_train_py_can_be_killed_resumed_and_stopped(monkeypatch, tmp_path, put_pictures):
    # As nice as the tests: beside others, one that gives way to them would take a minute.
    monkeypatch.setattr(processes, "WAIT_SCRIPT", 'trap "" USR1; read -r _ && exec "$@"')
    jobs = JobQueue(tmp_path / "runs", put_pictures(IMAGE_COUNTS), "cpu")
    name = jobs.start("first-steps", TINY | MANY_EPOCHS).name
    wait_for(jobs, name, "training")
    time.sleep(random.uniform(0, 0.5))
    processes.kill_process(read_process(jobs, name))
    job = jobs.find_job(name)
    assert job.state == "failed" and job.message.startswith("The process ended unexpectedly")
    jobs.resume(name)
    wait_for(jobs, name, "training")
    jobs.stop(name)
    wait_for(jobs, name, "stopped")
    run = runs.read_run(jobs.root / name)
    assert run.has_weights and run.evaluation.probabilities.shape == (24, 2)
    assert run.config["resumed"] and run.config["stopped"]["epoch"] == run.history[-1]["epoch"]
    jobs.delete(name)
    assert jobs.list_jobs() == [] and not (jobs.root / name).exists()


# --- on pictures of its own ----------------------------------------------------------------------


def test_images_of_a_job_are_deleted_with_it(jobs):
    job = jobs.start_on_images(
        "own",
        ["first-steps", "--epochs", "2"],
        lambda folder: write_noise_images(folder, IMAGE_COUNTS),
    )
    assert job.name == "own-1" and (job.path / "pictures" / "train" / "ant").is_dir()
    assert f"--data {job.path / 'pictures'}" in (job.path / LOG_FILE).read_text()
    wait_for(jobs, job.name, "finished")
    jobs.delete(job.name)
    assert not job.path.exists() and not jobs.list_jobs()


def test_a_failed_image_export_leaves_no_files(jobs):
    def lay_down(folder):
        folder.mkdir()
        raise DataError("Too few.")

    with pytest.raises(DataError, match="Too few"):
        jobs.start_on_images("own", ["first-steps"], lay_down)
    assert not jobs.list_jobs() and not list(jobs.root.glob("own*"))


def test_registered_runs_are_listed_as_jobs(jobs):
    made = jobs.register_run("own", lambda folder: (folder / "it").write_text("is here"))
    assert (made.name, made.state, made.message) == ("own-1", "finished", "")
    begun = jobs.start("first-steps", MANY_EPOCHS)
    assert [job.name for job in jobs.list_jobs()] == [begun.name, made.name]
    wait_for(jobs, begun.name, "training")  # it does not wait behind what is no training
    for action in (jobs.pause, jobs.resume, jobs.stop):
        with pytest.raises(JobError, match="own-1 is finished"):
            action(made.name)
    jobs.limits = replace(jobs.limits, kept=2, waiting=0)
    with pytest.raises(JobError, match="limit of 2 stored training runs"):
        jobs.register_run("own", lambda folder: None)
    jobs.delete(made.name)
    assert not made.path.exists()
    assert jobs.register_run("own", lambda folder: None).name == "own-1"  # none need wait for it
    jobs.delete("own-1")
    with pytest.raises(ZeroDivisionError):
        jobs.register_run("own", lambda folder: 1 / 0)
    assert [job.name for job in jobs.list_jobs()] == [begun.name]
    assert not (jobs.root / "own-1").exists()


def test_a_full_disk_leaves_no_incomplete_job_folder(jobs, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vitdemo.jobs.write_job", full)
    for ask in (
        lambda: jobs.start("first-steps", MANY_EPOCHS),
        lambda: jobs.register_run("own", lambda _: None),
    ):
        with pytest.raises(OSError, match="No space left"):
            ask()
    assert list(jobs.root.glob("[!.]*")) == []
