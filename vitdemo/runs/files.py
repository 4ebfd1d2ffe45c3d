"""Files of a run folder: names, and functions that write and read them.

Writes are atomic: a temporary file is renamed. A run can therefore be read and resumed even if its
process is killed.
"""

import io
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from vitdemo.errors import RunError
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.training.pretraining import ACCURACY_FIELDS, MASKED_STAGE

CONFIG_FILE, HISTORY_FILE, WEIGHTS_FILE = "config.json", "history.jsonl", "model.safetensors"
EVALUATION_FILE, CHECKPOINT_FILE, EPOCHS_FOLDER = "evaluation.npz", "checkpoint.pt", "epochs"
REFERENCE = "reference_features.npz"  # features of training images, see `reference`
JOB_FILE = "job.json"  # state of a run that the page started; written before all other files
FAITHFULNESS_FILE = "faithfulness.json"  # results of the faithfulness test
PROBES_FILE = "linear_probes.json"  # accuracies of linear probes after each layer
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
