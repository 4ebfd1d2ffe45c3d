"""What is true of a training that the page started: read from its run folder and its process."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from vitdemo import runs
from vitdemo.errors import VitdemoError
from vitdemo.jobs import processes
from vitdemo.runs import JOB
from vitdemo.runs.steps import STEPS, read_steps

LOG = "train.log"
LAUNCH = "--- launched"  # begins a line of the log; what is above is of an earlier process
QUEUED, STARTING, TRAINING, PAUSED = "queued", "starting", "training", "paused"
EVALUATING, FINISHED, STOPPED, FAILED = "evaluating", "finished", "stopped", "failed"
AT_WORK = (STARTING, TRAINING, PAUSED, EVALUATING)  # those that hold the machine
WINDOW = 30  # lines of steps.jsonl that say how fast it is now
NO_WORDS = "It ended without a word: killed, or the machine went down or had no room left."
DISK_FULL = "It ended without a word, and the disk is full: make room, then go on."
FULL = 1 << 20  # bytes that are free on a disk that is full
STOPPED_FROM_OUTSIDE = "It was stopped from outside the page, and can go on."
LONGEST_WORDS = 400


@dataclass(frozen=True)
class Job:
    """A training as it stands. `asked` is the content of job.json, `words` why it failed.

    `begun`: its process has come to its steps, so it listens. `done` is the share of its epochs
    0..1; speed and time left are None while nothing is known.
    """

    name: str
    path: Path
    asked: dict
    state: str
    words: str = ""
    epoch: int = 0
    epochs: int = 0
    begun: bool = False
    done: float = 0.0
    images_per_second: float | None = None
    seconds_left: float | None = None


def read_job(folder: Path) -> dict | None:
    """What was asked for; None where the folder is no job's."""
    try:
        found = json.loads((folder / JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("arguments"), list) else None


def write_job(folder: Path, asked: dict) -> None:
    text = json.dumps(asked, indent=1)
    runs.write_atomically(folder / JOB, lambda file: file.write(text.encode()))


def look(folder: Path) -> Job | None:
    """The job in `folder` as it stands now."""
    asked = read_job(folder)
    if asked is None:
        return None
    known = asked.get("process")
    if not known:
        return Job(folder.name, folder, asked, FINISHED if asked.get("made") else QUEUED)
    process = processes.state(known)  # first: what it writes before it goes is there afterwards
    tested = (folder / runs.EVALUATION).is_file()
    config = _config(folder)
    lines = read_steps(folder) if process != processes.GONE else []
    how_far = _progress(folder, config, lines) if config else {}
    if process == processes.GONE:
        if tested:
            state = STOPPED if "stopped" in config else FINISHED
            return Job(folder.name, folder, asked, state, **how_far)
        if not config and not last_words(folder):
            return Job(folder.name, folder, asked, QUEUED)  # it was never released
        words = last_words(folder) or NO_WORDS
        if words == NO_WORDS and shutil.disk_usage(folder).free < FULL:
            words = DISK_FULL
        return Job(folder.name, folder, asked, FAILED, words, **how_far)
    begun = bool(how_far) and _touched(folder / STEPS) > asked.get("launched", 0)
    if process == processes.HELD:
        state = PAUSED
    elif not begun:
        state = STARTING
    else:
        ended = how_far["epoch"] >= how_far["epochs"] or "stopped" in config
        state = EVALUATING if ended or (folder / runs.WEIGHTS).is_file() else TRAINING
    return Job(folder.name, folder, asked, state, begun=begun, **how_far)


def _touched(file: Path) -> float:
    """When it was written last: a training that goes on writes it anew before its first step."""
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
    """epoch (finished ones), epochs, done, and speed and time left where they are known."""
    recipe, history = config["recipe"], runs.read_history(folder)
    epochs = recipe.get("head_epochs", 0) + recipe["epochs"]
    epoch = history[-1]["epoch"] if history else 0
    within = [line for line in lines if line["epoch"] > epoch]
    part = within[-1]["step"] / within[-1]["steps"] if within else 0.0
    found = {"epoch": epoch, "epochs": epochs, "done": min((epoch + part) / epochs, 1.0)}
    recent = lines[-WINDOW:]
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


def last_words(folder: Path) -> str:
    """Why its last process ended, from the log; "" where it said nothing."""
    try:
        log = (folder / LOG).read_bytes()[-65536:].decode(errors="replace")
    except OSError:
        return ""
    lines = re.split(r"[\r\n]+", log.rpartition(LAUNCH)[2])[1:]
    if any(re.match(r"Stopped\. \d+ of \d+ epochs are saved", line) for line in lines):
        return STOPPED_FROM_OUTSIDE
    said = [line.strip() for line in lines if line.startswith("train.py: ")]
    raised = [line.strip() for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    if said or raised:
        return (raised or said)[-1].removeprefix("train.py: ")[:LONGEST_WORDS]
    return NO_WORDS if any(line.strip() for line in lines) else ""
