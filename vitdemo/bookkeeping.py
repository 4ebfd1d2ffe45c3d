"""What a training writes down: its run folder from the first moment up to the last epoch.

`runs.py` knows the files; here is what a training puts into them, and when.
"""

import os
import shlex
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import torch

from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.models import count_macs, count_parameters
from vitdemo.provenance import device_name, git_commit, package_versions
from vitdemo.recipes import Recipe
from vitdemo.training import Trainer

CHECKPOINT_SECONDS = 20.0  # between two checkpoints, where epochs are shorter than that


def prepare_folder(folder: Path, trainer: Trainer, config: dict) -> None:
    """Make the run folder of a new training."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (runs.WEIGHTS, runs.EVALUATION):  # of a smoke test that this one replaces
        (folder / name).unlink(missing_ok=True)
    for path in (folder / runs.EPOCHS).glob("*"):
        path.unlink()
    runs.rewrite_history(folder, ())
    runs.write_checkpoint(folder, trainer.state_dict())
    runs.write_config(folder, config)  # last: a folder that has it can be resumed


def continue_folder(folder: Path, trainer: Trainer, argv: list[str]) -> None:
    """Drop what was not saved of a run that goes on, and write down with what it does."""
    history = [r for r in runs.read_history(folder) if r["epoch"] <= trainer.epoch]
    runs.rewrite_history(folder, history)
    if not trainer.finished:
        config = runs.read_config(folder)
        before, epochs = config["recipe"]["epochs"], trainer.recipe.epochs
        changed = {"epochs_before": before} if before != epochs else {}
        resumed = [
            *config.get("resumed", ()),
            {"after_epoch": trainer.epoch} | changed | made_with(trainer, argv),
        ]
        recipe = config["recipe"] | {"epochs": epochs}
        runs.write_config(folder, config | {"recipe": recipe, "resumed": resumed})


def resumable(folder: Path, fingerprint: str, recipe: Recipe) -> dict:
    """The checkpoint of `folder`, to go on with as `recipe` has it.

    Raises `RunError` where it was begun on other data, where it is to end before the epoch that it
    has reached, or where a finished one is to go on.
    """
    config = runs.read_config(folder)
    begun, begun_with = config.get("data", {}).get("fingerprint"), config["recipe"]
    if begun != fingerprint:
        raise RunError(
            f"'{folder}' was begun on other training pictures (fingerprint {begun}, now "
            f"{fingerprint}): pass its --data, or choose another --out."
        )
    state = runs.read_checkpoint(folder)
    total = begun_with["head_epochs"] + begun_with["epochs"]
    if recipe.total_epochs != total and not state["epoch"] < min(total, recipe.total_epochs):
        raise RunError(
            f"'{folder}' has {state['epoch']} of {total} epochs and cannot end after "
            f"{recipe.total_epochs}: choose more where it is not finished, or another --out."
        )
    return state


def describe(
    trainer: Trainer,
    model: torch.nn.Module,
    classes: tuple[str, ...],
    data_name: str,
    fingerprint: str,
    argv: list[str],
) -> dict:
    """All of `config.json`."""
    recipe, preprocessing = trainer.recipe, trainer.preprocessing
    return made_with(trainer, argv) | {
        "recipe": asdict(recipe),
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


def made_with(trainer: Trainer, argv: list[str]) -> dict:
    """Command, machine, versions and time; the part of `config.json` that each --resume adds to."""
    return {
        "command": command_line(argv),
        "device": device_name(trainer.device),
        "processes": trainer.processes.count,
        "compile": trainer.compile,
        "packages": package_versions(),
        "git_commit": git_commit(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def started_from(weights: Path | None) -> dict:
    """{"started_from": the run that left `weights`, if any, and the seconds up to it}."""
    source = runs.source_of(weights) if weights else None
    if not source:
        return {}
    folder, epoch = source
    try:
        config, history = runs.read_config(folder), runs.read_history(folder)
    except RunError:  # a model of the hub's lies beside a config.json, too
        return {}
    before = config.get("started_from", {}).get("seconds", 0)
    history = [record for record in history if not epoch or record["epoch"] <= epoch]
    words = ("command", "device", "processes", "git_commit", "started")
    return {
        "started_from": {
            "run": folder.name,
            "recipe": config["recipe"].get("name"),
            "epochs": len(history),
            "seconds": before + sum(record["epoch_seconds"] for record in history),
        }
        | {word: config.get(word) for word in words}
    }


def command_line(argv: list[str]) -> str:
    """What starts this program with `argv` in as many processes as now."""
    count = os.environ.get("LOCAL_WORLD_SIZE", "1")
    start = ["python"] if count == "1" else ["torchrun", f"--nproc_per_node={count}"]
    return shlex.join([*start, "train.py", *argv])


class Saver:
    """Writes each epoch as it ends; its checkpoint at once or, where epochs are short, soon.

    A checkpoint of every epoch would cost a GPU more than the epoch. One that waits is held in
    memory, and `flush` writes it, so that only a killed process loses up to CHECKPOINT_SECONDS.
    """

    def __init__(self, folder: Path, trainer: Trainer):
        self.folder, self.trainer = folder, trainer
        self.written = time.monotonic()
        self.waiting: dict | None = None
        self.compile = trainer.compile

    def save(self, record: dict) -> None:
        if record["epoch"] in self.trainer.recipe.kept_epochs:
            weights = self.trainer.averaged_weights()
            runs.write_weights(self.folder, weights, record["epoch"])
        runs.append_record(self.folder, record)
        if self.trainer.compile != self.compile:  # the compiler failed
            self.compile = self.trainer.compile
            config = runs.read_config(self.folder)
            (config.get("resumed") or [config])[-1]["compile"] = self.compile
            runs.write_config(self.folder, config)
        if time.monotonic() - self.written < CHECKPOINT_SECONDS:
            self.waiting = detached(self.trainer.state_dict())
            return
        self.waiting = None
        runs.write_checkpoint(self.folder, self.trainer.state_dict())
        self.written = time.monotonic()

    def flush(self) -> None:
        if self.waiting:
            runs.write_checkpoint(self.folder, self.waiting)
            self.waiting = None


def detached(state):
    """A copy of nested dicts and lists whose tensors do not change with the model's."""
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: detached(value) for key, value in state.items()}
    return [detached(value) for value in state] if isinstance(state, list) else state
