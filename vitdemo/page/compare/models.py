"""Table of all runs, read from their files, with measured latency and published results.

rows = model_rows(context)
header, texts = cells(rows)
measure_run_latency(context, context.find_run("vit-scratch"), batch=32).milliseconds
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.metrics import DASH
from vitdemo.metrics.calibration import compute_reliability
from vitdemo.metrics.classification_report import (
    ClassificationReport,
    compute_classification_report,
)
from vitdemo.metrics.training_progress import format_epoch_count
from vitdemo.runs import WEIGHTS_FILE, Evaluation, Run
from vitdemo.runs.provenance import device_name
from vitdemo.training.recipes import resolve_recipe_name

LATENCY_BATCH_SIZES = (1, 32)
WARM_UP_PASSES = 3  # untimed passes: the first passes load code and fill caches


@dataclass(frozen=True)
class EvaluationSummary:
    """Test results of a run, as fractions from 0 to 1."""

    num_images: int
    accuracy: float
    accuracy_interval: tuple[float, float]  # 95%
    macro_f1: float
    macro_roc_auc: float  # NaN if all test images have the same class
    calibration_error: float
    worst_class: str  # class with the lowest F1
    worst_f1: float


@dataclass(frozen=True)
class ModelRow:
    """Row of the model table, read from a run's files; None if a file lacks the value.

    `problem` is the reason why the evaluation is unusable, or "".
    """

    name: str
    recipe: str
    parameters: int | None
    macs: int | None  # multiply-add operations per image
    file_bytes: int | None
    evaluation: EvaluationSummary | None
    dataset_name: str | None  # name of the dataset
    num_training_images: int | None  # number of training images
    epochs: str  # see `format_epoch_count`
    train_seconds: float
    device: str | None  # training device
    problem: str = ""


@dataclass(frozen=True)
class Latency:
    """Median and quartiles of a forward pass of `batch` images on `device`, in milliseconds."""

    batch: int
    milliseconds: float
    low: float
    high: float
    passes: int
    device: str


@dataclass(frozen=True)
class PublishedResult:
    """Published result of the same or a similar recipe, which we did not measure."""

    accuracy: str  # CIFAR-10 test accuracy in percent, as printed in the source
    description: str
    source: str


_STUDENTS = "student notebooks, published without a paper"
_RESNET = PublishedResult(
    "96.0", "ResNet-18, 7 minutes on an A100", "KellerJordan/cifar10-airbench"
)
_AIRBENCH = PublishedResult(
    "94.0", "same network, 8 epochs, 6 test views per image", "KellerJordan/cifar10-airbench"
)
_AIRBENCH_WIDE = PublishedResult(
    "95.0", "same widths, 15 epochs, 6 test views per image", "KellerJordan/cifar10-airbench"
)
_VIT_SMALL = PublishedResult(
    "98.4 to 98.8", "ViT-S/16 at 224 pixels, 3 epochs", "model cards on Hugging Face"
)
_VIT_CIFAR = PublishedResult(
    "90.92", "6.3 M parameters, AutoAugment, 134 minutes on a V100", "omihub777/ViT-CIFAR"
)
_CCT = (
    PublishedResult(
        "91.45", "CCT-4/3x2, 0.48 M parameters, 200 epochs", "SHI-Labs/Compact-Transformers"
    ),
    PublishedResult("95.04", "CCT-7/3x2, 300 epochs", "SHI-Labs/Compact-Transformers"),
)
PUBLISHED_RESULTS: dict[str, tuple[PublishedResult, ...]] = {  # recipe name -> published results
    "vit-plain": (PublishedResult("76.23", "width 256, depth 6, 8 heads, 50 epochs", _STUDENTS),),
    "vit-deit-tiny": (
        PublishedResult(
            "90.9", "width 192, depth 12, 3 heads, DeiT's recipe, 300 epochs", _STUDENTS
        ),
    ),
    "vit-nine-blocks": (
        PublishedResult(
            "86.39", "width 192, depth 9, 8 heads, RandAugment, dropout, 100 epochs", _STUDENTS
        ),
    ),
    "vit-tiny-regularised": (
        PublishedResult(
            "86.70",
            "width 192, depth 12, 3 heads, TrivialAugment, MixUp, CutMix, 100 epochs",
            _STUDENTS,
        ),
    ),
    "vit-scratch": (
        PublishedResult(
            "93.58", "192/9/12, no extra data, 100 epochs, 3 views each", "aanna0701/SPT_LSA_ViT"
        ),
        PublishedResult(
            "96.41",
            "the same recipe, after 200 epochs of self-supervised pretraining on CIFAR-10",
            "hananshafi/vits-for-small-scale-datasets",
        ),
        _VIT_CIFAR,
    ),
    "vit-conv-stem": _CCT,
    "vit-conv-stem-cpu": _CCT,
    "vit-speedrun": _CCT,
    "conv-baseline-cpu": (_AIRBENCH, _RESNET),
    "conv-wide": (_AIRBENCH_WIDE, _RESNET),
    "conv-baseline": (_AIRBENCH_WIDE, _RESNET),
    "resnet18": (_RESNET,),
    "resnet18-cpu": (_RESNET,),
    "finetune-two-stage": (
        PublishedResult("94.98", "ViT-S/8 at 32 pixels, 20,000 images", _STUDENTS),
    ),
    "vit-small-pretrained": (_VIT_CIFAR,),
    "vit-scratch-cpu": (_VIT_CIFAR,),
    "finetune-deit-tiny-128": (_VIT_SMALL,),
    "finetune-deit-tiny": (_VIT_SMALL,),
    "finetune-vit-small": (_VIT_SMALL,),
}


def published_results(row: ModelRow) -> tuple[PublishedResult, ...]:
    """Return the published results for the recipe of `row`, if it was trained on CIFAR-10."""
    return PUBLISHED_RESULTS.get(row.recipe, ()) if row.dataset_name in (None, "cifar10") else ()


def model_rows(context: AppContext) -> list[ModelRow]:
    """Return a row per readable run, highest test accuracy first, then untested runs by name."""
    rows = [
        context.cache.get_or_compute((_model_row, run), partial(_model_row, context, run))
        for run in context.list_runs()[0]
    ]
    return sorted(rows, key=lambda row: -row.evaluation.accuracy if row.evaluation else 1.0)


def list_trained_runs(context: AppContext) -> list[Run]:
    """Return the runs with weights, in the order of the model table."""
    names = [row.name for row in model_rows(context) if row.file_bytes is not None]
    return [context.find_run(name) for name in names]


def _model_row(context: AppContext, run: Run) -> ModelRow:
    tested, problem = None, ""
    if run.has_evaluation:
        try:
            tested = _evaluation_summary(
                context.cache.call(compute_classification_report, run), run.evaluation
            )
        except RunError as error:
            problem = str(error)
    path = run.path / WEIGHTS_FILE
    return ModelRow(
        name=run.name,
        recipe=resolve_recipe_name(str(run.config["recipe"].get("name", DASH))),
        parameters=run.config.get("parameters"),
        macs=run.config.get("macs"),
        file_bytes=path.stat().st_size if path.is_file() else None,
        evaluation=tested,
        dataset_name=run.dataset_name,
        num_training_images=run.config.get("split", {}).get("train_pictures"),
        epochs=format_epoch_count(run),
        train_seconds=run.train_seconds,
        device=run.device,
        problem=problem,
    )


def _evaluation_summary(table: ClassificationReport, found: Evaluation) -> EvaluationSummary:
    worst = table.worst_first[0]
    low, high = map(float, table.accuracy_interval)
    return EvaluationSummary(
        num_images=len(found.labels),
        accuracy=table.accuracy,
        accuracy_interval=(low, high),
        macro_f1=table.macro["f1"],
        macro_roc_auc=table.macro["roc_auc"],
        calibration_error=compute_reliability(found.probabilities, found.labels).calibration_error,
        worst_class=table.classes[worst],
        worst_f1=float(table.columns["f1"][worst]),
    )


# --- latency -------------------------------------------------------------------------------------


def measure_run_latency(context: AppContext, run: Run, batch: int, seconds: float = 1.0) -> Latency:
    """Measure the latency of a run on the page's device, which other requests also use.

    Raises `RunError` if the run has no weights.
    """
    model = context.load_model(run)
    with context.divide_cores():
        return time_forward_passes(model, run.preprocessing.size, batch, context.device, seconds)


def time_forward_passes(
    model: nn.Module, side: int, batch: int, device: torch.device, seconds: float = 1.0
) -> Latency:
    """Time forward passes of `batch` random images, without preprocessing, after a warm-up.

    It times at least 5 passes, for at least `seconds`. `model` must be on `device`.
    """
    times = _time_passes(model, torch.randn(batch, 3, side, side, device=device), seconds)
    low, median, high = (float(1000 * t) for t in np.percentile(times, [25, 50, 75]))
    return Latency(batch, median, low, high, len(times), device_name(device))


@torch.inference_mode()
def _time_passes(model: nn.Module, pixels: torch.Tensor, seconds: float) -> list[float]:
    for _ in range(WARM_UP_PASSES):
        model(pixels)
    times: list[float] = []
    while len(times) < 5 or sum(times) < seconds:
        _synchronize(pixels.device)
        started = time.perf_counter()
        model(pixels)
        _synchronize(pixels.device)
        times.append(time.perf_counter() - started)
    return times


def _synchronize(device: torch.device) -> None:
    """Wait until all GPU operations have finished, since GPU calls return immediately."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


# --- table ---------------------------------------------------------------------------------------

COLUMN_HELP = {  # column title with unit -> help text
    "Model": "Name of the run folder.",
    "Test accuracy (%)": "Percentage of test images that are classified correctly.",
    "95% interval (%)": "Confidence interval of the test accuracy over test images. To compare two "
    "models, use the more sensitive paired test in Per-class metrics.",
    "Macro F1": "Harmonic mean of precision and recall, averaged over the classes (0 to 1).",
    "Macro ROC-AUC": "Probability that an image of a class gets a higher probability for this "
    "class than an image of another class, averaged over the classes. The value "
    "expected by chance is 0.5.",
    "ECE (%)": "Expected calibration error: mean difference between confidence and accuracy, in "
    "percentage points.",
    "Worst class": "Class with the lowest F1, and this F1.",
    "Parameters (million)": "Number of learned weights.",
    "Multiply-adds (million)": "Multiply-add operations per image.",
    "File (MB)": "Size of the weights file, in float16.",
    "Epochs": "Number of passes over the training set. A number after a plus sign counts the "
    "epochs of the run that provided the initial weights.",
    "Training (minutes)": "Sum of epoch times with validation, of this run and of the run that "
    "provided the initial weights.",
    "Training images (thousand)": "Number of images used for training, without the validation set.",
    "Latency, 1 image (ms)": "Median time of a forward pass on this machine. Use the button below "
    "to measure it.",
    "Latency, 32 images (ms)": "Median time of a forward pass of 32 images on this machine.",
    "Recipe": "Training recipe (see `python train.py --list`), if it differs from the model name.",
    "Dataset": "Dataset used for training and testing. Do not compare accuracies across datasets.",
    "Training device": "Device recorded by the run.",
    "Published results (%)": "Accuracy that others report for the same or a similar recipe. Not "
    "measured here; see the list below the table.",
}


TEXT_COLUMNS = ("Model", "Worst class", "Recipe", "Dataset", "Training device")  # text columns


def model_cells(
    rows: Sequence[ModelRow], latencies: Mapping[str, Sequence[Latency]] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return the table of models as header and rows of text, with "–" for missing values."""
    return list(COLUMN_HELP), [_row_texts(row, (latencies or {}).get(row.name, ())) for row in rows]


def _row_texts(row: ModelRow, latencies: Sequence[Latency]) -> list[str]:
    by_batch = {found.batch: f"{found.milliseconds:.1f}" for found in latencies}
    return [
        row.name,
        *_evaluation_texts(row.evaluation),
        _format_number(row.parameters, 1e6, 2),
        _format_number(row.macs, 1e6, 0),
        _format_number(row.file_bytes, 1e6, 1),
        row.epochs,
        _format_number(row.train_seconds or None, 60, 1),
        _format_number(row.num_training_images, 1e3, 1),
        *(by_batch.get(batch, DASH) for batch in LATENCY_BATCH_SIZES),
        row.recipe if row.recipe != row.name else "",
        row.dataset_name or DASH,
        row.device or DASH,
        " / ".join(found.accuracy for found in published_results(row)) or DASH,
    ]


def constant_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return title -> text of the columns that are equal in all rows; {} for a single row."""
    if len(rows) < 2:
        return {}
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return {name: texts[0] for name, texts in columns.items() if len(set(texts)) == 1}


def _evaluation_texts(found: EvaluationSummary | None) -> list[str]:
    if found is None:
        return [DASH] * 6
    low, high = found.accuracy_interval
    return [
        f"{100 * found.accuracy:.2f}",
        f"{100 * low:.2f} to {100 * high:.2f}",
        f"{found.macro_f1:.4f}",
        DASH if np.isnan(found.macro_roc_auc) else f"{found.macro_roc_auc:.4f}",
        f"{100 * found.calibration_error:.2f}",
        f"{found.worst_class} ({found.worst_f1:.3f})",
    ]


def _format_number(value: float | None, unit: float, decimals: int) -> str:
    return DASH if value is None else f"{value / unit:.{decimals}f}"


def published_cells() -> tuple[list[str], list[list[str]]]:
    """Return the table of `PUBLISHED_RESULTS` as header and rows."""
    header = ["Recipe", "Published accuracy (%)", "Model and training", "Source"]
    rows = [
        [recipe, found.accuracy, found.description, found.source]
        for recipe, several in PUBLISHED_RESULTS.items()
        for found in several
    ]
    return header, rows
