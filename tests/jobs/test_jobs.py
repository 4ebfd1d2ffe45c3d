"""Training jobs: consistent states after crashes, limits, and checks of the settings."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from tests.support.factories import write_noise_images
from tests.support.serving import start_fork
from vitdemo import runs
from vitdemo.errors import DataError, JobError, VitdemoError
from vitdemo.jobs import JOB_ACTIONS, JobLimits, JobQueue, cost, processes, state
from vitdemo.jobs.cost import estimate_training_cost
from vitdemo.jobs.options import OPTIONS, PRESETS, build_recipe, preset_values
from vitdemo.jobs.state import LAUNCH_MARKER, LOG_FILE, last_log_message, read_job, write_job
from vitdemo.runs import JOB_FILE
from vitdemo.runs.steps import read_steps
from vitdemo.training.recipes import get_recipe

LIGHT_COMMAND = (sys.executable, str(Path(__file__).with_name("light_training.py")))
IMAGE_COUNTS = {f"{part}/{name}": 12 for part in ("train", "test") for name in ("ant", "bee")}
MANY_EPOCHS = {"epochs": 200}
WEIGHTS = Path("/elsewhere/model.safetensors")  # the light training program reads no weights
TINY = {"embed_dim": 16, "depth": 1, "num_heads": 2, "batch_size": 8, "patch_size": 16}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Image folder of two classes; tests must not change it."""
    return write_noise_images(tmp_path_factory.mktemp("data") / "pictures", IMAGE_COUNTS)


@pytest.fixture
def jobs(tmp_path, pictures):
    """Queue of light jobs, deleted at the end of the test."""
    queue = JobQueue(tmp_path / "runs", pictures, "cpu", command=LIGHT_COMMAND)
    yield queue
    for job in queue.list_jobs():
        queue.delete(job.name)


def wait_for(jobs, name, *states, seconds=180):
    deadline = time.monotonic() + seconds
    while (job := jobs.find_job(name)).state not in states:
        assert time.monotonic() < deadline, f"{job} is not one of {states}"
        time.sleep(0.02)
    return job


def wait_for_step(jobs, name):
    """Wait until the current process of a job has trained a step."""
    before = len(runs.read_config(jobs.root / name).get("resumed", ()))
    while len(runs.read_config(jobs.root / name).get("resumed", ())) == before:
        assert jobs.find_job(name).state in ("starting", "training")
        time.sleep(0.05)
    lines = len(read_steps(jobs.root / name))
    while len(read_steps(jobs.root / name)) == lines:
        assert jobs.find_job(name).state in ("starting", "training")
        time.sleep(0.05)


def start_training_job(jobs, epochs=200):
    """Start a job, wait until it trains, and return (name, pid)."""
    name = jobs.start("first-steps", {"epochs": epochs}).name
    wait_for(jobs, name, "training")
    return name, read_process(jobs, name)["pid"]


def wait_for_end(pid):
    """Wait until the process has ended, which is just after its last message."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=60)


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
    assert psutil.Process(pid).environ()["GOMP_SPINCOUNT"] == "20000"
    assert wait_for(jobs, name, "finished").epoch == 8


def test_a_run_folder_that_cannot_be_written_is_reported(jobs, tmp_path):
    (tmp_path / "file").touch()
    jobs.root = tmp_path / "file" / "runs"
    with pytest.raises(JobError, match=r"written to .*/runs' \(Not a directory\).*--runs DIR"):
        jobs.start("first-steps", {})


def test_pause_resume_and_stop_keep_the_progress(jobs):
    name, pid = start_training_job(jobs)
    jobs.pause(name)
    paused = wait_for(jobs, name, "paused")
    wait_for_end(pid)
    assert paused.begun
    steps = [(line["epoch"], line["step"]) for line in read_steps(jobs.root / name)]
    assert paused.done == pytest.approx(len(steps) / 1000)
    with pytest.raises(JobError, match="cannot be paused"):
        jobs.pause(name)
    jobs.resume(name)
    wait_for(jobs, name, "training")
    after = [(line["epoch"], line["step"]) for line in read_steps(jobs.root / name)]
    assert after[: len(steps)] == steps and len({*after}) == len(after)
    while (running := jobs.find_job(name)).seconds_left is None:
        time.sleep(0.02)
    assert running.seconds_left > 0 and running.images_per_second > 0
    jobs.pause(name)
    wait_for(jobs, name, "paused")
    jobs.stop(name)  # a paused job resumes, so that it can evaluate its model
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
    assert jobs.find_job(third).state == "queued"  # a paused job still blocks the queue
    jobs.delete(first)
    wait_for(jobs, third, "training")
    assert [job.name for job in jobs.list_jobs()] == [third]
    with pytest.raises(JobError, match="no longer exists"):
        jobs.pause(first)


def test_private_job_waits_its_turn_and_only_its_owner_finds_it(jobs, tmp_path):
    first, _ = start_training_job(jobs)
    owner, write = tmp_path / "private", lambda folder: folder.mkdir()
    recipe = replace(get_recipe("first-steps", epochs=200), name="mine")
    job = jobs.start_on_images(recipe, WEIGHTS, write, private_root=owner)
    assert job.path == owner / "mine-1" and (job.path / "pictures").is_dir()
    assert job.state == "queued"
    assert [each.name for each in jobs.list_jobs()] == [first]
    with pytest.raises(JobError, match="no longer exists"):
        jobs.delete("mine-1")
    jobs.delete(first)
    deadline = time.monotonic() + 60
    while state.read_job_state(job.path).state != "training":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second = jobs.start("first-steps", MANY_EPOCHS).name
    assert jobs.find_job(second).state == "queued"
    jobs.discard(job.path)
    assert [*owner.iterdir()] == []
    wait_for(jobs, second, "training")
    jobs.discard(job.path)  # does nothing


def test_a_full_disk_is_reported_without_a_log_message(jobs, monkeypatch):
    name, _ = start_training_job(jobs)
    processes.kill_process(read_process(jobs, name))
    (jobs.root / name / LOG_FILE).write_text("--- launched first\nepoch 1/3: 5%|")
    assert jobs.find_job(name).message == state.UNKNOWN_FAILURE_MESSAGE
    monkeypatch.setattr(state.shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    assert jobs.find_job(name).message == state.DISK_FULL_MESSAGE


@pytest.mark.parametrize(
    ("log", "message"),
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
def test_log_message_is_read_from_the_last_process(tmp_path, log, message):
    (tmp_path / LOG_FILE).write_text(f"--- launched first\n{log}")
    assert last_log_message(tmp_path).startswith(message) and bool(message) == bool(
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


# --- processes that end unexpectedly -------------------------------------------------------------


def test_process_with_a_reused_pid_is_not_the_job(jobs):
    name, _ = start_training_job(jobs)
    folder, job = jobs.root / name, read_job(jobs.root / name)
    processes.kill_process(job["process"])
    with subprocess.Popen(["sleep", "60"]) as other_process:
        write_job(folder, job | {"process": job["process"] | {"pid": other_process.pid}})
        assert jobs.find_job(name).state == "failed"
        processes.send_signal(read_process(jobs, name), signal.SIGTERM)
        jobs.delete(name)
        assert other_process.poll() is None
        other_process.kill()


def test_a_killed_job_can_be_resumed_from_another_page(jobs):
    name = jobs.start("first-steps", {"epochs": 40}).name
    for delay in (random.uniform(0, 0.3) for _ in range(5)):
        time.sleep(delay)
        other_queue = JobQueue(jobs.root, jobs.data_root, "cpu", command=LIGHT_COMMAND)
        processes.kill_process(read_process(jobs, name))
        killed = other_queue.find_job(name)
        assert killed.state in ("failed", "queued", "finished")
        if killed.state == "failed":
            other_queue.resume(name)
        other_queue.start_next()
    assert wait_for(jobs, name, "finished").epoch == 40
    epochs = [record["epoch"] for record in runs.read_history(jobs.root / name)]
    assert epochs == [*range(1, 41)]


def test_a_job_killed_before_its_first_output_has_failed(jobs):
    jobs.command = ["/bin/sh", "-c", "sleep 0.1; kill -9 $$", "sh"]
    name = jobs.start("first-steps", {"epochs": 3}).name
    jobs.command = LIGHT_COMMAND
    second = jobs.start("first-steps", {"epochs": 3}).name
    assert wait_for(jobs, name, "failed").message.startswith("The process ended unexpectedly")
    jobs.start_next()
    assert wait_for(jobs, second, "finished").epoch == 3
    assert jobs.find_job(name).state == "failed"
    assert (jobs.root / name / LOG_FILE).read_text().count("--- launched") == 1


def test_a_job_paused_while_it_starts_can_be_resumed(jobs):
    jobs.command = [sys.executable, "-c", "import time; time.sleep(60)"]
    name = jobs.start("first-steps", {"epochs": 3}).name
    assert jobs.find_job(name).state == "starting"
    jobs.pause(name)
    assert not wait_for(jobs, name, "paused").begun
    with pytest.raises(JobError, match="no model to evaluate"):
        jobs.stop(name)
    jobs.command = LIGHT_COMMAND
    jobs.resume(name)
    assert wait_for(jobs, name, "finished").epoch == 3


def test_a_starting_job_stops_immediately(jobs):
    jobs.command = [sys.executable, "-c", "import time; time.sleep(60)"]
    name = jobs.start("first-steps", {"epochs": 3}).name
    pid = read_process(jobs, name)["pid"]
    jobs.stop(name)  # without a trained step, there is nothing to keep
    wait_for_end(pid)
    assert jobs.list_jobs() == [] and not (jobs.root / name).exists()

    jobs.command = LIGHT_COMMAND
    name, _ = start_training_job(jobs)
    jobs.pause(name)
    wait_for(jobs, name, "paused")
    jobs.command = [sys.executable, "-c", "import time; time.sleep(60)"]
    jobs.resume(name)
    assert jobs.find_job(name).state == "starting"
    jobs.command = LIGHT_COMMAND
    jobs.stop(name)  # the trained steps are kept and evaluated
    assert 0 < wait_for(jobs, name, "stopped").done < 1


def test_a_pause_outlives_the_page_and_keeps_the_time_limit(jobs):
    name, _ = start_training_job(jobs)
    jobs.pause(name)
    trained = read_steps(wait_for(jobs, name, "paused").path)[-1]["seconds"]
    limits = JobLimits(minutes=60)
    other_queue = JobQueue(jobs.root, jobs.data_root, "cpu", limits, command=LIGHT_COMMAND)
    assert other_queue.find_job(name).state == "paused"
    other_queue.resume(name)
    launch = (jobs.root / name / LOG_FILE).read_text().rpartition(LAUNCH_MARKER)[2]
    left = float(launch.split("--keep-after ")[1].split()[0])
    assert left == pytest.approx(60 - trained / 60, abs=1e-3) and "--resume" in launch


def _start_in_child(root, data, results):
    jobs = JobQueue(root, data, "cpu", command=LIGHT_COMMAND)
    results.put(jobs.start("first-steps", {"epochs": 100}).name)
    os._exit(0)  # an exit without clean-up leaves the training process alive


def test_simultaneous_starts_run_one_job(jobs):
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    arguments = (jobs.root, jobs.data_root, results)
    children = [context.Process(target=_start_in_child, args=arguments) for _ in range(2)]
    for child in children:
        child.start()
    names = {results.get() for _ in children}
    for child in children:
        child.join()
    assert names == {"first-steps-1", "first-steps-2"}
    states = sorted(job.state for job in jobs.list_jobs())
    assert states in (["queued", "starting"], ["queued", "training"])


def test_watcher_starts_queued_jobs(jobs, monkeypatch):
    monkeypatch.setattr("vitdemo.jobs.QUEUE_CHECK_SECONDS", 0.05)
    jobs.start_watching()
    first, second = (jobs.start("first-steps", {"epochs": 2}).name for _ in range(2))
    wait_for(jobs, second, "finished")
    assert jobs.find_job(first).state == "finished"


# --- validation of settings ----------------------------------------------------------------------


def test_every_preset_has_a_valid_recipe():
    for name in PRESETS:
        recipe = build_recipe(name, preset_values(name))
        assert set(preset_values(name)) == set(OPTIONS)
        assert recipe.name == PRESETS[name].recipe
        assert recipe.saved_epochs and max(recipe.saved_epochs) == recipe.epochs
    values = {"shuffled_labels": True, "flip": False, "pos_embed": "none", "depth": 2}
    recipe = build_recipe("first-steps", values)
    assert recipe.shuffled_labels and not recipe.flip
    assert (recipe.model.options["pos_embed"], recipe.model.options["depth"]) == ("none", 2)


@pytest.mark.parametrize(
    ("name", "value", "message"),
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
def test_invalid_values_start_no_job(jobs, name, value, message):
    with pytest.raises(VitdemoError, match=message):
        jobs.start("first-steps", {name: value})
    assert jobs.list_jobs() == []


def test_unknown_presets_names_and_folders_are_rejected(jobs, tmp_path):
    for preset in ("vit-scratch", None, ["first-steps"], "../x"):
        with pytest.raises(JobError, match="Unknown recipe"):
            jobs.start(preset, {})
    other_run = tmp_path / "runs" / "mine"
    other_run.mkdir(parents=True)
    (tmp_path / "pictures").mkdir()
    for action in JOB_ACTIONS.values():
        for name in ("mine", "../pictures", None, 3):
            with pytest.raises(JobError, match="no longer exists"):
                action(jobs, name)
    (other_run / JOB_FILE).write_text("{}")
    assert jobs.list_jobs() == [] and other_run.is_dir()


def test_a_byte_order_mark_in_job_files_is_ignored(tmp_path):
    """Read files saved by Windows editors, which put the mark before the text."""
    job = {"process": None, "at": 1.0}
    write_job(tmp_path, job)
    (tmp_path / JOB_FILE).write_bytes(b"\xef\xbb\xbf" + (tmp_path / JOB_FILE).read_bytes())
    assert read_job(tmp_path) == job


def test_training_without_a_dataset_is_rejected(tmp_path):
    with pytest.raises(DataError, match="Training needs a dataset"):
        JobQueue(tmp_path / "runs", tmp_path / "none").start("first-steps", {})


def test_the_training_cost_is_measured_again_after_some_minutes(jobs, monkeypatch):
    speeds = iter((100.0, 20.0))  # the machine is busy later
    monkeypatch.setattr(cost, "measure_training_speed", lambda recipe, device: next(speeds))
    monkeypatch.setattr(cost, "_speeds", {})
    recipe, device = jobs.resolve_recipe("first-steps", TINY), torch.device("cpu")
    assert recipe.train_pictures == 0  # the dataset has fewer images than the recipe requests
    estimate = estimate_training_cost(recipe, 1000, device)
    assert (estimate.parameters, estimate.images_per_second) == (15_882, 100)
    longer = estimate_training_cost(replace(recipe, epochs=10), 1000, device)
    assert longer.images_per_second == 100 and longer.minutes > estimate.minutes
    monkeypatch.setattr(cost, "MAX_AGE_SECONDS", -1)
    # A measurement would slow down the run in progress.
    assert estimate_training_cost(recipe, 1000, device, busy=True).minutes == estimate.minutes
    assert estimate_training_cost(recipe, 1000, device).minutes > estimate.minutes


def test_the_cost_follows_the_speed_of_the_run_in_progress(jobs, monkeypatch):
    recipe = jobs.resolve_recipe("first-steps", TINY)
    estimate = estimate_training_cost(recipe, 1000, torch.device("cpu"), live_speed=50.0)
    assert estimate.images_per_second == 50
    assert estimate.speed_text == "Speed of the run in progress: 50 images/s"
    assert jobs.find_live_speed(recipe) is None
    live = state.Job("live", jobs.root, {}, "training", images_per_second=50.0)
    monkeypatch.setattr(JobQueue, "list_jobs", lambda _: [live])
    monkeypatch.setattr("vitdemo.jobs.get_resume_recipe", lambda *_: replace(recipe, epochs=9))
    assert jobs.find_live_speed(recipe) == 50
    assert jobs.find_live_speed(jobs.resolve_recipe("first-steps", TINY | {"depth": 2})) is None


def test_the_training_speed_is_measured(jobs):
    recipe = jobs.resolve_recipe("first-steps", TINY)
    assert cost.measure_training_speed(recipe, torch.device("cpu")) > 0


# --- with train.py itself ------------------------------------------------------------------------


def start_forked_train(command, cwd, stdout, env, **_):
    """Start the command of a job as `subprocess.Popen` does, without importing torch again."""
    program = command.index("vitdemo.cli.train")
    variables = {"GOMP_SPINCOUNT": env["GOMP_SPINCOUNT"]}
    options, log = [*command[program + 1 :]], Path(stdout.name)
    process = start_fork("tests.support.grouped_train", options, log, Path(cwd), variables)
    return SimpleNamespace(pid=process.pid, wait=process.join)


def test_train_py_can_be_killed_resumed_and_stopped(monkeypatch, tmp_path, pictures):
    # On a busy machine, a process of lower priority than the tests would take a minute.
    monkeypatch.setattr(processes, "TRAINING_NICENESS", 0)
    jobs = JobQueue(tmp_path / "runs", pictures, "cpu")
    name = jobs.start("first-steps", TINY | MANY_EPOCHS).name
    wait_for(jobs, name, "training")
    time.sleep(random.uniform(0, 0.5))
    processes.kill_process(read_process(jobs, name))
    job = jobs.find_job(name)
    assert job.state == "failed" and job.message.startswith("The process ended unexpectedly")
    monkeypatch.setattr(processes.subprocess, "Popen", start_forked_train)
    jobs.resume(name)
    wait_for_step(jobs, name)
    jobs.pause(name)
    saved = runs.read_checkpoint(wait_for(jobs, name, "paused").path)
    jobs.resume(name)
    wait_for_step(jobs, name)
    jobs.stop(name)
    wait_for(jobs, name, "stopped")
    run = runs.read_run(jobs.root / name)
    assert run.has_weights and run.evaluation.probabilities.shape == (24, 2)
    entries = run.config["resumed"]
    assert len(entries) == 2 and entries[-1]["after_epoch"] == saved["epoch"]
    assert entries[-1].get("after_step") == (saved["progress"] or {}).get("step")
    assert run.config["stopped"]["epoch"] == run.history[-1]["epoch"]
    jobs.delete(name)
    assert jobs.list_jobs() == [] and not (jobs.root / name).exists()


# --- jobs with their own images ------------------------------------------------------------------


def test_images_of_a_job_are_deleted_with_it(jobs):
    job = jobs.start_on_images(
        replace(get_recipe("first-steps", epochs=2), name="own"),
        WEIGHTS,
        lambda folder: write_noise_images(folder, IMAGE_COUNTS),
    )
    assert job.name == "own-1" and (job.path / "pictures" / "train" / "ant").is_dir()
    log = (job.path / LOG_FILE).read_text()
    assert f"--data {job.path / 'pictures'}" in log and f"--weights {WEIGHTS}" in log
    wait_for(jobs, job.name, "finished")
    jobs.delete(job.name)
    assert not job.path.exists() and not jobs.list_jobs()


def test_a_failed_image_export_leaves_no_files(jobs):
    def fail_export(folder):
        folder.mkdir()
        raise DataError("Too few.")

    with pytest.raises(DataError, match="Too few"):
        jobs.start_on_images(get_recipe("first-steps"), WEIGHTS, fail_export)
    assert not jobs.list_jobs() and not list(jobs.root.glob("first*"))


def test_registered_runs_are_listed_as_jobs(jobs):
    registered = jobs.register_run("own", lambda folder: (folder / "it").write_text("is here"))
    assert (registered.name, registered.state, registered.message) == ("own-1", "finished", "")
    training = jobs.start("first-steps", MANY_EPOCHS)
    assert [job.name for job in jobs.list_jobs()] == [training.name, registered.name]
    wait_for(jobs, training.name, "training")  # a registered run does not block the queue
    for action in (jobs.pause, jobs.resume, jobs.stop):
        with pytest.raises(JobError, match="own-1 is finished"):
            action(registered.name)
    jobs.limits = replace(jobs.limits, kept=2, waiting=0)
    with pytest.raises(JobError, match="limit of 2 stored training runs"):
        jobs.register_run("own", lambda folder: None)
    jobs.delete(registered.name)
    assert not registered.path.exists()
    assert jobs.register_run("own", lambda folder: None).name == "own-1"
    jobs.delete("own-1")
    with pytest.raises(ZeroDivisionError):
        jobs.register_run("own", lambda folder: 1 / 0)
    assert [job.name for job in jobs.list_jobs()] == [training.name]
    assert not (jobs.root / "own-1").exists()


def test_a_full_disk_leaves_no_incomplete_job_folder(jobs, monkeypatch):
    def raise_disk_full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vitdemo.jobs.write_job", raise_disk_full)
    for create_job in (
        lambda: jobs.start("first-steps", MANY_EPOCHS),
        lambda: jobs.register_run("own", lambda _: None),
    ):
        with pytest.raises(OSError, match="No space left"):
            create_job()
    assert list(jobs.root.glob("[!.]*")) == []
