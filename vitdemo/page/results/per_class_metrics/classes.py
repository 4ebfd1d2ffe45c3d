"""Summary and table of one model, as a document."""

from collections.abc import Mapping
from statistics import median

import numpy as np

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.metrics.classification_report import (
    METRIC_TITLES,
    ClassificationReport,
    compute_classification_report,
    format_three_decimals,
)
from vitdemo.metrics.intervals import difference_margin_of_error, margin_of_error
from vitdemo.page.bridge import ViewData, ViewState, document_payload
from vitdemo.page.components.article import DocumentBlock, Notice, Text
from vitdemo.page.components.table import Cell, Column, Row, Table
from vitdemo.page.kit import NO_EVALUATION_MESSAGE
from vitdemo.page.results.models import choose_models

VIEW = "class_metrics"
METRIC_HELP = {
    "support": "Number of test images of the class.",
    "precision": "Fraction of correct predictions among all images predicted as the class.",
    "recall": "True positive rate: fraction of the images of the class that are predicted as this "
    "class.",
    "f1": "Harmonic mean of precision and recall. It is low if either of them is low.",
    "average_precision": "Precision averaged over all thresholds, weighted by the recall that each "
    "threshold adds. The curves below show the interval of this value.",
    "roc_auc": "Probability that an image of the class gets a higher probability for this class "
    "than an image of another class. The value is 0.5 by chance and 1 at best. The curves below "
    "show the interval of this value.",
}
MEAN_ROW_HELP = {
    "Macro average": "Mean over the classes: every class has the same weight.",
    "Weighted average": "Mean over the images: each class is weighted by its support.",
}
NUMBER_WORDS = {2: "two", 3: "three", 5: "five"}


def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the document of the class metrics, and the runs to choose from."""
    name, _, menus = choose_models(context, state)
    return ViewData(document_payload(run_blocks(context, name)), menus)


def run_blocks(context: AppContext, name: str) -> list[DocumentBlock]:
    """Return the metrics of the run `name`, or only a notice; "" means that there is no run."""
    if not name:
        return [Notice(NO_EVALUATION_MESSAGE)]
    try:
        found = context.cache.call(compute_classification_report, context.find_run(name))
    except VitdemoError as error:
        return [Notice(str(error))]
    return class_metrics_blocks(found)


def class_metrics_blocks(found: ClassificationReport) -> list[DocumentBlock]:
    """Return sentences about accuracy and top-k accuracy, and the table of class metrics."""
    columns = [
        Column(METRIC_TITLES.get(name, "Support"), words) for name, words in METRIC_HELP.items()
    ]
    macro, weighted = MEAN_ROW_HELP
    table = Table(
        ["Class", *columns],
        [class_row(found, c) for c in range(len(found.classes))],
        feet=[
            mean_row(macro, found, found.macro, found.macro_intervals),
            mean_row(weighted, found, found.weighted, found.weighted_intervals),
        ],
        file=f"{found.run}-per-class",
        words=MEAN_ROW_HELP,
    )
    top = describe_top_k(found)
    return [Text(describe_test_accuracy(found)), *([Text(top)] if top else []), table]


def describe_test_accuracy(table: ClassificationReport) -> str:
    """Describe the test accuracy with confidence interval, and the margins of error."""
    low, high = table.accuracy_interval
    return (
        f"{table.run} classifies **{100 * table.accuracy:.2f}%** of "
        f"{int(table.support.sum()):,} test images correctly "
        f"(95% interval {100 * low:.2f} to {100 * high:.2f}%). {describe_margins_of_error(table)}"
    )


def describe_top_k(table: ClassificationReport) -> str:
    """Describe the top-k accuracy for each k that is smaller than the number of classes."""
    shares = [
        f"the {NUMBER_WORDS[top.k]} most probable classes for **{100 * top.accuracy:.1f}%** of "
        "images "
        f"({100 * top.interval[0]:.1f} to {100 * top.interval[1]:.1f}%)"
        for top in table.top[1:]
    ]
    return f"Top-k accuracy: the true class is among {', '.join(shares)}." if shares else ""


def describe_margins_of_error(table: ClassificationReport) -> str:
    """Describe the margins of error of accuracy, recall, and differences between two runs."""
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
        "To compare two models on the same images, use the paired test (*Compare with*)."
    )


def _describe_difference_margin(metric: str, doubt: float) -> str:
    verdict = "is significant" if 100 * doubt < 1 else "is not significant"
    return f"±{100 * doubt:.1f} points for {metric}, so a difference of 1 point {verdict}"


def class_row(table: ClassificationReport, c: int) -> Row:
    """Return the table row of class `c`, with metrics, bars and confidence intervals."""
    cells = []
    for name in METRIC_TITLES:
        value = float(table.columns[name][c])
        bar = 0.0 if np.isnan(value) else value
        cells.append(number_cell(value, table.interval(name, c), bar=bar))
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
