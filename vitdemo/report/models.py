"""Table of models: cost, accuracy and calibration, for the page and the report."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from vitdemo.analyses.latency import LATENCY_BATCH_SIZES, Latency
from vitdemo.analyses.model_rows import EvaluationSummary, ModelRow
from vitdemo.analyses.published_results import published_results
from vitdemo.documents import DocumentBlock, Notice, Text
from vitdemo.documents.table import Column, Table
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.metrics import DASH

FOLDED_LABEL = "ablation runs"
COLUMN_HELP = {  # column title with unit -> help text
    "Model": "Name of the run folder.",
    "Test accuracy (%)": "Percentage of test images that are classified correctly.",
    "95% interval (%)": "Confidence interval of the test accuracy over test images. To compare two "
    "models, use the paired test, because it is more sensitive than two intervals.",
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
    "Training (minutes)": "Sum of all epoch times, including validation and the run that provided "
    "the initial weights.",
    "Training images (thousand)": "Number of images used for training, without the validation set.",
    "Latency, 1 image (ms)": "Median time of a forward pass on this machine. Use the button below "
    "to measure it.",
    "Latency, 32 images (ms)": "Median time of a forward pass of 32 images on this machine.",
    "Recipe": f"Training recipe (see `{TRAIN_COMMAND} --list`), if it differs from the model name.",
    "Dataset": "Dataset used for training and testing. Do not compare accuracies across datasets.",
    "Training device": "Device recorded by the run.",
    "Published results (%)": "Accuracy that others report for the same or a similar recipe. We "
    "did not verify it.",
}
TEXT_COLUMNS = ("Model", "Worst class", "Recipe", "Dataset", "Training device")
PAGE_COLUMNS = (  # columns that exist only in a table with latencies
    "Latency, 1 image (ms)",
    "Latency, 32 images (ms)",
    "Recipe",
    "Published results (%)",
)


def model_blocks(
    rows: Sequence[ModelRow],
    latencies: Mapping[str, Sequence[Latency]] | None = None,
    folded: Collection[str] = (),
) -> list[DocumentBlock]:
    """Return the table of models, and the columns with the same value for all models.

    Without `latencies`, the table has no `PAGE_COLUMNS`, so that it fits on paper. The rows of the
    runs `folded` are hidden at first. Exports contain all rows and columns.
    """
    texts = [_row_texts(row, (latencies or {}).get(row.name, ())) for row in rows]
    same = constant_columns(list(COLUMN_HELP), texts)
    values = "; ".join(f"{name}: {text}" for name, text in same.items() if text not in ("", DASH))
    hidden = {*same} if latencies is not None else {*same, *PAGE_COLUMNS}
    aside = [i for i, row in enumerate(rows) if row.name in folded]
    aside = aside if len(aside) < len(rows) else []
    columns = [
        Column(name, text, numeric=name not in TEXT_COLUMNS, hidden=name in hidden)
        for name, text in COLUMN_HELP.items()
    ]
    return [
        *(Notice(row.problem) for row in rows if row.problem),
        Table(columns, texts, file="vitdemo-models", folded=aside, folded_label=FOLDED_LABEL),
        *([Text(f"Same value for all models: {values}.", quiet=True)] if values else []),
    ]


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
    """Return title -> text of the columns with the same text in all rows; {} for a single row."""
    if len(rows) < 2:
        return {}
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return {name: texts[0] for name, texts in columns.items() if len(set(texts)) == 1}


def _evaluation_texts(summary: EvaluationSummary | None) -> list[str]:
    if summary is None:
        return [DASH] * 6
    low, high = summary.accuracy_interval
    return [
        f"{100 * summary.accuracy:.2f}",
        f"{100 * low:.2f} to {100 * high:.2f}",
        f"{summary.macro_f1:.4f}",
        DASH if np.isnan(summary.macro_roc_auc) else f"{summary.macro_roc_auc:.4f}",
        f"{100 * summary.calibration_error:.2f}",
        f"{summary.worst_class} ({summary.worst_f1:.3f})",
    ]


def _format_number(value: float | None, unit: float, decimals: int) -> str:
    return DASH if value is None else f"{value / unit:.{decimals}f}"
