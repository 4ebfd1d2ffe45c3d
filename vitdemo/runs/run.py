"""Content of a run folder: settings, history and predictions of one training run."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, takewhile
from pathlib import Path

from vitdemo.errors import RunError
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.models import ModelSpec
from vitdemo.runs.files import EVALUATION_FILE, WEIGHTS_FILE, Evaluation, read_evaluation
from vitdemo.runs.provenance import shorten_device_name
from vitdemo.training import Preprocessing

CUSTOM_CLASSES_RECIPE = "own-classes"  # recipe for custom classes


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
    def has_folder(self) -> bool:
        """Whether the run was trained by vitdemo and has a run folder, unlike an opened model."""
        return True

    @property
    def has_weights(self) -> bool:
        return (self.path / WEIGHTS_FILE).is_file()

    @property
    def has_evaluation(self) -> bool:
        return (self.path / EVALUATION_FILE).is_file()

    @property
    def is_results_only(self) -> bool:
        """Whether the run was evaluated, and its weights are missing."""
        return self.has_evaluation and not self.has_weights

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


def resume_entries(config: dict) -> list[dict]:
    """Return the entries in `config.json` about each --resume of a run."""
    resumed = config.get("resumed")
    return [e for e in resumed if isinstance(e, dict)] if isinstance(resumed, list) else []


def _entry_device(config: dict) -> str | None:
    """Return device and process count of the config entry of a run or a resumption."""
    device, count = config.get("device"), config.get("processes")
    device = device and shorten_device_name(str(device))
    return f"{count} × {device}" if device and isinstance(count, int) and count > 1 else device
