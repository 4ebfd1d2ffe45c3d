"""The section Confusion matrix: counts of true and predicted classes, and the images of each cell.

Letters: C classes; cell (i, j) contains the images of class i that were predicted as class j. The
tab has two views, whose payloads are:

    confusion_matrix: see `matrix_to_payload`
    confusion_cell: {"title": blocks, "images": see `vitdemo.page.gallery`} of the chosen cell, or
        {"run": name, "pairs": see `most_confused_cells`} without a cell

The chosen cell is a text of the view state: the true and the predicted class, separated by a comma.
"""

from collections.abc import Sequence

import gradio as gr
import numpy as np

from vitdemo.analyses.predictions import ImageQuery, comparable_predictions
from vitdemo.context import AppContext
from vitdemo.documents import Heading, Text
from vitdemo.errors import RunError
from vitdemo.metrics import describe_pair, most_confused_pairs
from vitdemo.metrics.error_selection import Filters
from vitdemo.metrics.paired import name_images
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload, round_numbers
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gallery import gallery_payload
from vitdemo.page.results.models import MODELS, describe_menus, require_models
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.confusion import (
    CORNER,
    COUNTS,
    MAX_PAIRS,
    PREDICTED_PERCENTAGES,
    ConfusionCells,
    cell_texts,
    compute_cells,
    compute_test_set_difference,
)
from vitdemo.test_sets.context import ORIGINAL_SUFFIX

CONFUSION_INTRO = (
    "Each row is a **true class** and each column is a **predicted class** of the test images. "
    "Choose a cell with the mouse, or with the arrow keys and Enter. Choose an image to see the "
    "model's attention in Explore."
)
DIFFERENT_SETS_MESSAGE = (
    "The test sets have different sizes, so the cells are differences of percentages."
)
OTHER_IMAGES_MESSAGE = (
    "{name} and {other} were tested on different images, so their confusion matrices cannot be "
    "subtracted. Choose another model to compare with."
)
COLOUR_KEY = "Blue: correct predictions. Orange: errors. Strong colours mean high frequencies."
DIFFERENCE_COLOUR_KEY = (
    "Orange: higher for {first}. Purple: higher for {second}. Strong colours mean large "
    "differences."
)


def build(setup: PageSetup) -> None:
    with gr.Row(elem_id="confusion-settings", elem_classes="vd-filters"):
        setup.controls.add(keys.CELL_UNIT, gr.Radio)
        setup.controls.add(keys.ERRORS_ONLY, gr.Checkbox, min_width=150)
    with gr.Row(elem_id="confusion-result"):
        with gr.Column():
            add_view("confusion_matrix", elem_id="confusion-matrix")
        with gr.Column():
            add_view("confusion_cell", elem_id="cell-pictures")
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(CONFUSION_INTRO)


@needs(*MODELS, keys.CELL_UNIT, keys.ERRORS_ONLY)
def matrix_payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the confusion matrix, and the models and units to choose from. Raises `RunError`.

    Counts of test sets of different sizes cannot be compared.
    """
    matrix = read_matrix(context, state, state[keys.ERRORS_ONLY])
    units = [
        (label, unit)
        for unit, label in keys.CELL_UNIT.choices.items()
        if unit != COUNTS or not matrix.has_different_images
    ]
    unit = {keys.CELL_UNIT.name: {"choices": units, "value": matrix.unit}}
    return ViewData(matrix_to_payload(matrix), describe_menus(context, state) | unit)


@needs(*MODELS, keys.CELL_UNIT, keys.CELL, keys.CELL_PAGE)
def cell_payload(context: AppContext, state: ViewState) -> dict:
    """Return the title and the images of the chosen cell. Raises `RunError`.

    If no cell is chosen, or if the models do not have both classes, the result is a list of cells.
    """
    matrix = read_matrix(context, state)
    cell = find_cell(matrix.classes, state[keys.CELL])
    if cell is None:
        return {"run": matrix.run, "pairs": most_confused_cells(matrix)}
    label, order = cell_label(matrix, *cell), "Most confident first."
    other = None if matrix.has_different_images else matrix.other
    if other:
        order = f"First the images of {matrix.run}, then the other images of {other}."
    title = [Heading(label[:1].upper() + label[1:]), Text(order, quiet=True)]
    query = ImageQuery(matrix.run, Filters("all", *cell), other)
    return {
        "title": document_payload(title),
        "images": gallery_payload(context, query, int(state[keys.CELL_PAGE])),
    }


FEATURE = Feature({"confusion_matrix": matrix_payload, "confusion_cell": cell_payload})


def read_matrix(context: AppContext, state: ViewState, errors_only: bool = False) -> ConfusionCells:
    """Return the confusion matrix of the view state.

    Raises `RunError` without an evaluated run, or if the two runs have different test images.
    """
    name, other = require_models(context, state)
    group = comparable_predictions(context, name)
    unit = state[keys.CELL_UNIT]
    if other.endswith(ORIGINAL_SUFFIX):
        return compute_test_set_difference(group, name, context.find_run(other), unit, errors_only)
    if other and other not in group.names:
        raise RunError(OTHER_IMAGES_MESSAGE.format(name=name, other=other))
    return compute_cells(group, name, other or None, unit, errors_only)


def find_cell(classes: Sequence[str], text: str) -> tuple[int, int] | None:
    """Return the class indices in "true,predicted", or None. A class name may contain commas."""
    words = text.split(",")
    for end in range(1, len(words)):
        names = ",".join(words[:end]), ",".join(words[end:])
        if set(names) <= set(classes):
            return classes.index(names[0]), classes.index(names[1])
    return None


def matrix_to_payload(matrix: ConfusionCells) -> dict:
    """Convert the confusion matrix to its payload.

    `values`, `texts`, `strengths` and `spoken` are (C, C). `strengths` (-1 to 1) define the
    colours, and `spoken` are labels for screen readers. `signed` marks a difference of two models,
    with negative values in purple.
    """
    key = COLOUR_KEY
    if matrix.other:
        key = DIFFERENCE_COLOUR_KEY.format(first=matrix.run, second=matrix.other)
    c = range(len(matrix.classes))
    notes = [DIFFERENT_SETS_MESSAGE] if matrix.has_different_images else []
    return {
        "classes": list(matrix.classes),
        "values": matrix.values.tolist(),
        "strengths": round_numbers(colour_strengths(matrix), 4),
        "corner": CORNER,
        "texts": cell_texts(matrix),
        "spoken": [[cell_label(matrix, i, j) for j in c] for i in c],
        "signed": matrix.other is not None,
        "notes": [key, *notes, *matrix.group.exclusion_messages],
        "file": matrix.file,
    }


def most_confused_cells(matrix: ConfusionCells) -> list[dict]:
    """Return the cells of the most confused pairs of classes, each as {"cell", "pick", "text"}."""
    return [
        {
            "cell": f"{matrix.classes[pair.true]},{matrix.classes[pair.predicted]}",
            "pick": f"pair-{pair.true}-{pair.predicted}",
            "text": describe_pair(pair, matrix.classes),
        }
        for pair in most_confused_pairs(matrix.counts, MAX_PAIRS)
    ]


def colour_strengths(matrix: ConfusionCells) -> np.ndarray:
    """Return the colour strength of each cell, (C, C), from -1 to 1.

    Errors are scaled to the largest error; otherwise they would be invisible next to the correct
    predictions. Differences are scaled in the same way, and clipped on the diagonal.
    """
    values = matrix.values
    if matrix.unit == COUNTS:  # fractions, so that colours do not depend on class size
        support = matrix.counts.sum(axis=1, keepdims=True)  # support is the same for both models
        values = values / np.maximum(support, 1)
    right = np.eye(len(values), dtype=bool)
    scaled = values / (np.abs(values[~right]).max(initial=0) or 1.0)
    if matrix.errors_only:
        return np.where(right, 0.0, scaled)
    return scaled.clip(-1, 1) if matrix.other else np.where(right, values, scaled)


def cell_label(matrix: ConfusionCells, i: int, j: int) -> str:
    """Describe a cell: "true class cat, predicted class dog: 146 images, 14.6% of all cats"."""
    true, predicted = matrix.classes[i], matrix.classes[j]
    taken = f"true class {true}, predicted class {predicted}"
    count = int(matrix.counts[i, j])
    images = f"{count:,} image{'' if count == 1 else 's'}"
    if matrix.other_counts is not None:
        theirs = int(matrix.other_counts[i, j])
        return f"{taken}: {images} for {matrix.run}, {theirs:,} for {matrix.other}"
    if matrix.unit == PREDICTED_PERCENTAGES:
        whole, everything = matrix.counts[:, j].sum(), f"all images predicted as {predicted}"
    else:
        whole, everything = matrix.counts[i].sum(), f"all {name_images(true, 2)}"
    share = f", {100 * count / whole:.1f}% of {everything}" if whole else ""
    return f"{taken}: {images}{share}"
