"""State of a training job, read from its run folder and its process."""

import json
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vitdemo import runs
from vitdemo.errors import VitdemoError
from vitdemo.installation import TRAIN_NAME
from vitdemo.jobs import processes
from vitdemo.runs import JOB_FILE
from vitdemo.runs.steps import STEPS_FILE, read_steps

LOG_FILE = "train.log"
LAUNCH_MARKER = "--- launched"  # first line of each process in the log
QUEUED, STARTING, TRAINING = "queued", "starting", "training"
PAUSING, PAUSED = "pausing", "paused"
EVALUATING, FINISHED, STOPPED, FAILED = "evaluating", "finished", "stopped", "failed"
# States in which no other job may start.
ACTIVE_STATES = (STARTING, TRAINING, PAUSING, PAUSED, EVALUATING)
PAUSE, FINISH = "pause", "finish"  # requests of the user to a process
SPEED_WINDOW = 30  # number of recent lines of steps.jsonl that determine the current speed
UNKNOWN_FAILURE_MESSAGE = (
    "The process ended unexpectedly; it was killed, or ran out of memory. Press Continue."
)
DISK_FULL_MESSAGE = (
    "The process ended because the disk is full. Free some space, then press Continue."
)
MIN_FREE_BYTES = 1 << 20  # a disk with fewer free bytes counts as full
STOPPED_OUTSIDE_MESSAGE = "The process was stopped outside the page. Press Continue."
MAX_MESSAGE_LENGTH = 400
RESULT_SECONDS = 600  # time for which the result of a job stays the job to show first


@dataclass(frozen=True)
class Job:
    """Current state of a training job; `record` is the content of job.json.

    `message` is the reason for a failure. `begun` means that the process has reached the first step
    and handles signals, or that a paused job can be evaluated. `epoch` is the last epoch with a
    result, and `last_fraction` is the trained part of this epoch. The part is less than 1 if the
    user stopped the run. `done` is the completed fraction of all epochs. Speed and time left are
    None until they are known.
    """

    name: str
    path: Path
    record: dict
    state: str
    message: str = ""
    epoch: int = 0
    epochs: int = 0
    begun: bool = False
    done: float = 0.0
    images_per_second: float | None = None
    seconds_left: float | None = None
    last_fraction: float = 1.0

    @property
    def is_unfinished(self) -> bool:
        """Whether the job is in progress, or waits for other jobs."""
        return self.state in (QUEUED, *ACTIVE_STATES)


def read_job(folder: Path) -> dict | None:
    """Return the content of job.json, or None if `folder` is not the folder of a job."""
    try:
        job = json.loads((folder / JOB_FILE).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return None
    return job if isinstance(job, dict) and "process" in job else None


def write_job(folder: Path, record: dict) -> None:
    runs.write_text(folder / JOB_FILE, json.dumps(record, indent=1))


def read_job_state(folder: Path) -> Job | None:
    """Return the current state of the job in `folder`, or None if `folder` has no job."""
    record = read_job(folder)
    if record is None:
        return None
    process_id = record.get("process")
    if not process_id:
        return Job(folder.name, folder, record, FINISHED if record.get("made") else QUEUED)
    # Read the state of the process first: if it has ended, the files read below are complete.
    is_alive = processes.is_alive(process_id)
    is_evaluated = (folder / runs.EVALUATION_FILE).is_file()
    config = {}
    with suppress(VitdemoError):
        config = runs.read_config(folder)
    lines = read_steps(folder) if is_alive or record.get("request") == PAUSE else []
    progress = read_progress(folder, config, lines, record.get("ends")) if config else {}
    if not is_alive:
        if is_evaluated:
            state = STOPPED if "stopped" in config else FINISHED
            return Job(folder.name, folder, record, state, **progress)
        if record.get("request") == PAUSE:
            return Job(folder.name, folder, record, PAUSED, begun=bool(config), **progress)
        message = last_log_message(folder) or UNKNOWN_FAILURE_MESSAGE
        if message == UNKNOWN_FAILURE_MESSAGE and shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            message = DISK_FULL_MESSAGE
        return Job(folder.name, folder, record, FAILED, message, **progress)
    begun = bool(progress) and _modification_time(folder / STEPS_FILE) > record.get("launched", 0)
    if record.get("request") == PAUSE:
        state = PAUSING
    elif not begun:
        state = STARTING
    else:
        ended = progress["epoch"] >= progress["epochs"] or "stopped" in config
        state = EVALUATING if ended or (folder / runs.WEIGHTS_FILE).is_file() else TRAINING
    return Job(folder.name, folder, record, state, begun=begun, **progress)


def find_followed_job(jobs: list[Job]) -> Job | None:
    """Return the job whose epochs are animated: in progress, or the newest job with epochs."""
    at_work = [job for job in jobs if job.state in ACTIVE_STATES]
    begun = [job for job in jobs if job.epochs]
    return next(iter(at_work or begun), None)


def find_live_job(jobs: list[Job]) -> Job | None:
    """Return the job in progress, or the newest job if it waits, has failed or has just ended."""
    at_work = [job for job in jobs if job.state in ACTIVE_STATES]
    newest = [job for job in jobs[:1] if job.state in (QUEUED, FAILED) or _has_just_ended(job)]
    return next(iter(at_work or newest), None)


def _has_just_ended(job: Job) -> bool:
    ended = _modification_time(job.path / runs.EVALUATION_FILE)
    return not job.record.get("made") and time.time() - ended < RESULT_SECONDS


def _modification_time(file: Path) -> float:
    """Return the time in seconds of the last change of `file`; 0 if it does not exist."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def read_progress(folder: Path, config: dict, lines: list[dict], ends: float | None) -> dict:
    """Return the progress fields of `Job`: epochs, fraction, speed and time left, if known.

    The process stops after `ends` seconds of training, even if epochs are left.
    """
    recipe, history = config["recipe"], runs.read_history(folder)
    epochs = recipe.get("head_epochs", 0) + recipe["epochs"]
    epoch = history[-1]["epoch"] if history else 0
    last = history[-1].get("share", 1.0) if history else 1.0
    current = [line for line in lines if line["epoch"] > epoch]
    fraction = current[-1]["step"] / current[-1]["steps"] if current else 0.0
    done = min((epoch - (1 - last) + fraction) / epochs, 1.0)
    progress = {"epoch": epoch, "last_fraction": last, "epochs": epochs, "done": done}
    if not lines:
        return progress
    start, end = lines[-SPEED_WINDOW:][0], lines[-1]
    steps = (end["epoch"] - start["epoch"]) * end["steps"] + end["step"] - start["step"]
    seconds = end["seconds"] - start["seconds"]
    if steps <= 0 or seconds <= 0:
        return progress
    image_count = config.get("split", {}).get("train_pictures", recipe["batch_size"])
    seconds_left = (1 - done) * epochs * end["steps"] * seconds / steps
    if ends is not None:
        seconds_left = min(seconds_left, max(ends - end["seconds"], 0))
    speed = steps * min(recipe["batch_size"], image_count) / seconds
    return progress | {"images_per_second": speed, "seconds_left": seconds_left}


def last_log_message(folder: Path) -> str:
    """Return the reason why the latest process ended, from its log; "" if the log is empty."""
    try:
        log = (folder / LOG_FILE).read_bytes()[-65536:].decode(errors="replace")
    except OSError:
        return ""
    lines = re.split(r"[\r\n]+", log.rpartition(LAUNCH_MARKER)[2])[1:]
    if any(re.match(r"Stopped\. \d+ of \d+ epochs are saved", line) for line in lines):
        return STOPPED_OUTSIDE_MESSAGE
    messages = [line.strip() for line in lines if line.startswith(f"{TRAIN_NAME}: ")]
    errors = [line.strip() for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    if messages or errors:
        return (errors or messages)[-1].removeprefix(f"{TRAIN_NAME}: ")[:MAX_MESSAGE_LENGTH]
    return UNKNOWN_FAILURE_MESSAGE if any(line.strip() for line in lines) else ""
