"""What the Per-class metrics tab says of one model: in sentences, and in a table of its classes."""

from collections.abc import Mapping
from statistics import median

import numpy as np

from vitdemo.metrics.intervals import difference_doubt, share_doubt
from vitdemo.metrics.tested_runs import TITLES, ClassTable, three_decimals
from vitdemo.page.components.article import Piece, Text
from vitdemo.page.components.table import Cell, Column, Row, Table

HELP = {
    "support": "How many test pictures of the class there are.",
    "precision": "Of all pictures predicted to be cats, the share that are cats.",
    "recall": "True positive rate: of all cats, the share predicted to be cats.",
    "f1": "Precision and recall in one (their harmonic mean), and low if either is.",
    "average_precision": "Precision, averaged over the steps of recall: as the threshold on the "
    "probability of cat falls, each step counts by the recall that it adds. Its interval is with "
    "the curves below.",
    "roc_auc": "How often a cat gets a higher probability of cat than another picture does: 0.5 by "
    "chance, 1 at best. Its interval stands with the curves below.",
}
MEANS = {
    "Macro average": "The mean over the classes: every class counts the same.",
    "Weighted average": "The mean over the pictures: a class counts as often as it has some.",
}
TOP_WORDS = {2: "two", 3: "three", 5: "five"}


def class_pieces(found: ClassTable) -> list[Piece]:
    """Accuracy and top-k in sentences, the table with its bars and means."""
    columns = [Column(TITLES.get(name, "Support"), words) for name, words in HELP.items()]
    macro, weighted = MEANS
    table = Table(
        ["Class", *columns],
        [class_row(found, c) for c in range(len(found.classes))],
        feet=[
            mean_row(macro, found, found.macro, found.macro_intervals),
            mean_row(weighted, found, found.weighted, found.weighted_intervals),
        ],
        file=f"{found.run}-per-class",
        words=MEANS,
    )
    top = top_words(found)
    return [Text(accuracy_words(found)), *([Text(top)] if top else []), table]


def accuracy_words(table: ClassTable) -> str:
    """How many are right, how far that can be trusted, and how many are nearly right."""
    low, high = table.accuracy_interval
    return (
        f"**{100 * table.accuracy:.2f}%** of {int(table.support.sum()):,} test pictures are "
        f"classified correctly by {table.run} "
        f"(95% interval {100 * low:.2f} to {100 * high:.2f}%). {point_words(table)}"
    )


def top_words(table: ClassTable) -> str:
    """Top-k accuracy for the k there are."""
    shares = [
        f"the {TOP_WORDS[top.k]} most probable in **{100 * top.share:.1f}%** "
        f"({100 * top.interval[0]:.1f} to {100 * top.interval[1]:.1f}%)"
        for top in table.top[1:]
    ]
    return f"Top-k accuracy: the true class is among {', '.join(shares)}." if shares else ""


def point_words(table: ClassTable) -> str:
    """Say how well accuracy and recall are known, and whether a difference of 1 point counts."""
    n = int(table.support.sum())
    right = round(table.accuracy * n)
    shares = [
        (round(recall * n), n)
        for recall, n in zip(table.columns["recall"], map(int, table.support), strict=True)
        if n
    ]
    return (
        f"The accuracy is known to about ±{100 * share_doubt(right, n):.1f} points, the recall of "
        f"one class to about ±{100 * median(share_doubt(*each) for each in shares):.1f}. A "
        "difference of two such numbers from different images is known √2 times less well: "
        f"{_difference_words('two accuracies', difference_doubt(right, n))}; "
        f"{_difference_words('two recalls', median(difference_doubt(*each) for each in shares))}. "
        "For two models on the same images, use the paired test (*Compare with*)."
    )


def _difference_words(numbers: str, doubt: float) -> str:
    verdict = "is significant" if 100 * doubt < 1 else "is not significant"
    return f"for {numbers} ±{100 * doubt:.1f} points, so that 1 point {verdict}"


def class_row(table: ClassTable, c: int) -> Row:
    """A bar from 0 to each value, with its interval as a line over the bar's end and in words."""
    cells = []
    for name in TITLES:
        value = float(table.columns[name][c])
        bar = 0.0 if np.isnan(value) else value
        cells.append(number_cell(value, table.interval(name, c), bar=bar))
    return [table.classes[c], f"{int(table.support[c]):,}", *cells]


def mean_row(
    title: str, table: ClassTable, means: Mapping[str, float], intervals: Mapping[str, np.ndarray]
) -> Row:
    cells = [number_cell(means[name], intervals.get(name), strong=True) for name in TITLES]
    return [title, f"{int(table.support.sum()):,}", *cells]


def number_cell(value: float, interval: np.ndarray | None = None, **looks) -> Cell:
    """A share (0 to 1) with three decimals, and its interval (2,) below."""
    known = interval is not None and not np.isnan(interval).any()
    note = f"{interval[0]:.3f} to {interval[1]:.3f}" if known else ""
    return Cell(three_decimals(value), value, interval, note=note, **looks)
