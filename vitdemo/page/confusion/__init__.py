"""The Confusion matrix tab: which classes a model takes for which, and each cell's pictures."""

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.metrics.errors import Filters
from vitdemo.page.components.article import Article
from vitdemo.page.components.gallery import Gallery, page_of
from vitdemo.page.components.matrix import MatrixView
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.confusion.matrix import (
    COUNTS,
    UNITS,
    Matrix,
    cell_title,
    drawn,
    read_matrix,
    write_png,
)
from vitdemo.page.kit import KEPT_SECONDS, LIGHT_QUEUE, QUIET, offer_download, picked_numbers
from vitdemo.page.look.tab import Look
from vitdemo.page.metrics import NOBODY, NOTHING
from vitdemo.predictions import Query, predictions
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

# As little as is needed, so that the cell stays in sight.
SHOW_PICTURES = """() => requestAnimationFrame(() => document.querySelector(
  "#cell-pictures .pictures > *")?.scrollIntoView({ block: "nearest" }))"""
INTRO = (
    "Which classes a model takes for which, over all test pictures: a row for the **true class**, "
    "a column for the **predicted class**. Choose a cell to see its pictures, then a picture to "
    "see where the model looked: by mouse, or with the arrow keys and Enter."
)


def build(tab: gr.Tab, workbench: Workbench, opener: Look) -> None:
    """Lay out and wire the tab; a picture of a cell opens in Look."""
    gr.Markdown(INTRO)
    with gr.Row():
        with gr.Column(min_width=260):
            model = RunChoice(grouped(workbench.evaluated_runs()), elem_id="confusion-model")
        with gr.Column(min_width=260):
            other = RunChoice(
                label="Subtract the cells of",
                info="shows how two models differ",
                nobody=NOBODY,
                elem_id="confusion-other",
            )
    with gr.Row():
        with gr.Column(min_width=300):
            unit = gr.Radio(list(UNITS), value=COUNTS, label="Cells show")
        with gr.Column(min_width=300):
            errors_only = gr.Checkbox(False, label="Errors only")
    view = MatrixView(elem_id="confusion-matrix")
    settings = [model, other, unit, errors_only]

    def save_png(folder, *chosen):
        return write_png(folder, matrix(*chosen))

    with gr.Row(), gr.Column(scale=0, min_width=160):
        offer_download("Draw as PNG", "confusion-png", save_png, settings, LIGHT_QUEUE)
    title = Article(elem_id="cell-title")
    shown = Gallery(elem_id="cell-pictures")
    cell = gr.State(None, time_to_live=KEPT_SECONDS)  # (true, predicted) class names

    def matrix(name, other, unit, errors_only):
        return read_matrix(predictions(workbench, name), name, other, unit, errors_only)

    def draw(name, other, unit, errors_only, cell):
        """Values of `outputs`; a cell stays chosen as long as its classes are there."""
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
        except VitdemoError:  # the runs changed under the page
            cell = None
        return draw(name, other, unit, errors_only, cell)

    def draw_fresh(name, other, *settings):
        models, name = renewed_runs(workbench.evaluated_runs(), name)
        others, other = renewed_runs(comparable(workbench, name), other, optional=True)
        return models, others, *draw(name, other, *settings)

    inputs = [*settings, cell]
    outputs = [view, cell, title, shown]
    # One event for them all, so that of quick clicks the last one is answered last.
    events = [tab.select, *(setting.input for setting in settings)]
    gr.on(events, draw_fresh, inputs=inputs, outputs=[model, other, *outputs], **QUIET)
    picked = view.pick(pick, inputs=settings, outputs=outputs, **QUIET)
    picked.success(None, js=SHOW_PICTURES)
    shown.wire(workbench, query_of, inputs, opener.connect)


def comparable(workbench: Workbench, name: str | None) -> list[Run]:
    """The runs that `name` can be compared with: those tested on the same pictures."""
    try:
        runs = predictions(workbench, name).runs if name else ()
        return [run for run in runs if run.name != name]
    except VitdemoError:
        return []


def query(matrix: Matrix, true: str, predicted: str) -> Query:
    """The pictures of the cell of two class names."""
    i, j = matrix.classes.index(true), matrix.classes.index(predicted)
    return Query(matrix.run, Filters("all", i, j), matrix.other)
