"""What the cells of a confusion matrix say and show, and the picture of it to keep.

Letters: C classes; a cell (i, j) holds the pictures of class i that were predicted to be j.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vitdemo.figures.matrix import matrix_figure, png
from vitdemo.metrics import DASH, WORDS, most_confused, pair_sentence
from vitdemo.metrics.errors import cells, difference
from vitdemo.page.components.article import Heading, Piece, Text
from vitdemo.page.components.matrix import Drawn
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
    def file(self) -> str:
        return "-less-".join(filter(None, (self.run, self.other))) + "-confusion"

    @property
    def title(self) -> str:
        return f"{self.run} less {self.other}" if self.other else self.run

    def text(self, i: int, j: int) -> str:
        if i == j and self.errors_only:
            return ""
        whole = {COUNTS: 1, SHARES: self.counts[i].sum(), PREDICTED_SHARES: self.counts[:, j].sum()}
        if not whole[self.unit] and not self.other:
            return DASH  # no share of nothing
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


def drawn(matrix: Matrix, cell: tuple[str, str] | None) -> Drawn:
    """The matrix with the chosen `cell`, and its most confused pairs, which choose theirs."""
    key = KEY
    if matrix.other:
        key = DIFFERENCE_KEY.format(first=matrix.run, second=matrix.other)
    c = range(len(matrix.classes))
    return Drawn(
        matrix.run,
        matrix.classes,
        matrix.values,
        shades(matrix),
        texts(matrix),
        [[spoken(matrix, i, j) for j in c] for i in c],
        signed=matrix.other is not None,
        cell=tuple(map(matrix.classes.index, cell)) if cell else None,
        pairs={
            f"{pair.true}-{pair.predicted}": pair_sentence(pair, matrix.classes)
            for pair in most_confused(matrix.counts, PAIRS)
        },
        words=[key, *matrix.group.left_out],
        file=matrix.file,
    )


def texts(matrix: Matrix) -> list[list[str]]:
    c = range(len(matrix.classes))
    return [[matrix.text(i, j) for j in c] for i in c]


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


def cell_title(matrix: Matrix, true: str, predicted: str) -> list[Piece]:
    """What the pictures below are, and with two models how many of whom."""
    words = spoken(matrix, matrix.classes.index(true), matrix.classes.index(predicted))
    order = "Most confident first."
    if matrix.other:
        order = f"Those of {matrix.run} come first, then those of {matrix.other} alone."
    return [Heading(words), Text(order, quiet=True)]


def write_png(folder: Path, matrix: Matrix) -> str:
    """The path of the matrix as a picture with twice a screen's pixels, in `folder`."""
    figure = matrix_figure(
        np.where(np.eye(len(matrix.classes)) * matrix.errors_only, 0, matrix.values),
        texts(matrix),
        matrix.classes,
        matrix.title,
        "pictures" if matrix.unit == COUNTS else matrix.unit.lower(),
        signed=matrix.other is not None,
    )
    path = folder / f"{matrix.file.replace('/', '-')}.png"
    path.write_bytes(png(figure))
    return str(path)
