"""All runs in one table, from their files; how fast they are here; what others report.

rows = model_rows(workbench)
header, texts = cells(rows)
latency(workbench, workbench.run("vit-scratch"), batch=32).milliseconds
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from vitdemo.errors import RunError
from vitdemo.metrics import DASH
from vitdemo.metrics.calibration import reliability
from vitdemo.metrics.learning import epoch_count
from vitdemo.metrics.tested_runs import ClassTable, class_table
from vitdemo.recipes import current_name
from vitdemo.runs import WEIGHTS, Evaluation, Run
from vitdemo.runs.provenance import device_name
from vitdemo.workbench import Workbench

BATCHES = (1, 32)
WARM_UP = 3  # passes: the first ones load code and fill caches


@dataclass(frozen=True)
class Tested:
    """What the test set says of a run; shares are 0 to 1."""

    pictures: int
    accuracy: float
    accuracy_interval: tuple[float, float]  # 95 %
    macro_f1: float
    macro_roc_auc: float  # NaN where all pictures are of one class
    calibration_error: float
    worst_class: str  # by F1
    worst_f1: float


@dataclass(frozen=True)
class ModelRow:
    """One run, from its files alone; None is what they do not say.

    `problem` is the sentence that says why a run's evaluation cannot be used.
    """

    name: str
    recipe: str
    parameters: int | None
    macs: int | None  # multiply-adds of one picture
    file_bytes: int | None
    tested: Tested | None
    data: str | None  # name of the data set
    training_pictures: int | None  # of which one epoch sees each once
    epochs: str  # see `epoch_count`
    train_seconds: float
    device: str | None  # that it was trained on
    problem: str = ""


@dataclass(frozen=True)
class Latency:
    """One forward pass of `batch` pictures on `device`, in milliseconds: median and quartiles."""

    batch: int
    milliseconds: float
    low: float
    high: float
    passes: int
    device: str


@dataclass(frozen=True)
class Reported:
    """What others report for a recipe's like. Nothing here was measured by this project."""

    accuracy: str  # percent of CIFAR-10's test pictures, as printed there
    what: str
    source: str


_STUDENTS = "student notebooks, published without a paper"
_RESNET = Reported("96.0", "ResNet-18, 7 minutes on an A100", "KellerJordan/cifar10-airbench")
_AIRBENCH = Reported(
    "94.0", "the same network, 8 epochs of 50,000, six views", "KellerJordan/cifar10-airbench"
)
_AIRBENCH_WIDE = Reported(
    "95.0", "the same widths, 15 epochs of 50,000, six views", "KellerJordan/cifar10-airbench"
)
_VIT_SMALL = Reported("98.4 to 98.8", "ViT-S/16 at 224 px, 3 epochs", "model cards on Hugging Face")
_VIT_CIFAR = Reported(
    "90.92", "6.3 M parameters, AutoAugment, 2 h 14 on a V100", "omihub777/ViT-CIFAR"
)
_CCT = (
    Reported("91.45", "CCT-4/3x2, 0.48 M, 200 epochs", "SHI-Labs/Compact-Transformers"),
    Reported("95.04", "CCT-7/3x2, 300 epochs", "SHI-Labs/Compact-Transformers"),
)
REPORTED: dict[str, tuple[Reported, ...]] = {  # by recipe
    "vit-plain": (Reported("76.23", "width 256, depth 6, 8 heads, 50 epochs", _STUDENTS),),
    "vit-deit-tiny": (Reported("90.9", "192/12/3 with DeiT's recipe, 300 epochs", _STUDENTS),),
    "vit-nine-blocks": (
        Reported("86.39", "192/9/8 with RandAugment and dropout, 100 epochs", _STUDENTS),
    ),
    "vit-tiny-regularised": (
        Reported("86.70", "192/12/3, TrivialAugment, MixUp, CutMix, 100 epochs", _STUDENTS),
    ),
    "vit-scratch": (
        Reported(
            "93.58", "192/9/12, no extra data, 100 epochs of 3 views", "aanna0701/SPT_LSA_ViT"
        ),
        Reported(
            "96.41",
            "the same after 200 epochs of self-supervision on CIFAR-10",
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
    "finetune-two-stage": (Reported("94.98", "ViT-S/8 at 32 px, 20,000 pictures", _STUDENTS),),
    "vit-small-pretrained": (_VIT_CIFAR,),
    "vit-scratch-cpu": (_VIT_CIFAR,),
    "finetune-deit-tiny-128": (_VIT_SMALL,),
    "finetune-deit-tiny": (_VIT_SMALL,),
    "finetune-vit-small": (_VIT_SMALL,),
}


def reported(row: ModelRow) -> tuple[Reported, ...]:
    """What others report for the recipe of `row`, where it was trained on the same data set."""
    return REPORTED.get(row.recipe, ()) if row.data in (None, "cifar10") else ()


def model_rows(workbench: Workbench) -> list[ModelRow]:
    """Every readable run, best test accuracy first; those without one come last, by name."""
    rows = [
        workbench.cache.get_or_make((_row, run), partial(_row, workbench, run))
        for run in workbench.runs()[0]
    ]
    return sorted(rows, key=lambda row: -row.tested.accuracy if row.tested else 1.0)


def trained_rows(workbench: Workbench) -> list[Run]:
    """The runs of the table that have weights, in its order: those that can be timed and tried."""
    names = [row.name for row in model_rows(workbench) if row.file_bytes is not None]
    return [workbench.run(name) for name in names]


def _row(workbench: Workbench, run: Run) -> ModelRow:
    tested, problem = None, ""
    if run.has_evaluation:
        try:
            tested = _tested(workbench.cache.of(class_table, run), run.evaluation)
        except RunError as error:
            problem = str(error)
    path = run.path / WEIGHTS
    return ModelRow(
        name=run.name,
        recipe=current_name(str(run.config["recipe"].get("name", DASH))),
        parameters=run.config.get("parameters"),
        macs=run.config.get("macs"),
        file_bytes=path.stat().st_size if path.is_file() else None,
        tested=tested,
        data=run.data_name,
        training_pictures=run.config.get("split", {}).get("train_pictures"),
        epochs=epoch_count(run),
        train_seconds=run.train_seconds,
        device=run.device,
        problem=problem,
    )


def _tested(table: ClassTable, found: Evaluation) -> Tested:
    worst = table.worst_first[0]
    low, high = map(float, table.accuracy_interval)
    return Tested(
        pictures=len(found.labels),
        accuracy=table.accuracy,
        accuracy_interval=(low, high),
        macro_f1=table.macro["f1"],
        macro_roc_auc=table.macro["roc_auc"],
        calibration_error=reliability(found.probabilities, found.labels).error,
        worst_class=table.classes[worst],
        worst_f1=float(table.columns["f1"][worst]),
    )


# --- how fast it is here -------------------------------------------------------------------------


def latency(workbench: Workbench, run: Run, batch: int, seconds: float = 1.0) -> Latency:
    """`timed` on the device of the page, with the cores that questions meanwhile leave to it, which
    its device names. Raises `RunError` without weights."""
    model = workbench.model(run)
    with workbench.shared_cores():
        return timed(model, run.preprocessing.size, batch, workbench.device, seconds)


def timed(
    model: nn.Module, side: int, batch: int, device: torch.device, seconds: float = 1.0
) -> Latency:
    """Time forward passes of `batch` random pictures, preprocessed beforehand, after a warm-up.

    At least 5 passes and then until `seconds` are over; `model` is on `device`.
    """
    times = _pass_times(model, torch.randn(batch, 3, side, side, device=device), seconds)
    low, median, high = (float(1000 * t) for t in np.percentile(times, [25, 50, 75]))
    return Latency(batch, median, low, high, len(times), device_name(device))


@torch.inference_mode()
def _pass_times(model: nn.Module, pixels: torch.Tensor, seconds: float) -> list[float]:
    for _ in range(WARM_UP):
        model(pixels)
    times: list[float] = []
    while len(times) < 5 or sum(times) < seconds:
        _wait_for(pixels.device)
        started = time.perf_counter()
        model(pixels)
        _wait_for(pixels.device)
        times.append(time.perf_counter() - started)
    return times


def _wait_for(device: torch.device) -> None:
    """A GPU answers before it has worked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


# --- as a table ----------------------------------------------------------------------------------

HEADER = {  # title with its unit -> what it says, in plain words
    "Model": "The name of the run's folder.",
    "Test accuracy (%)": "Of 100 test pictures, how many it classifies correctly.",
    "95 % interval (%)": "Such an interval holds the accuracy on all pictures of the same kind "
    "19 times in 20; of two models, look at Per-class metrics for the sharper, paired test.",
    "Macro F1": "Precision and recall in one, 0 to 1, the mean of the classes.",
    "Macro ROC-AUC": "How surely a picture of a class ranks above another one, 0.5 (by chance) "
    "to 1; the mean of the classes.",
    "ECE (%)": "Expected calibration error: how far its confidence is from its accuracy, on "
    "average, in percentage points.",
    "Worst class": "The class with the lowest F1, and that F1.",
    "Parameters (million)": "Numbers that training may change: what the model can store.",
    "Multiply-adds (million)": "Products and sums for one picture: the work of one answer.",
    "File (MB)": "Size of its weights on the disk, in float16.",
    "Epochs": "How often it saw every training picture; behind a plus, in the training that its "
    "weights came from.",
    "Training (minutes)": "Of all its epochs, validation included, and of the training that its "
    "weights came from, where there was one.",
    "Training pictures (thousand)": "Those it learned from: a recipe may take a part of them, and "
    "the validation pictures are left out.",
    "1 picture here (ms)": "Median time of a forward pass on this machine, measured by the button.",
    "32 pictures here (ms)": "The same for 32 pictures at once.",
    "Recipe": "How it was trained: one of `python train.py --list`, where its name is another.",
    "Data set": "Whose pictures it was trained and tested on: accuracies of two data sets are no "
    "match for each other.",
    "Trained on": "The device, as the run noted it.",
    "Reported elsewhere (%)": "What others report for the same recipe or its like: not measured "
    "here, see the list below the table.",
}


WORDS = ("Model", "Worst class", "Recipe", "Data set", "Trained on")  # columns without numbers


def cells(
    rows: Sequence[ModelRow], latencies: Mapping[str, Sequence[Latency]] | None = None
) -> tuple[list[str], list[list[str]]]:
    """The header (those of `HEADER`) and one row of texts a model; a dash is not known."""
    return list(HEADER), [_texts(row, (latencies or {}).get(row.name, ())) for row in rows]


def _texts(row: ModelRow, latencies: Sequence[Latency]) -> list[str]:
    by_batch = {found.batch: f"{found.milliseconds:.1f}" for found in latencies}
    return [
        row.name,
        *_tested_texts(row.tested),
        _number(row.parameters, 1e6, 2),
        _number(row.macs, 1e6, 0),
        _number(row.file_bytes, 1e6, 1),
        row.epochs,
        _number(row.train_seconds or None, 60, 1),
        _number(row.training_pictures, 1e3, 1),
        *(by_batch.get(batch, DASH) for batch in BATCHES),
        row.recipe if row.recipe != row.name else "",
        row.data or DASH,
        row.device or DASH,
        " / ".join(found.accuracy for found in reported(row)) or DASH,
    ]


def told_once(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """The columns that tell no rows apart: title -> the one text of all; of a single row none."""
    if len(rows) < 2:
        return {}
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return {name: texts[0] for name, texts in columns.items() if len(set(texts)) == 1}


def _tested_texts(found: Tested | None) -> list[str]:
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


def _number(value: float | None, unit: float, decimals: int) -> str:
    return DASH if value is None else f"{value / unit:.{decimals}f}"


def reported_cells() -> tuple[list[str], list[list[str]]]:
    """`REPORTED` as a header and rows."""
    header = ["Recipe", "Reported accuracy (%)", "What it is", "Source"]
    rows = [
        [recipe, found.accuracy, found.what, found.source]
        for recipe, several in REPORTED.items()
        for found in several
    ]
    return header, rows
