"""Copies of a run's progress in TensorBoard or trackio, on request (`train.py --log`).

The step of a value is the number of optimizer steps since the start of the run, because W&B and
trackio have one step axis per run. The values of an epoch are at its last step, with the number
of the `epoch`. The values have the names of the run folder's records:

- `epoch/train_loss`, ...: the numbers of a line of `history.jsonl`
- `step/loss`, `step/accuracy`: a line of `steps.jsonl`
- `test/accuracy`, `test/accuracy_low`, `test/accuracy_high`: one step after the last epoch

A log that lacks records of the run folder receives them when training is resumed. Values that the
log already contains are not written again.
"""

import importlib.util
import re
from pathlib import Path
from typing import Protocol

from vitdemo.errors import RunError
from vitdemo.runs.files import read_config, read_history
from vitdemo.runs.steps import read_steps
from vitdemo.training import Trainer

PROJECT = "vitdemo"  # project name in trackio
EVENT_FILES = "events.out.tfevents.*"
FLUSH_SECONDS = 10  # maximum age of values that are not yet in the event file
NOTHING_LOGGED = -1

class Tracker(Protocol):
    """Log of one run; `last_step` is the last step of its previous sessions."""

    last_step: int

    def log(self, values: dict[str, float], step: int) -> None: ...

    def close(self) -> None:
        """Write everything that is still in memory, and end the log."""

class TensorBoardTracker:
    """Event files in the run folder.

    Values after the checkpoint, from which training is resumed, are declared invalid with
    `purge_step`. TensorBoard removes them when it reads the files.
    """

    def __init__(self, folder: Path, config: dict, finished_steps: int):
        from torch.utils.tensorboard import SummaryWriter

        if finished_steps == 0:
            for file in folder.glob(EVENT_FILES):  # files of a smoke test that this run replaces
                file.unlink()
        self.last_step = min(read_last_step(folder), finished_steps)
        self.writer = SummaryWriter(
            str(folder), purge_step=self.last_step + 1, flush_secs=FLUSH_SECONDS
        )

    def log(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()

def read_last_step(folder: Path) -> int:
    """Return the last step in the event files of `folder`, or `NOTHING_LOGGED`."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    if not any(folder.glob(EVENT_FILES)):
        return NOTHING_LOGGED
    events = EventAccumulator(str(folder)).Reload()
    steps = [event.step for tag in events.Tags()["scalars"] for event in events.Scalars(tag)]
    return max(steps, default=NOTHING_LOGGED)

class TrackioTracker:
    """Run of the project "vitdemo" in trackio.

    The name contains the start time of the run, so that a resumed run continues its own log and not
    the log of another run folder with the same name. trackio cannot remove single values. After a
    killed process, the log therefore keeps the values of steps that are repeated.
    """

    def __init__(self, folder: Path, config: dict, finished_steps: int):
        import trackio

        self.trackio = trackio
        started = re.sub(r"\D", "", config["started"][:19])
        name = f"{folder.resolve().name}-{started}"
        options = {"project": PROJECT, "name": name, "config": config, "embed": False}
        try:
            run = trackio.init(**options, resume="allow")
            # `trackio.init` reads the next step of a log on this computer or on a server. No public
            # function does this for both kinds of logs.
            self.last_step = run._next_step - 1
        # trackio raises many exceptions, for example for an invalid TRACKIO_SERVER_URL.
        except Exception as error:
            raise RunError(
                f"trackio cannot start: {error} The run is in '{folder}'. Solve the problem or "
                "omit --log, and start the run with --resume."
            ) from error

    def log(self, values: dict[str, float], step: int) -> None:
        self.trackio.log(values, step=step)

    def close(self) -> None:
        self.trackio.finish()

TRACKERS = {"tensorboard": TensorBoardTracker, "trackio": TrackioTracker}

def check_installed(names: list[str]) -> None:
    """Raise `RunError` if the package of a tracker in `names` is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise RunError(
                f"--log {name} needs the package {name}: install it with `pip install {name}`, or "
                "omit --log."
            )

class ProgressLog:
    """Log of one run in all its trackers; without trackers, it does nothing.

    `steps` is the number of optimizer steps of a complete epoch.
    """

    def __init__(self, trackers: list[Tracker], steps: int):
        self.trackers, self.steps = trackers, steps
        self.last_step = 0
        self.waiting: dict[str, float] = {}  # values of an epoch's last step

    def add_line(self, line: dict) -> None:
        """Log a line of `steps.jsonl`; the line of an epoch's last step waits for its record.

        Without this order, a process that ends between the two writes would leave an incomplete
        last step. A resumed run would not complete it.
        """
        values = {f"step/{name}": line[name] for name in ("loss", "accuracy")}
        if line["step"] == line["steps"]:
            self.waiting = values
        else:
            self._log(values, count_steps(line, self.steps))

    def add_record(self, record: dict) -> None:
        numbers = {n: value for n, value in record.items() if isinstance(value, int | float)}
        values = {"epoch": numbers.pop("epoch")}
        values |= {f"epoch/{name}": value for name, value in numbers.items()}
        self._log(self.waiting | values, count_steps(record, self.steps))
        self.waiting = {}

    def add_test(self, accuracy: float, low: float, high: float) -> None:
        """Log the test accuracy with its 95% confidence interval, as fractions from 0 to 1."""
        values = {"accuracy": accuracy, "accuracy_low": low, "accuracy_high": high}
        self._log({f"test/{name}": value for name, value in values.items()}, self.last_step + 1)

    def _log(self, values: dict[str, float], step: int) -> None:
        self.last_step = step
        for tracker in self.trackers:
            if step > tracker.last_step:
                tracker.log(values, step)

    def close(self) -> None:
        for tracker in self.trackers:
            tracker.close()

def count_steps(record: dict, steps: int) -> int:
    """Return the number of optimizer steps from the start of a run to a line of its records."""
    finished = (record["epoch"] - 1) * steps
    return finished + record.get("step", round(record.get("share", 1) * steps))

def open_progress_log(names: list[str], folder: Path, trainer: Trainer) -> ProgressLog:
    """Open the trackers, and log the existing records of the run. Raises `RunError`."""
    if not names:
        return ProgressLog([], trainer.steps)
    lines, history = read_steps(folder), read_history(folder)
    config = read_config(folder)
    ends = [count_steps(record, trainer.steps) for record in (*lines, *history)]
    finished = max(ends, default=0)
    trackers = [TRACKERS[name](folder, config, finished) for name in dict.fromkeys(names)]
    log = ProgressLog(trackers, trainer.steps)
    for record in sorted([*lines, *history], key=lambda r: (r["epoch"], "step" not in r)):
        (log.add_line if "step" in record else log.add_record)(record)
    return log
