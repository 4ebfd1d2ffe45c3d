"""Training progress of a run: stages, milestones and generalisation gap.

The values of epochs come from `config.json` and `history.jsonl`. The final validation accuracy
comes from the evaluation. Fields that are missing in a recipe have the defaults of `Recipe`.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from statistics import median
from typing import Any

from vitdemo.errors import RunError
from vitdemo.metrics import DASH, compute_accuracy, format_with_noun
from vitdemo.runs import Run, get_lineage
from vitdemo.training.recipes import Recipe

# Minimum distance between two milestones, in percentage points of validation accuracy
MILESTONE_STEP = 5
RECIPE_DEFAULTS = {f.name: f.default for f in fields(Recipe) if f.default is not MISSING}


@dataclass(frozen=True)
class StageChange:
    """Change within a training run, `after` a number of epochs (0: at the start).

    `text` describes the change, and `label` is a short text for plots.
    """

    after: float
    text: str
    label: str

    @property
    def when(self) -> str:
        return f"after {format_with_noun(self.after, 'epoch')}" if self.after else "at the start"


@dataclass(frozen=True)
class Milestone:
    """First epoch that reaches a validation `accuracy`, and the training minutes until its end."""

    accuracy: float
    epoch: int
    minutes: float


def recipe_field(run: Run, field: str) -> Any:
    """Return a recipe field of the run, or the default if the field is missing or invalid."""
    default = RECIPE_DEFAULTS[field]
    value = run.config["recipe"].get(field, default)
    kinds = (str, (int, float), (tuple, list))
    kind = next(kind for kind in kinds if isinstance(default, kind))
    return value if isinstance(value, kind) else default


def format_epoch_count(run: Run) -> str:
    """Return the number of epochs as text: "24", or "24 + 22" with the epochs of earlier runs."""
    own = run.history[-1]["epoch"] if run.history else 0
    return " + ".join(map(str, (own, *run.epochs_before)))


def elapsed_minutes(run: Run) -> list[float]:
    """Return `Run.elapsed_seconds` in minutes."""
    return [seconds / 60 for seconds in run.elapsed_seconds]


def generalisation_gap(run: Run) -> list[float]:
    """Return training minus validation accuracy of each epoch, in percentage points."""
    return [100 * (r["train_accuracy"] - r["val_accuracy"]) for r in run.history]


def final_validation_accuracy(run: Run) -> float | None:
    """Return the validation accuracy of the saved weights; None before the first epoch has ended.

    The accuracy comes from the evaluation or, without an evaluation, from the record of the epoch.
    The two values can differ slightly, because the weights are saved as float16.
    """
    with suppress(RunError, ValueError):
        evaluation = run.evaluation
        if evaluation.validation_probabilities is not None:
            return compute_accuracy(
                evaluation.validation_probabilities, evaluation.validation_labels
            )
    return run.weights_record and run.weights_record["val_accuracy"]


def choose_milestones(runs: Sequence[Run]) -> list[float]:
    """Return up to three validation accuracies, multiples of 5%, at which to compare the runs.

    These accuracies are the highest multiples that the worst, the median and the best run reach. If
    some of these multiples are equal, lower multiples are added.
    """
    best = [max(r["val_accuracy"] for r in run.history) for run in runs]
    steps = {
        math.floor(100 * accuracy / MILESTONE_STEP + 1e-9)
        for accuracy in (min(best), median(best), max(best))
    }
    for offset in (1, 2):
        if len(steps) < 3:
            steps.add(max(steps) - offset)
    return sorted(MILESTONE_STEP * step / 100 for step in steps if step > 0)


def median_images_per_second(run: Run) -> float | None:
    """Return the median training speed over the epochs; other load can slow single epochs."""
    return median(r["images_per_second"] for r in run.history) if run.history else None


def first_epochs_reaching(run: Run, accuracies: Sequence[float]) -> list[Milestone]:
    """Return a milestone for each of the validation `accuracies` that the run reached."""
    milestones = []
    for accuracy in accuracies:
        for record, minutes in zip(run.history, elapsed_minutes(run), strict=True):
            if record["val_accuracy"] >= accuracy:
                milestones.append(Milestone(accuracy, record["epoch"], minutes))
                break
    return milestones


def milestone_rows(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Return a table of milestones, best run first: (header, one row per run).

    Each run must have at least one epoch.
    """
    accuracies, rows = choose_milestones(runs), []
    for run in runs:
        milestones = {m.accuracy: m for m in first_epochs_reaching(run, accuracies)}
        cells = [
            f"epoch {m.epoch}, {m.minutes:.1f} min" if (m := milestones.get(accuracy)) else DASH
            for accuracy in accuracies
        ]
        best = max(record["val_accuracy"] for record in run.history)
        rows.append((-best, [run.name, *cells, f"{100 * best:.2f}%"]))
    header = ["Run", *(f"{100 * accuracy:.0f}%" for accuracy in accuracies), "Best"]
    return header, [row for _, row in sorted(rows)]


def get_weights_epoch(run: Run) -> int:
    """Return the epoch of the saved weights, counted over the run's lineage; 0 without an epoch."""
    record = run.weights_record
    return get_lineage(run)[-1][0] + record["epoch"] if record else 0


def with_lineage_history(run: Run) -> Run:
    """Return `run` with the history of all runs of its `runs.get_lineage`.

    Epochs and seconds are counted from the first of these runs.
    """
    lineage = get_lineage(run)
    history = [r | {"epoch": before + r["epoch"]} for before, part in lineage for r in part.history]
    started = {"started_from": lineage[0][1].config.get("started_from")}
    return replace(run, history=history, config=run.config | started) if lineage[1:] else run


def list_stage_changes(run: Run) -> list[StageChange]:
    """Return the stage changes of a run and its ancestors; epochs count from the first ancestor."""
    return [
        replace(stage, after=before + stage.after)
        for before, member in get_lineage(run)
        for stage in _run_stage_changes(member, was_continued=member is not run)
    ]


def _run_stage_changes(run: Run, was_continued: bool) -> list[StageChange]:
    """Return the stage changes of one run, up to its last epoch if it was stopped or continued."""
    head_epochs, epochs = recipe_field(run, "head_epochs"), recipe_field(run, "epochs")
    warmup, unmixed = recipe_field(run, "warmup_epochs"), recipe_field(run, "unmixed_epochs")
    total = head_epochs + epochs
    changes = []

    def add(after: float, text: str, label: str) -> None:
        changes.append(StageChange(after, text, label))

    if run.origin:
        add(0, _describe_origin(run), "start from weights")
    if head_epochs:
        add(head_epochs, "the first stage (classifier head only) ends", "first stage ends")
    if recipe_field(run, "schedule") == "one-cycle":
        peak = head_epochs + 0.3 * epochs
        add(peak, "the learning rate is at its peak", "peak learning rate")
    elif warmup:
        add(head_epochs + warmup, "warm-up of the learning rate ends", "warm-up ends")
    if unmixed and uses_mixing(run) and unmixed < total:
        add(total - unmixed, "MixUp and CutMix end", "MixUp, CutMix end")
    whole_epochs = recipe_field(run, "whole_epochs")
    if recipe_field(run, "patch_dropout") and 0 < whole_epochs < total:
        add(total - whole_epochs, "PatchDropout ends", "PatchDropout ends")
    if recipe_field(run, "patience") and (best := run.weights_record):
        add(best["epoch"], "lowest validation loss (saved weights)", "lowest validation loss")
    has_ended = run.history and (was_continued or "stopped" in run.config)
    end = run.history[-1]["epoch"] if has_ended else math.inf
    return sorted((stage for stage in changes if stage.after <= end), key=lambda stage: stage.after)


def _describe_origin(run: Run) -> str:
    name, epochs = run.origin.get("run", "?"), " + ".join(map(str, run.epochs_before)) or "?"
    minutes = run.seconds_before / 60
    return (
        f"started from the weights of {name} ({epochs} epochs, {minutes:.1f} minutes, included in "
        "the training time)"
    )


def uses_mixing(run: Run) -> bool:
    return bool(recipe_field(run, "mixup") or recipe_field(run, "cutmix"))


def explain_low_training_accuracy(run: Run) -> list[str]:
    """Return reasons why training can look worse than validation, strongest reason first."""
    reasons = []
    if uses_mixing(run):
        names = [n for n in ("mixup", "cutmix") if recipe_field(run, n)]
        description = " and ".join({"mixup": "MixUp", "cutmix": "CutMix"}[n] for n in names)
        reasons.append(
            f"With {description}, each training image is a mixture of two images. A prediction is "
            "correct only if it is the class of the larger part. The loss cannot approach 0."
        )
    if recipe_field(run, "patch_dropout"):
        reasons.append(
            f"In training, {100 * recipe_field(run, 'patch_dropout'):g}% of each image's patches "
            "are dropped. In validation, no patches are dropped."
        )
    augmentations = [
        description
        for field, description in (
            ("policy", "changed by random operations"),
            ("erasing", "partly erased"),
            ("cutout", "partly masked"),
            ("crop_padding", "shifted"),
            ("flip", "flipped"),
        )
        if recipe_field(run, field) not in (0, False, "none")
    ]
    if augmentations:
        reasons.append(
            f"Training images are {join_words(augmentations)}; validation images are not changed."
        )
    options = run.spec.options
    if options.get("drop_rate") or options.get("drop_path_rate"):
        reasons.append(
            "Dropout or drop path switches off parts of the model in training, but not in "
            "validation."
        )
    if recipe_field(run, "label_smoothing"):
        reasons.append(
            "With label smoothing, the training loss stays above 0 even for perfect predictions. "
            "The validation loss is cross-entropy without label smoothing."
        )
    if recipe_field(run, "ema_decay"):
        reasons.append(
            "Validation uses an exponential moving average (EMA) of the weights. The training "
            "accuracy is measured with the weights of each step."
        )
    reasons.append(
        "Training results are means over an epoch, during which the model improves. Validation "
        "results are measured at the end of the epoch."
    )
    return reasons


def count_epochs_below_validation(run: Run) -> int:
    """Count the epochs in which the training accuracy was below the validation accuracy."""
    return sum(points < 0 for points in generalisation_gap(run))


def join_words(items: Sequence[str]) -> str:
    """Join words: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))
