"""Confusion matrix of a run: cells, figure and table, for the page, the report and a handout.

Letters: C classes; cell (i, j) contains the images of class i that were predicted as class j.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vitdemo import figures
from vitdemo.analyses.predictions import ComparablePredictions
from vitdemo.documents import Bullets, Details, DocumentBlock, Figure, Heading, Plots
from vitdemo.documents.table import Table
from vitdemo.figures.matrix import plot_confusion_matrix
from vitdemo.metrics import DASH, confusion_matrix, describe_pair, most_confused_pairs
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.runs import Run

COUNTS, TRUE_PERCENTAGES, PREDICTED_PERCENTAGES = "count", "true", "predicted"
UNITS = {  # unit of the cells -> label
    COUNTS: "Counts",
    TRUE_PERCENTAGES: "Percentage of true class",
    PREDICTED_PERCENTAGES: "Percentage of predicted class",
}
MAX_PAIRS = 10
CORNER = "true \\ predicted"
TABLE_TITLE = "Table of all counts"
PAIRS_TITLE = "Most confused pairs"


@dataclass(frozen=True)
class ConfusionCells:
    """Confusion matrix of one model, or difference of two models; `values` (C, C) in `unit`."""

    group: ComparablePredictions
    run: str
    other: str | None
    unit: str
    errors_only: bool
    counts: np.ndarray  # (C, C), confusion matrix of `run`
    other_counts: np.ndarray | None  # (C, C), confusion matrix of `other`
    values: np.ndarray
    has_different_images: bool = False  # whether `other` was tested on other images

    @property
    def classes(self) -> tuple[str, ...]:
        return self.group.classes

    @property
    def file(self) -> str:
        return "-less-".join(filter(None, (self.run, self.other))) + "-confusion"

    @property
    def title(self) -> str:
        return f"{self.run} minus {self.other}" if self.other else self.run

    @cached_property
    def image_counts(self) -> np.ndarray:
        return _count_images(self.counts, self.unit)

    def cell_text(self, i: int, j: int) -> str:
        if i == j and self.errors_only:
            return ""
        if not self.image_counts[i, j] and (not self.other or self.has_different_images):
            return DASH  # a percentage of 0 images is undefined
        value, sign = self.values[i, j], "+" if self.other and self.values[i, j] else ""
        text = f"{value:{sign},}" if self.unit == COUNTS else f"{100 * value:{sign}.1f}%"
        return text.replace("-", "−")


def compute_cells(
    group: ComparablePredictions, run: str, other: str | None, unit: str, errors_only: bool
) -> ConfusionCells:
    """Return the confusion matrix of `run`, minus the confusion matrix of `other`, if given."""
    counts = group.confusion_matrix(run)
    others = group.confusion_matrix(other) if other else None
    values = normalise_confusion(counts, unit)
    if others is not None:
        values = values - normalise_confusion(others, unit)
    return ConfusionCells(group, run, other, unit, errors_only, counts, others, values)


def compute_test_set_difference(
    group: ComparablePredictions, run: str, original: Run, unit: str, errors_only: bool
) -> ConfusionCells:
    """Return the confusion matrix of `run` on a user's test set, minus `original`'s matrix.

    Counts are not comparable for test sets of different sizes, so they become percentages of the
    true class. Raises `RunError` if the evaluation of `original` is not valid.
    """
    unit = TRUE_PERCENTAGES if unit == COUNTS else unit
    evaluation = validated_evaluation(original)
    counts = group.confusion_matrix(run)
    others = confusion_matrix(evaluation.probabilities, evaluation.labels)
    values = normalise_confusion(counts, unit) - normalise_confusion(others, unit)
    values[_count_images(counts, unit) == 0] = 0  # no images to compare
    return ConfusionCells(
        group, run, original.name, unit, errors_only, counts, others, values, True
    )


def normalise_confusion(counts: np.ndarray, unit: str) -> np.ndarray:
    """Return counts (C, C), or fractions of each true or predicted class; 0 without images."""
    return counts if unit == COUNTS else counts / np.maximum(_count_images(counts, unit), 1)


def _count_images(counts: np.ndarray, unit: str) -> np.ndarray:
    """Return the number of images (C, C) that equals 100% in each cell; 1 for `COUNTS`."""
    if unit == COUNTS:
        return np.ones_like(counts)
    axis = {TRUE_PERCENTAGES: 1, PREDICTED_PERCENTAGES: 0}[unit]
    return np.broadcast_to(counts.sum(axis=axis, keepdims=True), counts.shape)


def cell_texts(matrix: ConfusionCells) -> list[list[str]]:
    c = range(len(matrix.classes))
    return [[matrix.cell_text(i, j) for j in c] for i in c]


def plot_cells(matrix: ConfusionCells):
    """Return a matplotlib figure of the matrix, with the text of each cell."""
    return plot_confusion_matrix(
        np.where(np.eye(len(matrix.classes)) * matrix.errors_only, 0, matrix.values),
        cell_texts(matrix),
        matrix.classes,
        "images" if matrix.unit == COUNTS else UNITS[matrix.unit].lower(),
        signed=matrix.other is not None,
    )


def count_cells(run: Run) -> ConfusionCells:
    """Return the counts of one run. Raises `RunError` if it has no valid evaluation."""
    group = ComparablePredictions((run,), validated_evaluation(run).labels, ())
    return compute_cells(group, run.name, None, COUNTS, errors_only=False)


def confusion_figure(matrix: ConfusionCells) -> Figure:
    title = f"Confusion matrix of {matrix.title} on the test set"
    return Figure(title, title, figures.figure_to_svg(plot_cells(matrix)))


def confusion_blocks(matrix: ConfusionCells) -> list[DocumentBlock]:
    """Return the matrix as a figure and as a table, and the most confused pairs."""
    pairs = most_confused_pairs(matrix.counts, MAX_PAIRS)
    rows = [[name, *texts] for name, texts in zip(matrix.classes, cell_texts(matrix), strict=True)]
    table = Table([CORNER, *matrix.classes], rows)
    sentences = [describe_pair(pair, matrix.classes) for pair in pairs]
    return [
        Plots([confusion_figure(matrix)]),
        Details(TABLE_TITLE, [table]),
        *([Heading(PAIRS_TITLE), Bullets(sentences)] if pairs else []),
    ]
