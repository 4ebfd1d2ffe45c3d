"""A confusion matrix as HTML: cells that are real buttons, in words for who hears them.

Letters: C classes; a cell (i, j) holds the pictures of class i that were predicted to be j.
"""

import base64
from dataclasses import dataclass

import numpy as np

from vitdemo.figures.matrix import matrix_figure, png
from vitdemo.metrics import WORDS, most_confused, pair_sentence
from vitdemo.metrics.errors import cells, difference
from vitdemo.page import html
from vitdemo.predictions import Predictions

COUNTS, SHARES, PREDICTED_SHARES = (
    "Counts",
    "Share of the true class",
    "Share of the predicted class",
)
UNITS = {COUNTS: "count", SHARES: "true", PREDICTED_SHARES: "predicted"}
PAIRS = 10
KEY = "Blue is right; orange is wrong, stronger where it is more frequent."
DIFFERENCE_KEY = (
    "Orange is more with {first}, purple is more with {second}, stronger where they differ more."
)
BLUE, ORANGE, PURPLE = "#1d4ed8", "#c2410c", "#7c4fd0"


@dataclass(frozen=True)
class Matrix:
    """What the cells show: `values` (C, C) of `unit`, of one model or of it less another."""

    group: Predictions
    run: str
    other: str | None
    unit: str
    errors_only: bool
    counts: np.ndarray  # (C, C) of `run`
    others: np.ndarray | None  # (C, C) of `other`
    values: np.ndarray

    @property
    def classes(self) -> tuple[str, ...]:
        return self.group.classes

    @property
    def title(self) -> str:
        return f"{self.run} less {self.other}" if self.other else self.run

    def text(self, i: int, j: int) -> str:
        if i == j and self.errors_only:
            return ""
        whole = {COUNTS: 1, SHARES: self.counts[i].sum(), PREDICTED_SHARES: self.counts[:, j].sum()}
        if not whole[self.unit] and not self.other:
            return "–"  # no share of nothing
        value, sign = self.values[i, j], "+" if self.other and self.values[i, j] else ""
        words = f"{value:{sign},}" if self.unit == COUNTS else f"{100 * value:{sign}.1f} %"
        return words.replace("-", "−")


def read_matrix(
    group: Predictions, run: str, other: str | None, unit: str, errors_only: bool
) -> Matrix:
    counts, by = group.confusion(run), UNITS[unit]
    others = group.confusion(other) if other else None
    values = cells(counts, by) if others is None else difference(counts, others, by)
    return Matrix(group, run, other, unit, errors_only, counts, others, values)


def confusion_html(matrix: Matrix, cell: tuple[str, str] | None) -> str:
    """The matrix with its CSV; beside it, the most confused pairs, which choose their cell."""
    key = KEY
    if matrix.other:
        key = DIFFERENCE_KEY.format(first=matrix.run, second=matrix.other)
    rows = [(name, *row) for name, row in zip(matrix.classes, matrix.values.tolist(), strict=True)]
    stem = "-less-".join(filter(None, (matrix.run, matrix.other)))
    link = html.csv_link(("true \\ predicted", *matrix.classes), rows, f"{stem}-confusion.csv")
    left_out = "".join(
        f'<p class="vd-quiet">{html.escape(sentence)}</p>' for sentence in matrix.group.left_out
    )
    return (
        f'<div class="vd-beside"><div>{matrix_html(matrix, cell)}'
        f'<p class="vd-quiet">{html.escape(key)}</p>{left_out}<p>{link}</p></div>'
        f"<div>{pairs_html(matrix)}</div></div>"
    )


def pairs_html(matrix: Matrix) -> str:
    items = "".join(
        f'<li><button type="button" data-pick="pair-{pair.true}-{pair.predicted}">'
        f"{html.escape(pair_sentence(pair, matrix.classes))}</button></li>"
        for pair in most_confused(matrix.counts, PAIRS)
    )
    sentences = (
        f'<ol class="vd-pairs">{items}</ol>'
        if items
        else "<p>No picture was taken for another class.</p>"
    )
    return f"<h2>Most confused pairs of {html.escape(matrix.run)}</h2>{sentences}"


def matrix_html(matrix: Matrix, cell: tuple[str, str] | None) -> str:
    """A table of real buttons, in which the arrow keys move."""
    strengths = shades(matrix)  # (C, C)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in matrix.classes)
    body = []
    for i, name in enumerate(matrix.classes):
        row = "".join(
            _cell(matrix, i, j, strengths[i, j], cell == (name, predicted))
            for j, predicted in enumerate(matrix.classes)
        )
        body.append(f'<tr><th scope="row">{html.escape(name)}</th>{row}</tr>')
    columns = len(matrix.classes)
    return (
        '<div class="vd-scroll"><table class="vd-table vd-matrix"><thead><tr>'
        f'<th scope="col">true \\ predicted</th>{head}</tr></thead>'
        f'<tbody data-columns="{columns}">{"".join(body)}</tbody></table></div>'
    )


def _cell(matrix: Matrix, i: int, j: int, strength: float, pressed: bool) -> str:
    words = html.escape(spoken(matrix, i, j))
    colour = (ORANGE if strength > 0 else PURPLE) if matrix.other or i != j else BLUE
    return (
        f'<td style="{shade(colour, abs(strength))}"><button type="button" class="vd-cell" '
        f'data-pick="{i}-{j}" aria-pressed="{str(pressed).lower()}" aria-label="{words}" '
        f'title="{words}">{matrix.text(i, j)}</button></td>'
    )


def shades(matrix: Matrix) -> np.ndarray:
    """Strength of each cell's colour (C, C), -1 to 1.

    Errors are scaled to the largest of them, or they would look like nothing beside the right
    answers; so are differences, of which a larger one on the diagonal has the last colour.
    """
    values = matrix.values if matrix.unit != COUNTS else _comparable(matrix)
    right = np.eye(len(values), dtype=bool)
    scaled = values / (np.abs(values[~right]).max(initial=0) or 1.0)
    if matrix.errors_only:
        return np.where(right, 0.0, scaled)
    return scaled.clip(-1, 1) if matrix.other else np.where(right, values, scaled)


def _comparable(matrix: Matrix) -> np.ndarray:
    """Counts as shares of their row, so that a large class does not outshine the others."""
    support = matrix.counts.sum(axis=1, keepdims=True)  # of both models the same
    return matrix.values / np.maximum(support, 1)


def spoken(matrix: Matrix, i: int, j: int) -> str:
    """A cell in words: "true class cat, predicted class dog: 146 pictures, 14.6 % of all cats"."""
    true, predicted = matrix.classes[i], matrix.classes[j]
    taken = f"true class {true}, predicted class {predicted}"
    count = int(matrix.counts[i, j])
    pictures = f"{count:,} picture{'' if count == 1 else 's'}"
    if matrix.others is not None:
        theirs = int(matrix.others[i, j])
        return f"{taken}: {pictures} with {matrix.run}, {theirs:,} with {matrix.other}"
    if matrix.unit == PREDICTED_SHARES:
        whole, everything = matrix.counts[:, j].sum(), f"all pictures predicted to be {predicted}"
    else:
        whole, everything = matrix.counts[i].sum(), f"all {plural(true)}"
    share = f", {100 * count / whole:.1f} % of {everything}" if whole else ""
    return f"{taken}: {pictures}{share}"


def plural(name: str) -> str:
    return WORDS[name][1] if name in WORDS else f'pictures of "{name}"'


def cell_title(matrix: Matrix, true: str, predicted: str) -> str:
    """What the pictures below are, and with two models how many of whom."""
    words = spoken(matrix, matrix.classes.index(true), matrix.classes.index(predicted))
    order = "Most confident first."
    if matrix.other:
        order = f"Those of {matrix.run} come first, then those of {matrix.other} alone."
    return f'<h2>{html.escape(words)}</h2><p class="vd-quiet">{html.escape(order)}</p>'


def png_link(matrix: Matrix) -> str:
    """A link that saves the matrix as a picture with twice a screen's pixels."""
    c = range(len(matrix.classes))
    figure = matrix_figure(
        np.where(np.eye(len(c)) * matrix.errors_only, 0, matrix.values),
        [[matrix.text(i, j) for j in c] for i in c],
        matrix.classes,
        matrix.title,
        "pictures" if matrix.unit == COUNTS else matrix.unit.lower(),
        signed=matrix.other is not None,
    )
    content = base64.b64encode(png(figure)).decode()
    name = html.escape(f"{matrix.title.replace(' ', '-')}-confusion.png")
    return (
        f'<a class="vd-download" download="{name}" href="data:image/png;base64,{content}">'
        "Download PNG</a>"
    )


def shade(colour: str, strength: float) -> str:
    """Background of a cell for a strength in 0..1: never so strong that its number is hard to read.

    At 55 % the page's own text colour keeps a contrast above 5 : 1 in light and dark.
    """
    percent = round(55 * min(float(strength), 1.0))
    return f"background: color-mix(in srgb, {colour} {percent}%, transparent)"
