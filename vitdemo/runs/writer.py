"""Writing of a run folder during training, from the start to the last epoch.

`files` defines the format of the files.
"""

import copy
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from vitdemo import data
from vitdemo.errors import RunError
from vitdemo.installation import TRAIN_COMMAND, TRAIN_TARGET
from vitdemo.models import count_macs, count_parameters
from vitdemo.runs import files
from vitdemo.runs.provenance import device_name, git_commit, package_versions
from vitdemo.runs.steps import STEPS_FILE
from vitdemo.training import Trainer
from vitdemo.training.recipes.ablations import declare_ablations

LOCK_FILE = "train.lock"
CHECKPOINT_INTERVAL = 20.0  # seconds between two checkpoints, if epochs are shorter


def check_folder_unused(folder: Path, *, smoke: bool) -> None:
    """Raise `RunError` if `folder` contains a run; a smoke test may replace another smoke test."""
    if not (folder / files.CONFIG_FILE).exists():
        return
    if (
        not smoke
        or files.read_config(folder).get("data", {}).get("name") != data.SYNTHETIC_DATASET.name
    ):
        raise RunError(
            f"'{folder}' already contains a run: continue it with --resume, or choose another "
            "--out."
        )


@contextmanager
def lock_run_folder(folder: Path) -> Iterator[None]:
    """Reserve a run folder for this process; a folder that remains empty is removed at the end.

    The system releases the lock if the process is killed. Raises `RunError` if another process has
    reserved the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise RunError(
            f"Another process trains the run in '{folder}': wait for it, or choose another --out."
        ) from error
    try:
        yield
    finally:
        lock.release()
        (folder / LOCK_FILE).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def create_run_folder(folder: Path, trainer: Trainer, config: dict) -> None:
    """Create the run folder of a new training run, with its `config` and first checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    # Remove the files of a previous smoke test.
    for name in (files.WEIGHTS_FILE, files.EVALUATION_FILE, files.REFERENCE, STEPS_FILE):
        (folder / name).unlink(missing_ok=True)
    for path in (folder / files.EPOCHS_FOLDER).glob("*"):
        path.unlink()
    files.rewrite_history(folder, ())
    files.write_checkpoint(folder, trainer.state_dict())
    files.write_config(folder, config)  # the last file, because it makes a run resumable


def build_config(
    trainer: Trainer,
    model: torch.nn.Module,
    classes: tuple[str, ...],
    data_name: str,
    fingerprint: str,
    argv: list[str],
) -> dict:
    recipe, preprocessing = trainer.recipe, trainer.preprocessing
    return get_provenance(trainer, argv) | {
        "recipe": asdict(recipe),
        "ablations": declare_ablations(asdict(recipe)),
        "model": asdict(recipe.model),
        "classes": list(classes),
        "normalisation": {"mean": preprocessing.mean, "std": preprocessing.std},
        "input_size": preprocessing.size,
        "data": {"name": data_name, "fingerprint": fingerprint},
        "split": {
            "seed": recipe.seed,
            "train_pictures": len(trainer.train),
            "validation_pictures": len(trainer.validation),
        },
        "parameters": count_parameters(model),
        "macs": count_macs(model, preprocessing.size),
    }


def record_stop(folder: Path, trainer: Trainer) -> None:
    """Record in `config.json` that the run was stopped before its last epoch, and the last step."""
    position = {"epoch": trainer.epoch, "step": trainer.stopped_step, "steps": trainer.steps}
    files.write_config(folder, files.read_config(folder) | {"stopped": position})


def get_provenance(trainer: Trainer, argv: list[str]) -> dict:
    """Return command, device, versions and start time, which each --resume records again."""
    return {
        "command": format_command(argv),
        "device": device_name(trainer.device),
        "processes": trainer.processes.count,
        "compile": trainer.compile,
        "packages": package_versions(),
        "git_commit": git_commit(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def format_command(argv: list[str]) -> str:
    """Return the command that starts this program with `argv` in as many processes as now."""
    count = os.environ.get("LOCAL_WORLD_SIZE", "1")
    if count == "1":
        return shlex.join([*TRAIN_COMMAND.split(), *argv])
    return shlex.join(["torchrun", f"--nproc_per_node={count}", *TRAIN_TARGET, *argv])


class EpochSaver:
    """Writer of each epoch's record and checkpoint to the run folder.

    On a GPU, writing a checkpoint can take longer than an epoch. If epochs are short, only some
    checkpoints are written; the latest checkpoint is held in memory until `flush`. A killed process
    loses at most one epoch or, of short epochs, `CHECKPOINT_INTERVAL` seconds.
    """

    def __init__(self, folder: Path, trainer: Trainer):
        self.folder, self.trainer = folder, trainer
        self.written = self.ended = time.monotonic()
        self.waiting: dict | None = None
        self.compile = trainer.compile

    def save(self, record: dict) -> None:
        if record["epoch"] in self.trainer.recipe.saved_epochs:
            weights = self.trainer.ema_weights()
            files.write_weights(self.folder, weights, record["epoch"])
        files.append_record(self.folder, record)
        if self.trainer.compile != self.compile:  # compilation failed in this epoch
            self.compile = self.trainer.compile
            config = files.read_config(self.folder)
            (config.get("resumed") or [config])[-1]["compile"] = self.compile
            files.write_config(self.folder, config)
        now = time.monotonic()
        epoch, self.ended = now - self.ended, now
        if now - self.written + epoch < CHECKPOINT_INTERVAL:  # too early for a checkpoint
            self.waiting = copy.deepcopy(self.trainer.state_dict())
            return
        self.save_checkpoint()
        self.written = time.monotonic()

    def save_checkpoint(self) -> None:
        self.waiting = None
        files.write_checkpoint(self.folder, self.trainer.state_dict())

    def flush(self) -> None:
        if self.waiting:
            files.write_checkpoint(self.folder, self.waiting)
            self.waiting = None
