"""Run folder: the interface between training and the page.

A run folder contains `config.json`, `history.jsonl`, `model.safetensors`, `evaluation.npz`,
`reference_features.npz` (see `reference`), `checkpoint.pt` and `steps.jsonl` (see `steps`). The
weights of single epochs, if the recipe saves some, are in `epochs/NNNN.safetensors`. Writes are
atomic: a temporary file is renamed. A run can therefore be read and resumed even if its process is
killed. The module `writer` writes the files during training, and `resume` continues a run. `origin`
reads the runs that a run starts from, and `evaluate` evaluates a run.
"""

import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, takewhile
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from vitdemo.data.image_folders import normalize_name
from vitdemo.errors import PretrainingError, RunError, VitdemoError, short_reason
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.models import ModelSpec, build_model
from vitdemo.models.pretrained import read_weights
from vitdemo.runs.provenance import shorten_device_name
from vitdemo.training import Preprocessing
from vitdemo.training.pretraining import ACCURACY_FIELDS, MASKED_STAGE

CONFIG_FILE, HISTORY_FILE, WEIGHTS_FILE = "config.json", "history.jsonl", "model.safetensors"
EVALUATION_FILE, CHECKPOINT_FILE, EPOCHS_FOLDER = "evaluation.npz", "checkpoint.pt", "epochs"
REFERENCE = "reference_features.npz"  # features of training images, see `reference`
CUSTOM_CLASSES_RECIPE = "own-classes"  # recipe for custom classes
JOB_FILE = "job.json"  # state of a run that the page started; written before all other files
FAITHFULNESS_FILE = "faithfulness.json"  # results of the faithfulness test
RECORD_FIELDS = (
    "epoch",
    "stage",
    "train_loss",
    "train_accuracy",
    "val_loss",
    "val_accuracy",
    "learning_rate",
    "epoch_seconds",
    "images_per_second",
)
SIGNIFICANT_BITS = 16  # bits per stored probability; more bits are noise and make files 20% larger
BYTES = "_bytes"  # suffix of an array with the bytes of float32 numbers, in files of version 0.1
MAX_ORIGINS = 8  # maximum number of earlier runs that `iter_origins` yields
TRAINING_OPTIONS = ("drop_rate", "drop_path_rate", "init")  # options without effect on predictions


@dataclass(frozen=True)
class Evaluation:
    """Predictions for the test set: `probabilities` (N, C) float32, `labels` (N,) int64.

    The M validation images are in the order of the split. Use validation predictions, never the
    test set, to choose a temperature or a threshold. The validation fields are None in older runs.
    """

    probabilities: np.ndarray
    labels: np.ndarray
    fingerprint: str
    seconds_per_image: float
    validation_probabilities: np.ndarray | None = None  # (M, C) float32
    validation_labels: np.ndarray | None = None  # (M,) int64


@dataclass(frozen=True)
class Run:
    """Content of a run folder at the time of reading.

    `name` is unique on a page. `history` contains one dict per epoch (see `RECORD_FIELDS`). `stamp`
    changes when a file of the folder changes.
    """

    path: Path
    name: str
    config: dict
    classes: tuple[str, ...]
    spec: ModelSpec
    preprocessing: Preprocessing
    history: tuple[dict, ...]
    stamp: tuple

    @property
    def place(self) -> str:
        """Parent folder, which distinguishes runs with the same name."""
        return str(self.path.parent)

    @property
    def has_weights(self) -> bool:
        return (self.path / WEIGHTS_FILE).is_file()

    @property
    def has_evaluation(self) -> bool:
        return (self.path / EVALUATION_FILE).is_file()

    @property
    def device(self) -> str | None:
        """Hardware of the run and of the runs that it started from.

        Examples: "NVIDIA H200"; "2 × NVIDIA H200" for two processes; "NVIDIA H200, then AMD EPYC"
        for a run that was resumed on other hardware.
        """
        entries = [self.config, *self._earlier_entries][::-1]
        segments = [segment for entry in entries for segment in (entry, *resume_entries(entry))]
        return ", then ".join(dict.fromkeys(filter(None, map(_entry_device, segments)))) or None

    @property
    def dataset_name(self) -> str | None:
        """Dataset of the run, for example "cifar10"; None in old runs."""
        return self.config.get("data", {}).get("name")

    @property
    def has_custom_classes(self) -> bool:
        """Whether the run was trained on custom classes, usually with few images."""
        return self.is_cross_validated or self.config["recipe"].get("name") == CUSTOM_CLASSES_RECIPE

    @property
    def is_cross_validated(self) -> bool:
        """Whether the evaluation is from cross-validation, as with custom classes of the page."""
        return "own_classes" in self.config

    @property
    def is_pretraining(self) -> bool:
        """Whether the run is self-supervised pretraining (masked autoencoder)."""
        return bool(self.config["recipe"].get("mask_ratio"))

    @property
    def origin(self) -> dict:
        """Entry in `config.json` about the run that this run started from, or {}."""
        origin = self.config.get("started_from")
        return origin if isinstance(origin, dict) else {}

    @property
    def epochs_before(self) -> list[int]:
        """Epoch counts of the runs that this run started from, the latest first."""
        epochs = (origin.get("epochs") for origin in self._earlier_entries)
        return list(takewhile(lambda count: isinstance(count, int), epochs))

    @property
    def _earlier_entries(self) -> Iterator[dict]:
        """Yield the entries in `config.json` about all earlier runs, the latest first."""
        origin = self.origin
        while isinstance(origin, dict) and origin:
            yield origin
            origin = origin.get("started_from")

    @property
    def seconds_before(self) -> float:
        """Training time in seconds of the run that this run started from."""
        seconds = self.origin.get("seconds")
        return float(seconds) if isinstance(seconds, (int, float)) else 0.0

    @property
    def weights_record(self) -> dict | None:
        """Record of the epoch whose weights are saved; None before the first epoch has ended.

        The epoch is the last one or, with early stopping, has the lowest validation loss.
        """
        patience = self.config["recipe"].get("patience")
        if self.history and isinstance(patience, int) and patience:
            return min(self.history, key=lambda record: record["val_loss"])
        return self.history[-1] if self.history else None

    @property
    def elapsed_seconds(self) -> list[float]:
        """Seconds up to the end of each epoch, including validation and `seconds_before`."""
        epochs = (record["epoch_seconds"] for record in self.history)
        return list(accumulate(epochs, initial=self.seconds_before))[1:]

    @property
    def train_seconds(self) -> float:
        return self.elapsed_seconds[-1] if self.history else self.seconds_before

    def require_classes(self) -> None:
        """Raise `RunError` if the model has no classes."""
        if not self.classes:
            raise RunError(
                f"'{self.name}' has no classifier with known labels, so it predicts no classes. "
                "Choose another model, or open 'Attention' or 'Inside the model' for this model."
            )

    @cached_property
    def evaluation(self) -> Evaluation:
        """Predictions of the run. Raises `RunError` if they are missing, damaged or unsuitable."""
        evaluation = read_evaluation(self.path)
        for probabilities in (evaluation.probabilities, evaluation.validation_probabilities):
            if probabilities is None:
                continue
            if probabilities.ndim != 2 or probabilities.shape[1] != len(self.classes):
                raise RunError(
                    f"'{self.path / EVALUATION_FILE}' has probabilities of shape "
                    f"{probabilities.shape}, but the run has {len(self.classes)} classes. Run "
                    f"`{TRAIN_COMMAND} evaluate {self.path}`."
                )
        return evaluation


def write_atomically(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a temporary file with `write`, then rename it to `path`."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's mode 0600 lets only the owner read the file
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode(errors="backslashreplace")))


def write_config(folder: Path, config: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CONFIG_FILE, json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def append_record(folder: Path, record: dict) -> None:
    """Append the record of an epoch to `history.jsonl` and flush it to disk."""
    with open(folder / HISTORY_FILE, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def rewrite_history(folder: Path, records: Sequence[dict]) -> None:
    write_json_lines(folder / HISTORY_FILE, records)


def write_json_lines(path: Path, records: Sequence[dict]) -> None:
    write_text(path, "".join(json.dumps(record) + "\n" for record in records))


def read_json_lines(path: Path) -> list[dict]:
    """Read the objects of a file; skip an incomplete line of a killed process."""
    records = []
    with suppress(FileNotFoundError):
        for line in path.read_text("utf-8-sig", errors="replace").splitlines():
            with suppress(ValueError):
                records.append(json.loads(line))
    return [record for record in records if isinstance(record, dict)]


def write_checkpoint(folder: Path, state: dict) -> None:
    # Save in memory first, because torch.save turns a full disk's OSError into a RuntimeError.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / CHECKPOINT_FILE, lambda file: file.write(buffer.getbuffer()))


def weights_path(folder: Path, epoch: int | None = None) -> Path:
    """Return the path of the final weights, or of the weights after `epoch`."""
    name = WEIGHTS_FILE if epoch is None else f"{EPOCHS_FOLDER}/{epoch:04}.safetensors"
    return folder / name


def write_weights(folder: Path, weights: dict[str, Tensor], epoch: int | None = None) -> None:
    """Save weights as float16; integer tensors (BatchNorm counters) keep their type."""
    path = weights_path(folder, epoch)
    path.parent.mkdir(exist_ok=True)
    half = {
        name: (t.half() if t.is_floating_point() else t).detach().cpu().contiguous()
        for name, t in weights.items()
    }
    write_atomically(path, lambda file: file.write(save(half)))


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Save predictions; probabilities are rounded to a relative error of at most 2^-16."""
    arrays = {
        "probabilities": _round_significant(evaluation.probabilities),
        "labels": evaluation.labels.astype(np.int64),
        "fingerprint": np.array(evaluation.fingerprint),
        "seconds_per_image": np.array(evaluation.seconds_per_image),
    }
    if evaluation.validation_probabilities is not None:
        arrays |= {
            "validation_probabilities": _round_significant(evaluation.validation_probabilities),
            "validation_labels": evaluation.validation_labels.astype(np.int64),
        }
    write_atomically(folder / EVALUATION_FILE, lambda file: np.savez_compressed(file, **arrays))


def _round_significant(values: np.ndarray) -> np.ndarray:
    fraction, exponent = np.frexp(values.astype(np.float32))
    scale = 2.0**SIGNIFICANT_BITS
    return np.ldexp(np.round(fraction * scale) / scale, exponent).astype(np.float32)


def _read_probabilities(npz: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return probabilities (N, C) float32; older files contain their bytes (4, N, C) instead."""
    if name in npz:
        return npz[name]
    values = np.ascontiguousarray(np.moveaxis(npz[f"{name}{BYTES}"], 0, -1))
    return values.view("<f4")[..., 0].astype(np.float32, copy=False)


def read_config(folder: Path) -> dict:
    """Read `config.json`; raises `RunError` if it is missing or invalid."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise RunError(
            f"'{folder}' is not a run folder: it has no {CONFIG_FILE}. Choose another folder."
        ) from error
    except (OSError, ValueError) as error:
        raise RunError(
            f"'{folder / CONFIG_FILE}' cannot be read: {error}. Choose another folder."
        ) from error
    required = ("recipe", "model", "classes", "normalisation")
    missing = [key for key in required if not isinstance(config, dict) or key not in config]
    if missing:
        raise RunError(
            f"'{folder / CONFIG_FILE}' has no field '{missing[0]}'. Choose another run folder."
        )
    return config


def read_history(folder: Path) -> tuple[dict, ...]:
    """Read the complete records of all epochs."""
    return tuple(filter(_is_complete, read_json_lines(folder / HISTORY_FILE)))


def _is_complete(record: dict) -> bool:
    stage = record.get("stage")
    absent = ("stage", *ACCURACY_FIELDS) if stage == MASKED_STAGE else ("stage",)
    numbers = (record.get(field) for field in RECORD_FIELDS if field not in absent)
    return isinstance(stage, str) and all(isinstance(value, (int, float)) for value in numbers)


def read_evaluation(folder: Path) -> Evaluation:
    """Read `evaluation.npz`; raises `RunError` if it is missing or damaged."""
    path = folder / EVALUATION_FILE
    try:
        # Opened here, because np.load does not close a damaged zip file.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as npz:
            validation = ()
            if "validation_labels" in npz:
                predicted = _read_probabilities(npz, "validation_probabilities")
                validation = predicted, npz["validation_labels"]
            return Evaluation(
                _read_probabilities(npz, "probabilities"),
                npz["labels"],
                str(npz["fingerprint"]),
                float(npz["seconds_per_image"]),
                *validation,
            )
    except FileNotFoundError as error:
        raise RunError(
            f"'{folder}' has no {EVALUATION_FILE}: the run is not finished. Resume it (--resume)."
        ) from error
    except Exception as error:  # errors of zipfile, zlib and numpy have no common base class
        raise RunError(f"'{path}' is damaged: run `{TRAIN_COMMAND} evaluate {folder}`.") from error


def read_checkpoint(folder: Path) -> dict:
    """Read `checkpoint.pt`; raises `RunError` if it is missing or damaged."""
    path = folder / CHECKPOINT_FILE
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise RunError(
            f"'{folder}' has no {CHECKPOINT_FILE} to resume from: start the run without --resume."
        ) from error
    except Exception as error:  # torch.load passes on the errors of pickle and zip
        raise RunError(f"'{path}' is damaged: delete '{folder}' and start again.") from error


def read_run(folder: Path | str) -> Run:
    """Read a run of supervised training.

    Raises `RunError` if `folder` is not a readable run, and `PretrainingError` for self-supervised
    pretraining, which makes no predictions.
    """
    run = read_any_run(Path(folder))
    if run.is_pretraining:
        raise PretrainingError(
            f"'{folder}' is a self-supervised pretraining run and makes no predictions. Start a "
            f"recipe from its weights: --weights {run.path / WEIGHTS_FILE}."
        )
    return run


def resume_entries(config: dict) -> list[dict]:
    """Return the entries in `config.json` about each --resume of a run."""
    resumed = config.get("resumed")
    return [e for e in resumed if isinstance(e, dict)] if isinstance(resumed, list) else []


def _entry_device(config: dict) -> str | None:
    """Return device and process count of the config entry of a run or a resumption."""
    device, count = config.get("device"), config.get("processes")
    device = device and shorten_device_name(str(device))
    return f"{count} × {device}" if device and isinstance(count, int) and count > 1 else device


def find_pretraining(run: Run) -> Run | None:
    """Return the pretraining run that `run` started from, or None if `iter_origins` finds none."""
    return next((origin for origin in iter_origins(run) if origin.is_pretraining), None)


def iter_origins(run: Run) -> Iterator[Run]:
    """Yield the runs that `run` started from, the latest first.

    Only runs in the same parent folder as `run` are found. A newer run with the same name as an
    origin is not used.
    """
    visited = {run.path}
    for _ in range(MAX_ORIGINS):
        origin = run.origin
        if not (name := origin.get("run")):
            return
        try:
            run = read_any_run(run.path.parent / Path(str(name)).name)
        except (RunError, OSError, ValueError):  # the origin is missing or not readable
            return
        if run.path in visited or run.config.get("started") != origin.get("started"):
            return
        visited.add(run.path)
        yield run


def read_any_run(folder: Path) -> Run:
    """Read a supervised or pretraining run; raises `RunError` if `folder` is not a readable run."""
    stamp = get_run_stamp(folder)  # the stamp comes first, so that the next call notices changes
    config = read_config(folder)
    try:
        norm, spec = config["normalisation"], ModelSpec(**config["model"])
        preprocessing = Preprocessing(spec.image_size, tuple(norm["mean"]), tuple(norm["std"]))
        classes = tuple(normalize_name(str(name)) for name in config["classes"])
        for section in (spec.options, config["recipe"], config.get("data", {})):
            section.keys()  # an AttributeError means that the section is not a dict
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"'{folder / CONFIG_FILE}' is not valid ({error!r}). Choose another run folder."
        ) from error
    history = read_history(folder)
    return Run(folder, folder.name, config, classes, spec, preprocessing, history, stamp)


def get_run_stamp(folder: Path) -> tuple:
    """Return modification time and size of each file that the page shows, or () if missing."""
    stamps = []
    files = (CONFIG_FILE, HISTORY_FILE, WEIGHTS_FILE, EVALUATION_FILE, REFERENCE, FAITHFULNESS_FILE)
    for name in files:
        try:
            status = (folder / name).stat()
            stamps.append((status.st_mtime_ns, status.st_size))
        except OSError:
            stamps.append(())
    return tuple(stamps)


def find_runs(
    *roots: Path | str, read: Callable[[Path], Run] = read_run
) -> tuple[list[Run], list[str]]:
    """Return all runs in `roots`, sorted by name, and an error message per damaged run folder.

    Pretraining runs are left out. If two runs have the same name, the root folder is appended to
    the name of the run in the later root.
    """
    runs, problems = [], []
    for root in map(Path, roots):
        for folder in _list_run_folders(root, problems):
            try:
                runs.append(read(folder))
            except PretrainingError:
                continue
            except (RunError, OSError) as error:
                problems.append(str(error))
    return sorted(disambiguate_names(runs), key=lambda run: run.name), problems


def disambiguate_names(runs: Iterable[Run]) -> list[Run]:
    """Make names unique: append `place` to the name of a later run and, if needed, a number."""
    named = {}
    for run in runs:
        name, number = run.name, 1
        while name in named:
            count = f", {number}" if number > 1 else ""
            name, number = f"{run.name} ({run.place}{count})", number + 1
        named[name] = run if name == run.name else replace(run, name=name)
    return list(named.values())


def _list_run_folders(root: Path, problems: list[str]) -> list[Path]:
    if not root.is_dir():
        return []
    try:
        folders = [entry for entry in root.iterdir() if entry.is_dir()]
    except OSError as error:
        problems.append(f"'{root}' cannot be read: {error.strerror}. Check its permissions.")
        return []
    return sorted(
        folder
        for folder in folders
        if not folder.name.startswith(".")
        # A job that has not started yet has no config.
        and ((folder / CONFIG_FILE).exists() or not (folder / JOB_FILE).exists())
    )


@dataclass(frozen=True)
class SavedWeights:
    """Weights saved after `run_epoch` of `run`; `epoch` also counts the epochs of earlier runs."""

    epoch: int
    run: Run
    run_epoch: int


def get_lineage(run: Run) -> list[tuple[int, Run]]:
    """Return `run` and the supervised runs of the same model that it continues, first to last.

    Each entry is (number of epochs before, run with its history up to the last used epoch). Only
    runs in the same parent folder as `run` are found.
    """
    lineage, counts = [run], run.epochs_before
    for origin, epochs in zip(iter_origins(run), counts, strict=False):
        if origin.is_pretraining or _model_identity(origin) != _model_identity(run):
            break
        history = [record for record in origin.history if record["epoch"] <= epochs]
        lineage.append(replace(origin, history=history))
    counts = counts[: len(lineage) - 1]  # epochs of each earlier run, the latest first
    return [(sum(counts[i:]), member) for i, member in enumerate(lineage)][::-1]


def _model_identity(run: Run) -> tuple:
    """Return the model settings and classes, without options that affect only training."""
    options = {k: v for k, v in run.spec.options.items() if k not in TRAINING_OPTIONS}
    return replace(run.spec, options=options), run.classes


def list_saved_weights(run: Run) -> list[SavedWeights]:
    """Return all saved weights of the runs in `get_lineage(run)`, first to last."""
    lineage = get_lineage(run)
    ends = [*(before for before, _ in lineage[1:]), math.inf]  # epoch at which the next run started
    return [
        SavedWeights(before + epoch, member, epoch)
        for (before, member), end in zip(lineage, ends, strict=True)
        for epoch in list_saved_epochs(member)
        if before + epoch <= end
    ]


def list_saved_epochs(run: Run) -> list[int]:
    """Return the epochs whose weights are saved in `epochs/`; most runs have none."""
    names = (path.stem for path in (run.path / EPOCHS_FOLDER).glob("*.safetensors"))
    return sorted(int(name) for name in names if name.isdecimal())


def load_model(run: Run, device: torch.device | str = "cpu", epoch: int | None = None) -> nn.Module:
    """Load the run's trained model on `device`, as float32 and in evaluation mode.

    With an `epoch` of `list_saved_epochs`, load the weights after this epoch. Raises `RunError` if
    the weights are missing or do not fit the model.
    """
    try:
        # Inference mode is off, because weights created in it can never have a gradient.
        with torch.inference_mode(False):
            model = build_model(run.spec, len(run.classes))
            model.load_state_dict(read_weights(weights_path(run.path, epoch)), strict=True)
    except FileNotFoundError as error:
        if epoch is not None:
            available = ", ".join(map(str, list_saved_epochs(run))) or "none"
            raise RunError(
                f"'{run.name}' has no weights of epoch {epoch}. Epochs with weights: {available}."
            ) from error
        raise RunError(
            f"'{run.name}' has no weights: it is still training, or included without weights. "
            "Choose another model."
        ) from error
    except VitdemoError:
        raise
    except Exception as error:  # safetensors and load_state_dict raise unrelated error classes
        raise RunError(
            f"The weights of '{run.name}' cannot be loaded: {short_reason(error)}. "
            "Choose another model."
        ) from error
    return model.eval().to(device)
