"""The run folder: the one contract between training and the page.

`config.json`, `history.jsonl`, `model.safetensors`, `evaluation.npz`, `checkpoint.pt`,
`steps.jsonl` (see `steps`), and `epochs/NNNN.safetensors` for the epochs whose weights a recipe
keeps. Writes are atomic (beside, then renamed), so a run that is killed at any moment can be read
and resumed. What a training puts into these files stands in `writer`, how it goes on in `resume`,
what it takes from other runs in `origin`, and how it is tested in `evaluate`.
"""

import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, takewhile
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from vitdemo.errors import PretrainingError, RunError, VitdemoError
from vitdemo.models import ModelSpec, build_model
from vitdemo.models.pretrained import read_weights
from vitdemo.runs.provenance import plain_device
from vitdemo.training import Preprocessing
from vitdemo.training.pretraining import ACCURACIES, MASKED

CONFIG, HISTORY, WEIGHTS = "config.json", "history.jsonl", "model.safetensors"
EVALUATION, CHECKPOINT, EPOCHS = "evaluation.npz", "checkpoint.pt", "epochs"
OWN_CLASSES = "own-classes"  # recipe of those that a person's own pictures are trained with
JOB = "job.json"  # of a training that the page started: it lies there before the run does
FAITHFULNESS = "faithfulness.json"  # what was measured of the maps, see faithfulness.measured
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
SIGNIFICANT_BITS = 16  # of a stored probability; what float32 adds is noise, a fifth of a file
MOST_ORIGINS = 8  # trainings that a run is followed back through
TRAINING_OPTIONS = ("drop_rate", "drop_path_rate", "init")  # of a model: no answer asks for them


@dataclass(frozen=True)
class Evaluation:
    """The test set, in its order: `probabilities` (N, C) float32, `labels` (N,) int64.

    The M validation pictures, in the order of the split, are what a reader may choose on (a
    temperature, a threshold): the test set chooses nothing. None in older runs.
    """

    probabilities: np.ndarray
    labels: np.ndarray
    fingerprint: str
    seconds_per_image: float
    validation_probabilities: np.ndarray | None = None  # (M, C) float32
    validation_labels: np.ndarray | None = None  # (M,) int64


@dataclass(frozen=True)
class Run:
    """A run folder as it was when read.

    `name` is unique on a page, `history` has one dict an epoch (see `RECORD_FIELDS`), `stamp`
    differs as soon as a file of the folder does.
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
    def has_weights(self) -> bool:
        return (self.path / WEIGHTS).is_file()

    @property
    def has_evaluation(self) -> bool:
        return (self.path / EVALUATION).is_file()

    @property
    def device(self) -> str | None:
        """What it was trained on, as "NVIDIA H200"; "2 × NVIDIA H200" where processes shared;
        "NVIDIA H200, then AMD EPYC" where it went on on another one, or the training that it
        started from had another one."""
        trainings = [self.config, *self._before][::-1]
        legs = [leg for training in trainings for leg in (training, *resumed(training))]
        return ", then ".join(dict.fromkeys(filter(None, map(_device, legs)))) or None

    @property
    def data_name(self) -> str | None:
        """The data set that it was trained and tested on, as "cifar10"; None: its file is older."""
        return self.config.get("data", {}).get("name")

    @property
    def is_own(self) -> bool:
        """Whether it was taught a person's own classes: its figures are of few pictures."""
        return "own_classes" in self.config or self.config["recipe"].get("name") == OWN_CLASSES

    @property
    def is_masked(self) -> bool:
        """Whether it was trained without labels, as a masked autoencoder."""
        return bool(self.config["recipe"].get("mask_ratio"))

    @property
    def origin(self) -> dict:
        """What `config.json` says of the training that this one started from; {}: of none."""
        origin = self.config.get("started_from")
        return origin if isinstance(origin, dict) else {}

    @property
    def epochs_before(self) -> list[int]:
        """Of the training that this one started from, then of that which came before it, ..."""
        epochs = (origin.get("epochs") for origin in self._before)
        return list(takewhile(lambda count: isinstance(count, int), epochs))

    @property
    def _before(self) -> Iterator[dict]:
        """What `config.json` says of each training before this one, the latest first."""
        origin = self.origin
        while isinstance(origin, dict) and origin:
            yield origin
            origin = origin.get("started_from")

    @property
    def seconds_before(self) -> float:
        """Of the training that this one started from."""
        seconds = self.origin.get("seconds")
        return float(seconds) if isinstance(seconds, (int, float)) else 0.0

    @property
    def record_of_weights(self) -> dict | None:
        """The record of the epoch whose weights it has; None before one has ended.

        It is the last one, and the one with the lowest validation loss where the recipe may stop
        early.
        """
        patience = self.config["recipe"].get("patience")
        if self.history and isinstance(patience, int) and patience:
            return min(self.history, key=lambda record: record["val_loss"])
        return self.history[-1] if self.history else None

    @property
    def elapsed(self) -> list[float]:
        """Seconds of training at the end of each epoch, validation included, and of the training
        that this one started from."""
        epochs = (record["epoch_seconds"] for record in self.history)
        return list(accumulate(epochs, initial=self.seconds_before))[1:]

    @property
    def train_seconds(self) -> float:
        """`elapsed` up to now."""
        return self.elapsed[-1] if self.history else self.seconds_before

    def check_classes(self) -> None:
        """Raises `RunError` for a model without classes, of which no class can be asked."""
        if not self.classes:
            raise RunError(
                f"'{self.name}' was trained without labels: it has no classes to ask about. See "
                "what it attends to, in 'Attention', and its heads, in 'Inside'."
            )

    @cached_property
    def evaluation(self) -> Evaluation:
        """Raises `RunError` where it is missing, damaged or of other classes."""
        found = read_evaluation(self.path)
        for probabilities in (found.probabilities, found.validation_probabilities):
            if probabilities is None:
                continue
            if probabilities.ndim != 2 or probabilities.shape[1] != len(self.classes):
                raise RunError(
                    f"'{self.path / EVALUATION}' has probabilities of shape "
                    f"{probabilities.shape}, not of {len(self.classes)} classes."
                )
        return found


def write_atomically(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Let `write` fill a file beside `path`, then put it in its place in one step."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o644)  # mkstemp's 0600 would hide a run from the page's user
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def write_config(folder: Path, config: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    write_atomically(folder / CONFIG, lambda file: file.write(text.encode()))


def append_record(folder: Path, record: dict) -> None:
    """Add one epoch's line, on disk before this returns."""
    with open(folder / HISTORY, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def rewrite_history(folder: Path, records: list[dict] | tuple[dict, ...]) -> None:
    text = "".join(json.dumps(record) + "\n" for record in records)
    write_atomically(folder / HISTORY, lambda file: file.write(text.encode()))


def write_checkpoint(folder: Path, state: dict) -> None:
    # Through memory: on a full disk torch.save hides the OSError in a RuntimeError of its own.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / CHECKPOINT, lambda file: file.write(buffer.getbuffer()))


def weights_path(folder: Path, epoch: int | None = None) -> Path:
    """Where the weights to use lie, or those of one epoch."""
    return folder / WEIGHTS if epoch is None else folder / EPOCHS / f"{epoch:04}.safetensors"


def write_weights(folder: Path, weights: dict[str, Tensor], epoch: int | None = None) -> None:
    """Float tensors go to float16; integers (BatchNorm's counters) stay as they are."""
    path = weights_path(folder, epoch)
    path.parent.mkdir(exist_ok=True)
    half = {
        name: (t.half() if t.is_floating_point() else t).detach().cpu().contiguous()
        for name, t in weights.items()
    }
    write_atomically(path, lambda file: file.write(save(half)))


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Probabilities are rounded to `SIGNIFICANT_BITS`, a relative error of at most 2^-16."""
    arrays = {
        "probabilities": _rounded(evaluation.probabilities),
        "labels": evaluation.labels.astype(np.int64),
        "fingerprint": np.array(evaluation.fingerprint),
        "seconds_per_image": np.array(evaluation.seconds_per_image),
    }
    if evaluation.validation_probabilities is not None:
        arrays |= {
            "validation_probabilities": _rounded(evaluation.validation_probabilities),
            "validation_labels": evaluation.validation_labels.astype(np.int64),
        }
    write_atomically(folder / EVALUATION, lambda file: np.savez_compressed(file, **arrays))


def _rounded(values: np.ndarray) -> np.ndarray:
    fraction, exponent = np.frexp(values.astype(np.float32))
    scale = 2.0**SIGNIFICANT_BITS
    return np.ldexp(np.round(fraction * scale) / scale, exponent).astype(np.float32)


def read_config(folder: Path) -> dict:
    """Raises `RunError` naming the folder and what is wrong with it."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"'{folder}' is not a run: it has no {CONFIG}.") from error
    except (OSError, ValueError) as error:
        raise RunError(f"'{folder / CONFIG}' cannot be read: {error}.") from error
    wanted = ("recipe", "model", "classes", "normalisation")
    missing = [key for key in wanted if not isinstance(config, dict) or key not in config]
    if missing:
        raise RunError(f"'{folder / CONFIG}' lacks '{missing[0]}': the run cannot be used.")
    return config


def read_history(folder: Path) -> tuple[dict, ...]:
    """All whole lines; what a killed writer left torn is skipped. No file: no epoch yet."""
    try:
        lines = (folder / HISTORY).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    records = (_parse_record(line) for line in lines)
    return tuple(record for record in records if record)


def _parse_record(line: str) -> dict | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("stage"), str):
        return None
    absent = ("stage",) if record["stage"] != MASKED else ("stage", *ACCURACIES)
    numbers = (record.get(field) for field in RECORD_FIELDS if field not in absent)
    return record if all(isinstance(value, (int, float)) for value in numbers) else None


def read_evaluation(folder: Path) -> Evaluation:
    """Raises `RunError` where the file is missing or damaged."""
    path = folder / EVALUATION
    try:
        # Opened here, because np.load leaves a damaged zip file open.
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            names = ("validation_probabilities", "validation_labels")
            held = [file[name] for name in names] if names[0] in file.files else (None, None)
            return Evaluation(
                file["probabilities"],
                file["labels"],
                str(file["fingerprint"]),
                float(file["seconds_per_image"]),
                *held,
            )
    except FileNotFoundError as error:
        raise RunError(f"'{folder}' has no {EVALUATION}: the run is not finished.") from error
    except Exception as error:  # those of zipfile, zlib and numpy share no base
        raise RunError(f"'{path}' is damaged: run `python train.py evaluate {folder}`.") from error


def read_checkpoint(folder: Path) -> dict:
    """Raises `RunError` where there is nothing to resume from."""
    path = folder / CHECKPOINT
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise RunError(
            f"'{folder}' has no {CHECKPOINT} to resume from: start it without --resume."
        ) from error
    except Exception as error:  # torch.load raises whatever pickle and zip do
        raise RunError(f"'{path}' is damaged: delete '{folder}' and start again.") from error


def read_run(folder: Path | str) -> Run:
    """Raises `RunError` where `folder` is not a readable run, `PretrainingError` where it is one
    without labels, which there is nothing to ask."""
    run = read_training(Path(folder))
    if run.is_masked:
        raise PretrainingError(
            f"'{folder}' was trained without labels and answers nothing: start a recipe from it, "
            f"with --weights {run.path / WEIGHTS}."
        )
    return run


def resumed(config: dict) -> list[dict]:
    """What a training was gone on with."""
    found = config.get("resumed")
    return [leg for leg in found if isinstance(leg, dict)] if isinstance(found, list) else []


def _device(config: dict) -> str | None:
    """Of a training's `config.json`, or of what that says of another, or of its going on."""
    device, count = config.get("device"), config.get("processes")
    device = device and plain_device(str(device))
    return f"{count} × {device}" if device and isinstance(count, int) and count > 1 else device


def pretraining(run: Run) -> Run | None:
    """The training without labels that `run` goes back to, where its folder lies beside run's."""
    return next((origin for origin in origins(run) if origin.is_masked), None)


def origins(run: Run) -> Iterator[Run]:
    """The training that `run` started from, then that which came before it, ..., as long as their
    folders lie beside run's. Another training that has its name since is not it."""
    seen = {run.path}
    for _ in range(MOST_ORIGINS):
        origin = run.origin
        if not (name := origin.get("run")):
            return
        try:
            run = read_training(run.path.parent / Path(str(name)).name)
        except (RunError, OSError, ValueError):  # it is not here, or cannot be read
            return
        if run.path in seen or run.config.get("started") != origin.get("started"):
            return
        seen.add(run.path)
        yield run


def read_training(folder: Path) -> Run:
    """A run, or a training without labels. Raises `RunError` where `folder` is neither."""
    stamp = run_stamp(folder)  # first: what is written while we read is noticed the next time
    config = read_config(folder)
    try:
        norm, spec = config["normalisation"], ModelSpec(**config["model"])
        preprocessing = Preprocessing(spec.image_size, tuple(norm["mean"]), tuple(norm["std"]))
        classes = tuple(map(str, config["classes"]))
        for part in (spec.options, config["recipe"], config.get("data", {})):
            part.keys()  # raises where it is something else
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"'{folder / CONFIG}' is not a run's: {error!r}.") from error
    history = read_history(folder)
    return Run(folder, folder.name, config, classes, spec, preprocessing, history, stamp)


def run_stamp(folder: Path) -> tuple:
    """Times and sizes of the files that a page shows; () for those that are not there."""
    stamps = []
    for name in (CONFIG, HISTORY, WEIGHTS, EVALUATION, FAITHFULNESS):
        try:
            status = (folder / name).stat()
            stamps.append((status.st_mtime_ns, status.st_size))
        except OSError:
            stamps.append(())
    return tuple(stamps)


def find_runs(
    *roots: Path | str, read: Callable[[Path], Run] = read_run
) -> tuple[list[Run], list[str]]:
    """All runs right below `roots`, by name, and one sentence for each folder that is damaged.

    Trainings without labels are left out.
    Of two runs with the same name, the later root's is shown with the root behind its name.
    """
    runs, problems = [], []
    for root in map(Path, roots):
        for folder in _run_folders(root, problems):
            try:
                runs.append(read(folder))
            except PretrainingError:
                continue
            except (RunError, OSError) as error:
                problems.append(str(error))
    return sorted(told_apart(runs), key=lambda run: run.name), problems


def told_apart(runs: Iterable[Run]) -> list[Run]:
    """Of runs with the same name, the later one has its parent folder behind the name."""
    found = {}
    for run in runs:
        name = run.name if run.name not in found else f"{run.name} ({run.path.parent})"
        found[name] = run if name == run.name else replace(run, name=name)
    return list(found.values())


def _run_folders(root: Path, problems: list[str]) -> list[Path]:
    if not root.is_dir():
        return []
    try:
        folders = [entry for entry in root.iterdir() if entry.is_dir()]
    except OSError as error:
        problems.append(f"'{root}' cannot be read: {error.strerror}.")
        return []
    return sorted(folder for folder in folders if not _left_out(folder))


def _left_out(folder: Path) -> bool:
    """Whether it is hidden, or of a training that waits for its turn or is only just starting."""
    waits = (folder / JOB).exists() and not (folder / CONFIG).exists()
    return waits or folder.name.startswith(".")


@dataclass(frozen=True)
class Kept:
    """Weights that `run` kept after its epoch `own`, which is `epoch` counted through `lineage`."""

    epoch: int
    run: Run
    own: int


def lineage(run: Run) -> list[tuple[int, Run]]:
    """`run` and, before it, the trainings with labels of the same model that it goes on from, first
    to last, where their folders lie beside it: (epochs before, training up to where one left it).
    """
    line, counts = [run], run.epochs_before
    for origin, epochs in zip(origins(run), counts, strict=False):
        if origin.is_masked or _shape(origin) != _shape(run):
            break
        history = [record for record in origin.history if record["epoch"] <= epochs]
        line.append(replace(origin, history=history))
    counts = counts[: len(line) - 1]  # of each that came before, the latest first
    return [(sum(counts[i:]), training) for i, training in enumerate(line)][::-1]


def _shape(run: Run) -> tuple:
    """What two runs of the same model have alike: all but how it trains."""
    options = {k: v for k, v in run.spec.options.items() if k not in TRAINING_OPTIONS}
    return replace(run.spec, options=options), run.classes


def kept_weights(run: Run) -> list[Kept]:
    """What the trainings of its `lineage` kept on the way to `run`, first to last."""
    line = lineage(run)
    ends = [*(before for before, _ in line[1:]), math.inf]  # where the next one went on from each
    return [
        Kept(before + own, training, own)
        for (before, training), end in zip(line, ends, strict=True)
        for own in kept_epochs(training)
        if before + own <= end
    ]


def kept_epochs(run: Run) -> list[int]:
    """The epochs whose weights lie in the folder, beside those to use; most runs have none."""
    names = (path.name.removesuffix(".safetensors") for path in (run.path / EPOCHS).glob("*.*"))
    return sorted(int(name) for name in names if name.isdecimal())


def load_model(run: Run, device: torch.device | str = "cpu", epoch: int | None = None) -> nn.Module:
    """The run's trained model, strictly loaded, float32, in evaluation mode, on `device`.

    With an `epoch` of `kept_epochs`, the model as it was after that one.
    Raises `RunError` naming the run where its weights are missing or do not fit.
    """
    try:
        model = _load_strictly(run, weights_path(run.path, epoch))
    except FileNotFoundError as error:
        if epoch is not None:
            kept = ", ".join(map(str, kept_epochs(run))) or "none"
            raise RunError(
                f"'{run.name}' has no weights of epoch {epoch}: those that it kept are {kept}."
            ) from error
        raise RunError(
            f"'{run.name}' has no weights: it is still training, or ships without them."
        ) from error
    except VitdemoError:
        raise
    except Exception as error:  # safetensors has its own base; load_state_dict a bare RuntimeError
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:160]
        raise RunError(f"The weights of '{run.name}' cannot be loaded: {reason}.") from error
    return model.eval().to(device)


# Not in the caller's inference mode: its tensors could never carry a gradient afterwards.
@torch.inference_mode(False)
def _load_strictly(run: Run, path: Path) -> nn.Module:
    model = build_model(run.spec, len(run.classes))
    model.load_state_dict(read_weights(path), strict=True)
    return model
