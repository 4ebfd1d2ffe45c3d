"""Class metrics of a run on the test set: sentences and table, for the page and the report."""

from collections.abc import Mapping
from statistics import median

import numpy as np

from vitdemo.documents import DocumentBlock, Text
from vitdemo.documents.table import Cell, Column, Row, Table
from vitdemo.metrics.classification_report import (
    METRIC_TITLES,
    ClassificationReport,
    format_three_decimals,
)
from vitdemo.metrics.intervals import difference_margin_of_error, margin_of_error

METRIC_HELP = {
    "support": "Number of test images of the class.",
    "precision": "Fraction of correct predictions among all images predicted as the class.",
    "recall": "True positive rate: fraction of the images of the class that are predicted as this "
    "class.",
    "f1": "Harmonic mean of precision and recall. The F1 is low if the precision or the recall is "
    "low.",
    "average_precision": "Precision averaged over all thresholds, weighted by the recall that each "
    "threshold adds.",
    "roc_auc": "Probability that an image of the class gets a higher probability for this class "
    "than an image of another class. The value expected by chance is 0.5, and the maximum is 1.",
}
MEAN_ROW_HELP = {
    "Macro average": "Mean over the classes: every class has the same weight.",
    "Weighted average": "Mean over the images: each class is weighted by its support.",
}
NUMBER_WORDS = {2: "two", 3: "three", 5: "five"}
METRICS_INTRO = (
    "These metrics are measured on the test set, which was not used for training. The test set is "
    "only a sample, so precision, recall and F1 have a **95% confidence interval**. About 19 of "
    "20 such intervals contain the true value. The intervals do not include the variation between "
    "training seeds. 3.25% of CIFAR-10's test images have a near-duplicate in the training set "
    "(Barz & Denzler 2020)."
)


def explain_metrics(report: ClassificationReport) -> list[DocumentBlock]:
    texts = [describe_margins_of_error(report), describe_top_k(report)]
    return [Text(text) for text in texts if text]


def class_metrics_table(report: ClassificationReport) -> Table:
    """Return the table of all metrics, one row per class, and two means."""
    columns = [
        Column(METRIC_TITLES.get(name, "Support"), text) for name, text in METRIC_HELP.items()
    ]
    macro, weighted = MEAN_ROW_HELP
    return Table(
        ["Class", *columns],
        [class_row(report, c) for c in range(len(report.classes))],
        feet=[
            mean_row(macro, report, report.macro, report.macro_intervals),
            mean_row(weighted, report, report.weighted, report.weighted_intervals),
        ],
        file=f"{report.run}-per-class",
        terms=MEAN_ROW_HELP,
    )


def describe_test_accuracy(table: ClassificationReport) -> str:
    low, high = table.accuracy_interval
    return (
        f"{table.run} classifies **{100 * table.accuracy:.2f}%** of "
        f"{int(table.support.sum()):,} test images correctly "
        f"(95% interval {100 * low:.2f} to {100 * high:.2f}%)."
    )


def describe_top_k(table: ClassificationReport) -> str:
    """Describe the top-k accuracy for each k that is smaller than the number of classes."""
    shares = [
        f"the {NUMBER_WORDS[k]} most probable classes for **{100 * accuracy:.1f}%** of images "
        f"({100 * low:.1f} to {100 * high:.1f}%)"
        for k, (accuracy, (low, high)) in table.top.items()
    ]
    return f"Top-k accuracy: the true class is among {', '.join(shares)}." if shares else ""


def describe_margins_of_error(table: ClassificationReport) -> str:
    n = int(table.support.sum())
    right = round(table.accuracy * n)
    shares = [
        (round(recall * n), n)
        for recall, n in zip(table.columns["recall"], map(int, table.support), strict=True)
        if n
    ]
    recall = 100 * median(margin_of_error(*each) for each in shares)
    difference = median(difference_margin_of_error(*each) for each in shares)
    return (
        f"Margin of error (95%): about ±{100 * margin_of_error(right, n):.1f} percentage "
        f"points for accuracy and ±{recall:.1f} for the recall of one class. "
        "The difference between two values from different images has a margin √2 times as large: "
        f"{_describe_difference_margin('accuracy', difference_margin_of_error(right, n))}; "
        f"{_describe_difference_margin('recall', difference)}. "
        "To compare two models on the same images, use the paired test."
    )


def _describe_difference_margin(metric: str, doubt: float) -> str:
    verdict = "is significant" if 100 * doubt < 1 else "is not significant"
    return f"±{100 * doubt:.1f} points for {metric}, so a difference of 1 point {verdict}"


def class_row(table: ClassificationReport, c: int) -> Row:
    """Return the table row of class `c`, with metrics, bars and confidence intervals."""
    values = {name: float(table.columns[name][c]) for name in METRIC_TITLES}
    cells = [
        number_cell(value, table.interval(name, c), bar=0.0 if np.isnan(value) else value)
        for name, value in values.items()
    ]
    return [table.classes[c], f"{int(table.support[c]):,}", *cells]


def mean_row(
    title: str,
    table: ClassificationReport,
    means: Mapping[str, float],
    intervals: Mapping[str, np.ndarray],
) -> Row:
    cells = [number_cell(means[name], intervals.get(name), strong=True) for name in METRIC_TITLES]
    return [title, f"{int(table.support.sum()):,}", *cells]


def number_cell(value: float, interval: np.ndarray | None = None, **looks) -> Cell:
    """Return a cell with a fraction (0 to 1) in three decimals, and its interval (2,) below."""
    known = interval is not None and not np.isnan(interval).any()
    note = f"{interval[0]:.3f} to {interval[1]:.3f}" if known else ""
    return Cell(format_three_decimals(value), value, interval, note=note, **looks)
