"""Copies of a run's progress in TensorBoard or trackio, on request (`train.py --log`).

The step of a value is the number of optimizer steps since the start of the run, because trackio has
one step axis per run. The values of an epoch are at its last step, with the number of the `epoch`.
The values have the names of the run folder's records:

- `epoch/train_loss`, ...: the numbers of a line of `history.jsonl`
- `step/loss`, `step/accuracy`: a line of `steps.jsonl`
- `test/accuracy`, `test/accuracy_low`, `test/accuracy_high`: one step after the last epoch

A resumed run adds the records of its run folder that the log lacks.
"""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vitdemo.errors import RunError
from vitdemo.runs.files import read_config, read_history
from vitdemo.runs.steps import read_steps
from vitdemo.training import Trainer

PROJECT = "vitdemo"  # project name in trackio
FLUSH_SECONDS = 10  # maximum age of values that are not yet in the event file


class LogWriter(NamedTuple):
    """Log of one run: `log(values, step)`, `close()`, and the last step that it already has."""

    log: Callable[[dict[str, float], int], None]
    close: Callable[[], None]
    last_step: int = -1


def open_tensorboard(folder: Path, config: dict) -> LogWriter:
    """Return a writer of event files in the run folder.

    A resumed run writes all values again. TensorBoard removes the values of earlier files.
    """
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder), purge_step=0, flush_secs=FLUSH_SECONDS)

    def log(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return LogWriter(log, writer.close)


def open_trackio(folder: Path, config: dict) -> LogWriter:
    """Return a writer of a run in trackio's project "vitdemo".

    The name contains the start time of the run. A resumed run therefore continues its own log, even
    if there is a log of another run folder with the same name.

    Values cannot be removed from trackio's log. After a killed process, the log therefore keeps the
    values of steps that are repeated.
    """
    import trackio

    started = re.sub(r"\D", "", config["started"][:19])
    name = f"{folder.resolve().name}-{started}"
    options = {"project": PROJECT, "name": name, "config": config, "embed": False}
    try:
        run = trackio.init(**options, resume="allow")
        # `trackio.init` reads the next step of a log on this computer or on a server. No public
        # function does this for both kinds of logs.
        return LogWriter(trackio.log, trackio.finish, run._next_step - 1)
    # trackio raises many exceptions, for example for an invalid TRACKIO_SERVER_URL.
    except Exception as error:
        raise RunError(
            f"trackio cannot start: {error} The run is in '{folder}'. Solve the problem or "
            "omit --log, and start the run with --resume."
        ) from error


WRITERS = {"tensorboard": open_tensorboard, "trackio": open_trackio}


def check_installed(names: list[str]) -> None:
    """Raise `RunError` if the package of a log in `names` is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise RunError(
                f"--log {name} needs the package {name}: install it with `pip install {name}`, or "
                "omit --log."
            )


class ProgressLog:
    """Log of one run by all its writers; without writers, it does nothing.

    `steps` is the number of optimizer steps of a complete epoch.
    """

    def __init__(self, writers: list[LogWriter], steps: int):
        self.writers, self.steps = writers, steps
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
        for writer in self.writers:
            if step > writer.last_step:
                writer.log(values, step=step)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


def count_steps(record: dict, steps: int) -> int:
    """Return the number of optimizer steps from the start of a run to a line of its records."""
    finished = (record["epoch"] - 1) * steps
    return finished + record.get("step", round(record.get("share", 1) * steps))


def open_progress_log(names: list[str], folder: Path, trainer: Trainer) -> ProgressLog:
    """Open the writers, and log the existing records of the run. Raises `RunError`."""
    config = read_config(folder) if names else {}
    writers = [WRITERS[name](folder, config) for name in dict.fromkeys(names)]
    log = ProgressLog(writers, trainer.steps)
    records = [*read_steps(folder), *read_history(folder)] if names else []
    for record in sorted(records, key=lambda r: (r["epoch"], "step" not in r)):
        (log.add_line if "step" in record else log.add_record)(record)
    return log
