"""The Confusion matrix tab: counts of true and predicted classes, and the images of each cell.

Letters: C classes; cell (i, j) holds the images of class i that were predicted as class j.
"""

from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import numpy as np

from vitdemo.errors import VitdemoError
from vitdemo.figures.matrix import matrix_figure, png
from vitdemo.metrics import DASH, WORDS, most_confused, pair_sentence
from vitdemo.metrics.errors import Filters, cells, difference
from vitdemo.page.components.article import Article, Heading, Piece, Text
from vitdemo.page.components.gallery import Gallery, page_of
from vitdemo.page.components.matrix import Drawn, MatrixView
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.kit import KEPT_SECONDS, LIGHT_QUEUE, QUIET, offer_download, picked_numbers
from vitdemo.page.look.tab import Look
from vitdemo.page.metrics import NOBODY, NOTHING
from vitdemo.predictions import Predictions, Query, predictions
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

# Scroll as little as necessary, so that the chosen cell stays visible.
SHOW_PICTURES = """() => requestAnimationFrame(() => document.querySelector(
  "#cell-pictures .pictures > *")?.scrollIntoView({ block: "nearest" }))"""
INTRO = (
    "True and predicted classes over the test set: one row per **true class**, one column per "
    "**predicted class**. Choose a cell to see its images, with the mouse or with the arrow keys "
    "and Enter. Choose an image to see the model's attention in Explore."
)
COUNTS, SHARES, PREDICTED_SHARES = (
    "Counts",
    "Percentage of true class",
    "Percentage of predicted class",
)
UNITS = {COUNTS: "count", SHARES: "true", PREDICTED_SHARES: "predicted"}
PAIRS = 10
KEY = "Blue: correct predictions. Orange: errors; darker means more frequent."
DIFFERENCE_KEY = (
    "Orange: higher for {first}. Purple: higher for {second}. Darker means a larger difference."
)


def build(tab: gr.Tab, workbench: Workbench, opener: Look) -> None:
    """Lay out and wire the tab; the images of a cell open in the tab Explore."""
    gr.Markdown(INTRO)
    with gr.Row():
        with gr.Column(min_width=260):
            model = RunChoice(grouped(workbench.evaluated_runs()), elem_id="confusion-model")
        with gr.Column(min_width=260):
            other = RunChoice(
                label="Subtract model",
                info="shows the difference between two models",
                nobody=NOBODY,
                elem_id="confusion-other",
            )
    with gr.Row():
        with gr.Column(min_width=300):
            unit = gr.Radio(list(UNITS), value=COUNTS, label="Cell values")
        with gr.Column(min_width=300):
            errors_only = gr.Checkbox(False, label="Errors only")
    view = MatrixView(elem_id="confusion-matrix")
    settings = [model, other, unit, errors_only]

    def save_png(folder, *chosen):
        return write_png(folder, matrix(*chosen))

    with gr.Row(), gr.Column(scale=0, min_width=160):
        offer_download("Save as PNG", "confusion-png", save_png, settings, LIGHT_QUEUE)
    title = Article(elem_id="cell-title")
    shown = Gallery(elem_id="cell-pictures")
    cell = gr.State(None, time_to_live=KEPT_SECONDS)  # (true, predicted) class names

    def matrix(name, other, unit, errors_only):
        return read_matrix(predictions(workbench, name), name, other, unit, errors_only)

    def draw(name, other, unit, errors_only, cell):
        """Return the values of `outputs`; a cell stays chosen while its classes exist."""
        if name is None:
            return NOTHING, None, None, None
        try:
            found = matrix(name, other, unit, errors_only)
        except VitdemoError as error:
            return str(error), None, None, None
        if cell is not None and not set(cell) <= set(found.classes):
            cell = None
        words = cell_title(found, *cell) if cell else None
        pictures = page_of(workbench, query(found, *cell) if cell else None)
        return drawn(found, cell), cell, words, pictures

    def query_of(name, other, unit, errors_only, cell):
        return query(matrix(name, other, unit, errors_only), *cell) if name and cell else None

    def pick(name, other, unit, errors_only, event: gr.EventData):
        try:
            classes = predictions(workbench, name).classes
            picked = picked_numbers(event.pick, len(classes), len(classes))
            cell = tuple(classes[i] for i in picked)
        except VitdemoError:  # the runs changed after the page was drawn
            cell = None
        return draw(name, other, unit, errors_only, cell)

    def draw_fresh(name, other, *settings):
        models, name = renewed_runs(workbench.evaluated_runs(), name)
        others, other = renewed_runs(comparable(workbench, name), other, optional=True)
        return models, others, *draw(name, other, *settings)

    inputs = [*settings, cell]
    outputs = [view, cell, title, shown]
    # One event for all inputs, so that the result of the last of several quick clicks stays.
    events = [tab.select, *(setting.input for setting in settings)]
    gr.on(events, draw_fresh, inputs=inputs, outputs=[model, other, *outputs], **QUIET)
    picked = view.pick(pick, inputs=settings, outputs=outputs, **QUIET)
    picked.success(None, js=SHOW_PICTURES)
    shown.wire(workbench, query_of, inputs, opener.connect)


def comparable(workbench: Workbench, name: str | None) -> list[Run]:
    """Return the runs that were tested on the same images as the run `name`."""
    try:
        runs = predictions(workbench, name).runs if name else ()
        return [run for run in runs if run.name != name]
    except VitdemoError:
        return []


# --- the matrix ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """Cell `values` (C, C) in `unit`, of one model or of the difference of two models."""

    group: Predictions
    run: str
    other: str | None
    unit: str
    errors_only: bool
    counts: np.ndarray  # (C, C), confusion matrix of `run`
    others: np.ndarray | None  # (C, C), confusion matrix of `other`
    values: np.ndarray

    @property
    def classes(self) -> tuple[str, ...]:
        return self.group.classes

    @property
    def file(self) -> str:
        return "-less-".join(filter(None, (self.run, self.other))) + "-confusion"

    @property
    def title(self) -> str:
        return f"{self.run} minus {self.other}" if self.other else self.run

    def text(self, i: int, j: int) -> str:
        if i == j and self.errors_only:
            return ""
        whole = {COUNTS: 1, SHARES: self.counts[i].sum(), PREDICTED_SHARES: self.counts[:, j].sum()}
        if not whole[self.unit] and not self.other:
            return DASH  # a percentage of 0 images is undefined
        value, sign = self.values[i, j], "+" if self.other and self.values[i, j] else ""
        words = f"{value:{sign},}" if self.unit == COUNTS else f"{100 * value:{sign}.1f}%"
        return words.replace("-", "−")


def read_matrix(
    group: Predictions, run: str, other: str | None, unit: str, errors_only: bool
) -> Matrix:
    counts, by = group.confusion(run), UNITS[unit]
    others = group.confusion(other) if other else None
    values = cells(counts, by) if others is None else difference(counts, others, by)
    return Matrix(group, run, other, unit, errors_only, counts, others, values)


def drawn(matrix: Matrix, cell: tuple[str, str] | None) -> Drawn:
    """Return the payload of the view: the matrix, the chosen `cell` and the most confused pairs."""
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
    """Return the colour strength of each cell, (C, C), from -1 to 1.

    Errors are scaled to the largest error; otherwise they would be invisible next to the correct
    predictions. Differences are scaled in the same way, and clipped on the diagonal.
    """
    values = matrix.values if matrix.unit != COUNTS else _comparable(matrix)
    right = np.eye(len(values), dtype=bool)
    scaled = values / (np.abs(values[~right]).max(initial=0) or 1.0)
    if matrix.errors_only:
        return np.where(right, 0.0, scaled)
    return scaled.clip(-1, 1) if matrix.other else np.where(right, values, scaled)


def _comparable(matrix: Matrix) -> np.ndarray:
    """Return counts as fractions of their row, so that colours do not depend on class size."""
    support = matrix.counts.sum(axis=1, keepdims=True)  # the same for both models
    return matrix.values / np.maximum(support, 1)


def spoken(matrix: Matrix, i: int, j: int) -> str:
    """Describe a cell, as "true class cat, predicted class dog: 146 images, 14.6% of all cats"."""
    true, predicted = matrix.classes[i], matrix.classes[j]
    taken = f"true class {true}, predicted class {predicted}"
    count = int(matrix.counts[i, j])
    pictures = f"{count:,} image{'' if count == 1 else 's'}"
    if matrix.others is not None:
        theirs = int(matrix.others[i, j])
        return f"{taken}: {pictures} for {matrix.run}, {theirs:,} for {matrix.other}"
    if matrix.unit == PREDICTED_SHARES:
        whole, everything = matrix.counts[:, j].sum(), f"all images predicted as {predicted}"
    else:
        whole, everything = matrix.counts[i].sum(), f"all {plural(true)}"
    share = f", {100 * count / whole:.1f}% of {everything}" if whole else ""
    return f"{taken}: {pictures}{share}"


def query(matrix: Matrix, true: str, predicted: str) -> Query:
    """Return the query for the images of a cell, given its class names."""
    i, j = matrix.classes.index(true), matrix.classes.index(predicted)
    return Query(matrix.run, Filters("all", i, j), matrix.other)


def plural(name: str) -> str:
    return WORDS[name][1] if name in WORDS else f'images of "{name}"'


def cell_title(matrix: Matrix, true: str, predicted: str) -> list[Piece]:
    """Return the heading of the images below, and their order."""
    words = spoken(matrix, matrix.classes.index(true), matrix.classes.index(predicted))
    order = "Most confident first."
    if matrix.other:
        order = f"Images of {matrix.run} first, followed by images of only {matrix.other}."
    return [Heading(words), Text(order, quiet=True)]


def write_png(folder: Path, matrix: Matrix) -> str:
    """Save the matrix as a PNG with double resolution in `folder` and return its path."""
    figure = matrix_figure(
        np.where(np.eye(len(matrix.classes)) * matrix.errors_only, 0, matrix.values),
        texts(matrix),
        matrix.classes,
        matrix.title,
        "images" if matrix.unit == COUNTS else matrix.unit.lower(),
        signed=matrix.other is not None,
    )
    path = folder / f"{matrix.file.replace('/', '-')}.png"
    path.write_bytes(png(figure))
    return str(path)
