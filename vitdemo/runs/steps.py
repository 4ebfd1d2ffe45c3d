"""`steps.jsonl` of a run folder: training loss and accuracy within an epoch.

About once per second, a line is added. Each line contains `epoch`, `step`, `steps`, the training
time in `seconds`, and the mean `loss` and `accuracy` of the training images since the previous
line. The file has at most `MAX_STEP_LINES` lines. When the file is full, every second line is
removed, and the time between new lines is doubled.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vitdemo.runs import files
from vitdemo.runs.run import Run
from vitdemo.training.trainer import StepProgress, Trainer

STEPS_FILE = "steps.jsonl"
MAX_STEP_LINES = 2000
# A run was interrupted if it has no evaluation and its files have not changed for this time.
MAX_SILENT_SECONDS = 600
STEP_FIELDS = ("epoch", "step", "steps", "loss", "accuracy", "seconds")


def read_steps(folder: Path) -> list[dict]:
    """Read all complete lines of `steps.jsonl`; return [] if it is missing or cannot be read."""
    lines = []
    with suppress(OSError):
        lines = files.read_json_lines(folder / STEPS_FILE)
    return [
        line
        for line in lines
        if all(isinstance(line.get(name), int | float) for name in STEP_FIELDS)
    ]


def is_in_progress(run: Run) -> bool:
    """Return whether `run` is not evaluated yet, and its files changed recently."""
    if run.has_evaluation:
        return False
    paths = [run.path / name for name in (STEPS_FILE, files.HISTORY_FILE, files.CONFIG_FILE)]
    changed = max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
    return time.time() - changed < MAX_SILENT_SECONDS


def truncate_steps(folder: Path, trainer: Trainer) -> None:
    """Remove all lines after the last finished step of `trainer`, which is resumed there."""
    if not (folder / STEPS_FILE).exists():
        return
    step = trainer.epoch_progress.step if trainer.epoch_progress else 0
    last = (trainer.epoch + 1, step)
    kept = [line for line in read_steps(folder) if (line["epoch"], line["step"]) <= last]
    files.write_json_lines(folder / STEPS_FILE, kept)


class StepLog:
    """Writer of `steps.jsonl`: `add` each `StepProgress`; `on_line` is called per new line."""

    def __init__(
        self, folder: Path, trainer: Trainer, on_line: Callable[[dict], None] = lambda line: None
    ):
        self.folder, self.trainer, self.on_line = folder, trainer, on_line
        self.lines = read_steps(folder)
        self.before = self.lines[-1]["seconds"] if self.lines else 0.0
        self.began = time.perf_counter()
        self.every = 0.0  # minimum seconds between two lines; above 0 once the file is full
        self.epoch, self.step, self.sums = 0, 0, (0.0, 0.0)  # totals at the latest line
        if progress := trainer.epoch_progress:
            loss, correct = progress.sums.tolist()
            self.epoch, self.step = trainer.epoch + 1, progress.step
            self.sums = loss, correct / trainer.images_per_process

    def add(self, progress: StepProgress) -> None:
        seconds = self.before + time.perf_counter() - self.began
        if progress.epoch != self.epoch:
            self.epoch, self.step, self.sums = progress.epoch, 0, (0.0, 0.0)
        too_soon = self.lines and seconds - self.lines[-1]["seconds"] < self.every
        if too_soon or progress.step == self.step:
            return
        # `progress` has means since the epoch's start, and a line has means since the previous
        # line.
        sums = (progress.step * progress.loss, progress.step * progress.accuracy)
        loss, accuracy = (
            (total - previous) / (progress.step - self.step)
            for total, previous in zip(sums, self.sums, strict=True)
        )
        self.step, self.sums = progress.step, sums
        position = {"epoch": progress.epoch, "step": progress.step, "steps": progress.steps}
        means = {"loss": round(loss, 5), "accuracy": round(accuracy, 5)}
        line = position | means | {"seconds": round(seconds, 2)}
        self._write(line)
        self.on_line(line)

    def _write(self, line: dict) -> None:
        self.lines.append(line)
        if len(self.lines) > MAX_STEP_LINES:
            self.lines = self.lines[1::2]
            self.every = 2 * self.lines[-1]["seconds"] / MAX_STEP_LINES
            files.write_json_lines(self.folder / STEPS_FILE, self.lines)
            return
        with open(self.folder / STEPS_FILE, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
