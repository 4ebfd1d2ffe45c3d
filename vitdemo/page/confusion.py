"""The Confusion matrix tab: counts of true and predicted classes, and the images of each cell.

Letters: C classes; cell (i, j) holds the images of class i that were predicted as class j.
"""

from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import numpy as np

from vitdemo.analyses.predictions import ComparablePredictions, ImageQuery, comparable_predictions
from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.figures.matrix import figure_to_png, plot_confusion_matrix
from vitdemo.metrics import CIFAR10_NOUNS, DASH, describe_pair, most_confused_pairs
from vitdemo.metrics.error_selection import Filters, normalise_confusion, subtract_confusion
from vitdemo.page.components.article import Document, DocumentBlock, Heading, Text
from vitdemo.page.components.gallery import Gallery, load_gallery_page
from vitdemo.page.components.matrix import ConfusionPayload, ConfusionView
from vitdemo.page.components.run_choice import RunChoice, group_runs, update_run_choices
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    REFRESH_EVENT,
    STATE_LIFETIME,
    add_download_button,
    parse_pick,
)
from vitdemo.page.metrics import NO_EVALUATION_MESSAGE, NO_OTHER_MODEL_LABEL
from vitdemo.runs import Run

# Scroll to the first image, as little as necessary: the chosen cell stays visible.
JS_SCROLL_TO_IMAGES = """() => requestAnimationFrame(() => document.querySelector(
  "#cell-pictures .pictures > *")?.scrollIntoView({ block: "nearest" }))"""
CONFUSION_INTRO = (
    "True and predicted classes over the test set: one row per **true class**, one column per "
    "**predicted class**. Choose a cell to see its images, with the mouse or with the arrow keys "
    "and Enter. Choose an image to see the model's attention in Explore."
)
COUNTS, TRUE_PERCENTAGES, PREDICTED_PERCENTAGES = (
    "Counts",
    "Percentage of true class",
    "Percentage of predicted class",
)
UNITS = {COUNTS: "count", TRUE_PERCENTAGES: "true", PREDICTED_PERCENTAGES: "predicted"}
MAX_PAIRS = 10
COLOUR_KEY = "Blue: correct predictions. Orange: errors; darker means more frequent."
DIFFERENCE_COLOUR_KEY = (
    "Orange: higher for {first}. Purple: higher for {second}. Darker means a larger difference."
)


def build(tab: gr.Tab, context: AppContext, opener: ExploreTab) -> None:
    """Lay out the tab and connect its events; images open in the tab Explore."""
    gr.Markdown(CONFUSION_INTRO)
    with gr.Row():
        with gr.Column(min_width=260):
            model = RunChoice(group_runs(context.evaluated_runs()), elem_id="confusion-model")
        with gr.Column(min_width=260):
            other = RunChoice(
                label="Subtract model",
                info="shows the difference between two models",
                nobody=NO_OTHER_MODEL_LABEL,
                elem_id="confusion-other",
            )
    with gr.Row():
        with gr.Column(min_width=300):
            unit = gr.Radio(list(UNITS), value=COUNTS, label="Cell values")
        with gr.Column(min_width=300):
            errors_only = gr.Checkbox(False, label="Errors only")
    view = ConfusionView(elem_id="confusion-matrix")
    settings = [model, other, unit, errors_only]

    def save_png(folder, *chosen):
        return write_png(folder, matrix(*chosen))

    with gr.Row(), gr.Column(scale=0, min_width=160):
        add_download_button("Save as PNG", "confusion-png", save_png, settings, LIGHT_QUEUE)
    title = Document(elem_id="cell-title")
    shown = Gallery(elem_id="cell-pictures")
    cell = gr.State(None, time_to_live=STATE_LIFETIME)  # (true, predicted) class names

    def matrix(name, other, unit, errors_only):
        return read_matrix(comparable_predictions(context, name), name, other, unit, errors_only)

    def draw(name, other, unit, errors_only, cell):
        """Return the values of `outputs`; the chosen cell stays if the models have both classes."""
        if name is None:
            return NO_EVALUATION_MESSAGE, None, None, None
        try:
            found = matrix(name, other, unit, errors_only)
        except VitdemoError as error:
            return str(error), None, None, None
        if cell is not None and not set(cell) <= set(found.classes):
            cell = None
        words = cell_title(found, *cell) if cell else None
        pictures = load_gallery_page(context, cell_query(found, *cell) if cell else None)
        return confusion_payload(found, cell), cell, words, pictures

    def query_of(name, other, unit, errors_only, cell):
        return cell_query(matrix(name, other, unit, errors_only), *cell) if name and cell else None

    def pick(name, other, unit, errors_only, event: gr.EventData):
        try:
            classes = comparable_predictions(context, name).classes
            picked = parse_pick(event.pick, len(classes), len(classes))
            cell = tuple(classes[i] for i in picked)
        except VitdemoError:  # the page shows a run that no longer exists
            cell = None
        return draw(name, other, unit, errors_only, cell)

    def draw_fresh(name, other, *settings):
        models, name = update_run_choices(context.evaluated_runs(), name)
        others, other = update_run_choices(comparable_runs(context, name), other, optional=True)
        return models, others, *draw(name, other, *settings)

    inputs = [*settings, cell]
    outputs = [view, cell, title, shown]
    # All inputs share one event: after several quick clicks, the last result stays.
    events = [tab.select, *(setting.input for setting in settings)]
    gr.on(events, draw_fresh, inputs=inputs, outputs=[model, other, *outputs], **REFRESH_EVENT)
    picked = view.pick(pick, inputs=settings, outputs=outputs, **REFRESH_EVENT)
    picked.success(None, js=JS_SCROLL_TO_IMAGES)
    shown.wire(context, query_of, inputs, opener.open_test_image_on)


def comparable_runs(context: AppContext, name: str | None) -> list[Run]:
    """Return the runs that were tested on the same images as the run `name`."""
    try:
        runs = comparable_predictions(context, name).runs if name else ()
        return [run for run in runs if run.name != name]
    except VitdemoError:
        return []


# --- the matrix ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConfusionCells:
    """Confusion matrix of one model, or of a model minus another; `values` (C, C) in `unit`."""

    group: ComparablePredictions
    run: str
    other: str | None
    unit: str
    errors_only: bool
    counts: np.ndarray  # (C, C), confusion matrix of `run`
    other_counts: np.ndarray | None  # (C, C), confusion matrix of `other`
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

    def cell_text(self, i: int, j: int) -> str:
        if i == j and self.errors_only:
            return ""
        whole = {
            COUNTS: 1,
            TRUE_PERCENTAGES: self.counts[i].sum(),
            PREDICTED_PERCENTAGES: self.counts[:, j].sum(),
        }
        if not whole[self.unit] and not self.other:
            return DASH  # a percentage of 0 images is undefined
        value, sign = self.values[i, j], "+" if self.other and self.values[i, j] else ""
        words = f"{value:{sign},}" if self.unit == COUNTS else f"{100 * value:{sign}.1f}%"
        return words.replace("-", "−")


def read_matrix(
    group: ComparablePredictions, run: str, other: str | None, unit: str, errors_only: bool
) -> ConfusionCells:
    counts, by = group.confusion_matrix(run), UNITS[unit]
    others = group.confusion_matrix(other) if other else None
    values = (
        normalise_confusion(counts, by)
        if others is None
        else subtract_confusion(counts, others, by)
    )
    return ConfusionCells(group, run, other, unit, errors_only, counts, others, values)


def confusion_payload(matrix: ConfusionCells, cell: tuple[str, str] | None) -> ConfusionPayload:
    """Return the payload of the confusion matrix, the chosen `cell` and the most confused pairs."""
    key = COLOUR_KEY
    if matrix.other:
        key = DIFFERENCE_COLOUR_KEY.format(first=matrix.run, second=matrix.other)
    c = range(len(matrix.classes))
    return ConfusionPayload(
        matrix.run,
        matrix.classes,
        matrix.values,
        colour_strengths(matrix),
        cell_texts(matrix),
        [[cell_label(matrix, i, j) for j in c] for i in c],
        signed=matrix.other is not None,
        cell=tuple(map(matrix.classes.index, cell)) if cell else None,
        pairs={
            f"{pair.true}-{pair.predicted}": describe_pair(pair, matrix.classes)
            for pair in most_confused_pairs(matrix.counts, MAX_PAIRS)
        },
        words=[key, *matrix.group.exclusion_messages],
        file=matrix.file,
    )


def cell_texts(matrix: ConfusionCells) -> list[list[str]]:
    c = range(len(matrix.classes))
    return [[matrix.cell_text(i, j) for j in c] for i in c]


def colour_strengths(matrix: ConfusionCells) -> np.ndarray:
    """Return the colour strength of each cell, (C, C), from -1 to 1.

    Errors are scaled to the largest error; otherwise they would be invisible next to the correct
    predictions. Differences are scaled in the same way, and clipped on the diagonal.
    """
    values = matrix.values if matrix.unit != COUNTS else _row_fractions(matrix)
    right = np.eye(len(values), dtype=bool)
    scaled = values / (np.abs(values[~right]).max(initial=0) or 1.0)
    if matrix.errors_only:
        return np.where(right, 0.0, scaled)
    return scaled.clip(-1, 1) if matrix.other else np.where(right, values, scaled)


def _row_fractions(matrix: ConfusionCells) -> np.ndarray:
    """Return counts as fractions of their row, so that colours do not depend on class size."""
    support = matrix.counts.sum(axis=1, keepdims=True)  # row sums are the same for both models
    return matrix.values / np.maximum(support, 1)


def cell_label(matrix: ConfusionCells, i: int, j: int) -> str:
    """Describe a cell, as "true class cat, predicted class dog: 146 images, 14.6% of all cats"."""
    true, predicted = matrix.classes[i], matrix.classes[j]
    taken = f"true class {true}, predicted class {predicted}"
    count = int(matrix.counts[i, j])
    pictures = f"{count:,} image{'' if count == 1 else 's'}"
    if matrix.other_counts is not None:
        theirs = int(matrix.other_counts[i, j])
        return f"{taken}: {pictures} for {matrix.run}, {theirs:,} for {matrix.other}"
    if matrix.unit == PREDICTED_PERCENTAGES:
        whole, everything = matrix.counts[:, j].sum(), f"all images predicted as {predicted}"
    else:
        whole, everything = matrix.counts[i].sum(), f"all {plural_class_name(true)}"
    share = f", {100 * count / whole:.1f}% of {everything}" if whole else ""
    return f"{taken}: {pictures}{share}"


def cell_query(matrix: ConfusionCells, true: str, predicted: str) -> ImageQuery:
    """Return the query for the images of class `true` that were predicted as `predicted`."""
    i, j = matrix.classes.index(true), matrix.classes.index(predicted)
    return ImageQuery(matrix.run, Filters("all", i, j), matrix.other)


def plural_class_name(name: str) -> str:
    return CIFAR10_NOUNS[name][1] if name in CIFAR10_NOUNS else f'images of "{name}"'


def cell_title(matrix: ConfusionCells, true: str, predicted: str) -> list[DocumentBlock]:
    """Return a heading for the images of a cell, and a sentence about their order."""
    words = cell_label(matrix, matrix.classes.index(true), matrix.classes.index(predicted))
    order = "Most confident first."
    if matrix.other:
        order = f"First the images of {matrix.run}, then the other images of {matrix.other}."
    return [Heading(words), Text(order, quiet=True)]


def write_png(folder: Path, matrix: ConfusionCells) -> str:
    """Save the matrix in `folder` as a PNG with double resolution, and return the file's path."""
    figure = plot_confusion_matrix(
        np.where(np.eye(len(matrix.classes)) * matrix.errors_only, 0, matrix.values),
        cell_texts(matrix),
        matrix.classes,
        matrix.title,
        "images" if matrix.unit == COUNTS else matrix.unit.lower(),
        signed=matrix.other is not None,
    )
    path = folder / f"{matrix.file.replace('/', '-')}.png"
    path.write_bytes(figure_to_png(figure))
    return str(path)
