"""State of a training job, read from its run folder and its process."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from vitdemo import runs
from vitdemo.errors import VitdemoError
from vitdemo.jobs import processes
from vitdemo.runs import JOB_FILE
from vitdemo.runs.steps import STEPS_FILE, read_steps

LOG_FILE = "train.log"
LAUNCH_MARKER = "--- launched"  # begins the log of each process; lines above are from earlier ones
QUEUED, STARTING, TRAINING, PAUSED = "queued", "starting", "training", "paused"
EVALUATING, FINISHED, STOPPED, FAILED = "evaluating", "finished", "stopped", "failed"
ACTIVE_STATES = (STARTING, TRAINING, PAUSED, EVALUATING)  # states in which no other job may start
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


@dataclass(frozen=True)
class Job:
    """Current state of a job. `asked` is the content of job.json, `words` the reason of a failure.

    `begun` means that its process has reached the first step and handles signals. `done` is the
    completed fraction of the epochs; speed and time left are None until they are known.
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


def read_job(folder: Path) -> dict | None:
    """Return the content of job.json, or None if the folder does not belong to a job."""
    try:
        found = json.loads((folder / JOB_FILE).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("arguments"), list) else None


def write_job(folder: Path, asked: dict) -> None:
    text = json.dumps(asked, indent=1)
    runs.write_atomically(folder / JOB_FILE, lambda file: file.write(text.encode()))


def read_job_state(folder: Path) -> Job | None:
    """Return the current state of the job in `folder`, or None if there is none."""
    asked = read_job(folder)
    if asked is None:
        return None
    known = asked.get("process")
    if not known:
        return Job(folder.name, folder, asked, FINISHED if asked.get("made") else QUEUED)
    process = processes.process_state(known)  # read first, so that the files below are complete
    tested = (folder / runs.EVALUATION_FILE).is_file()
    config = _config(folder)
    lines = read_steps(folder) if process != processes.GONE else []
    how_far = _progress(folder, config, lines) if config else {}
    if process == processes.GONE:
        if tested:
            state = STOPPED if "stopped" in config else FINISHED
            return Job(folder.name, folder, asked, state, **how_far)
        if not config and not last_log_message(folder):
            return Job(folder.name, folder, asked, QUEUED)  # the process was never released
        words = last_log_message(folder) or UNKNOWN_FAILURE_MESSAGE
        if words == UNKNOWN_FAILURE_MESSAGE and shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            words = DISK_FULL_MESSAGE
        return Job(folder.name, folder, asked, FAILED, words, **how_far)
    begun = bool(how_far) and _modification_time(folder / STEPS_FILE) > asked.get("launched", 0)
    if process == processes.SUSPENDED:
        state = PAUSED
    elif not begun:
        state = STARTING
    else:
        ended = how_far["epoch"] >= how_far["epochs"] or "stopped" in config
        state = EVALUATING if ended or (folder / runs.WEIGHTS_FILE).is_file() else TRAINING
    return Job(folder.name, folder, asked, state, begun=begun, **how_far)


def _modification_time(file: Path) -> float:
    """Return the time of the last change; a resumed run rewrites the file before its first step."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _config(folder: Path) -> dict:
    try:
        return runs.read_config(folder)
    except VitdemoError:
        return {}


def _progress(folder: Path, config: dict, lines: list[dict]) -> dict:
    """Return completed epochs, all epochs, done, and speed and time left if known."""
    recipe, history = config["recipe"], runs.read_history(folder)
    epochs = recipe.get("head_epochs", 0) + recipe["epochs"]
    epoch = history[-1]["epoch"] if history else 0
    within = [line for line in lines if line["epoch"] > epoch]
    part = within[-1]["step"] / within[-1]["steps"] if within else 0.0
    found = {"epoch": epoch, "epochs": epochs, "done": min((epoch + part) / epochs, 1.0)}
    recent = lines[-SPEED_WINDOW:]
    if len(recent) < 2:
        return found
    first, last = recent[0], recent[-1]
    steps = (last["epoch"] - first["epoch"]) * last["steps"] + last["step"] - first["step"]
    seconds = last["seconds"] - first["seconds"]
    if steps <= 0 or seconds <= 0:
        return found
    pictures = config.get("split", {}).get("train_pictures", recipe["batch_size"])
    left = (1 - found["done"]) * epochs * last["steps"] * seconds / steps
    speed = steps * min(recipe["batch_size"], pictures) / seconds
    return found | {"images_per_second": speed, "seconds_left": left}


def last_log_message(folder: Path) -> str:
    """Return why the last process ended, read from the log; "" if the log is empty."""
    try:
        log = (folder / LOG_FILE).read_bytes()[-65536:].decode(errors="replace")
    except OSError:
        return ""
    lines = re.split(r"[\r\n]+", log.rpartition(LAUNCH_MARKER)[2])[1:]
    if any(re.match(r"Stopped\. \d+ of \d+ epochs are saved", line) for line in lines):
        return STOPPED_OUTSIDE_MESSAGE
    said = [line.strip() for line in lines if line.startswith("train.py: ")]
    raised = [line.strip() for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    if said or raised:
        return (raised or said)[-1].removeprefix("train.py: ")[:MAX_MESSAGE_LENGTH]
    return UNKNOWN_FAILURE_MESSAGE if any(line.strip() for line in lines) else ""
