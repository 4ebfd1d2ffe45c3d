"""The Confusion matrix tab: which classes a model takes for which, and each cell's pictures."""

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.metrics.errors import Filters
from vitdemo.page import html
from vitdemo.page.components.gallery import Gallery, page_of
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.confusion import drawing
from vitdemo.page.confusion.drawing import COUNTS, UNITS, Matrix
from vitdemo.page.kit import KEPT_SECONDS, LIGHT_QUEUE, QUIET, PickHTML, for_people, picked_numbers
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
    view = PickHTML(elem_id="confusion-matrix")
    with gr.Row():
        keep = gr.Button("Draw as PNG", size="sm", scale=0, min_width=160)
        kept = gr.HTML(elem_id="confusion-png", apply_default_css=False)
    title = gr.HTML(elem_id="cell-title", apply_default_css=False)
    shown = Gallery(elem_id="cell-pictures")
    cell = gr.State(None, time_to_live=KEPT_SECONDS)  # (true, predicted) class names

    def matrix(name, other, unit, errors_only):
        return drawing.read_matrix(predictions(workbench, name), name, other, unit, errors_only)

    def draw(name, other, unit, errors_only, cell):
        """Values of `drawn`; a cell stays chosen as long as its classes are there."""
        if name is None:
            return html.notice(NOTHING), "", None, "", None
        try:
            found = matrix(name, other, unit, errors_only)
        except VitdemoError as error:
            return html.notice(str(error)), "", None, "", None
        if cell is not None and not set(cell) <= set(found.classes):
            cell = None
        words = drawing.cell_title(found, *cell) if cell else ""
        pictures = page_of(workbench, query(found, *cell) if cell else None)
        return drawing.confusion_html(found, cell), "", cell, words, pictures

    def query_of(name, other, unit, errors_only, cell):
        return query(matrix(name, other, unit, errors_only), *cell) if name and cell else None

    def pick(name, other, unit, errors_only, event: gr.EventData):
        try:
            classes = predictions(workbench, name).classes
            pick = str(event.pick).removeprefix("pair-")
            cell = tuple(classes[i] for i in picked_numbers(pick, len(classes), len(classes)))
        except VitdemoError:  # the runs changed under the page
            cell = None
        return draw(name, other, unit, errors_only, cell)

    def draw_fresh(name, other, *settings):
        models, name = renewed_runs(workbench.evaluated_runs(), name)
        others, other = renewed_runs(comparable(workbench, name), other, optional=True)
        return models, others, *draw(name, other, *settings)

    @for_people
    def draw_png(name, other, unit, errors_only):
        return drawing.png_link(matrix(name, other, unit, errors_only)) if name else ""

    settings = [model, other, unit, errors_only]
    inputs = [*settings, cell]
    drawn = [view, kept, cell, title, shown]
    # One event for them all, so that of quick clicks the last one is answered last.
    events = [tab.select, *(setting.input for setting in settings)]
    gr.on(events, draw_fresh, inputs=inputs, outputs=[model, other, *drawn], **QUIET)
    picked = view.pick(pick, inputs=settings, outputs=drawn, **QUIET)
    picked.success(None, js=SHOW_PICTURES)
    made = keep.click(
        draw_png, inputs=settings, outputs=kept, api_visibility="private", **LIGHT_QUEUE
    )
    made.success(None, js="() => document.querySelector('#confusion-png a')?.click()")
    shown.wire(workbench, query_of, inputs, opener)


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
