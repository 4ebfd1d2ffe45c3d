"""The Confusion matrix tab: which classes a model takes for which, and each cell's pictures."""

from collections.abc import Callable

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.metrics.errors import Filters
from vitdemo.page import gallery, html
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.confusion import drawing
from vitdemo.page.confusion.drawing import COUNTS, UNITS, Matrix
from vitdemo.page.kit import LIGHT_QUEUE, QUIET, PickHTML, for_people, picked_numbers
from vitdemo.page.look.tab import Look
from vitdemo.page.metrics import NOBODY, NOTHING
from vitdemo.predictions import Predictions, Query
from vitdemo.runs import Run

# As little as is needed, so that the cell stays in sight.
SHOW_PICTURES = """() => requestAnimationFrame(() => document.querySelector(
  "#cell-pictures button, #cell-pictures table")?.scrollIntoView({ block: "nearest" }))"""
INTRO = (
    "Which classes a model takes for which, over all test pictures: a row for the **true class**, "
    "a column for the **predicted class**. Choose a cell to see its pictures, then a picture to "
    "see where the model looked: by mouse, or with the arrow keys and Enter."
)


def build(
    tab: gr.Tab,
    *,
    evaluated_runs: Callable[[], list[Run]],
    predictions: Callable[[str], Predictions],
    find: gallery.Find,
    pictures: gallery.Pictures,
    opener: Look,
) -> None:
    """Lay out and wire the tab; `evaluated_runs` reads the run folders as they are now."""
    gr.Markdown(INTRO)
    with gr.Row():
        with gr.Column(min_width=260):
            model = RunChoice(grouped(evaluated_runs()), elem_id="confusion-model")
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
    shown = gallery.lay_out("cell-pictures", find=find, pictures=pictures)
    cell = gr.State(None, time_to_live=gallery.KEPT_SECONDS)  # (true, predicted) class names

    def matrix(name, other, unit, errors_only):
        return drawing.read_matrix(predictions(name), name, other, unit, errors_only)

    def draw(name, other, unit, errors_only, cell, every):
        """Values of `drawn`; a cell stays chosen as long as its classes are there."""
        if name is None:
            return (html.notice(NOTHING), "", None, "", *shown.show(None, every))
        try:
            found = matrix(name, other, unit, errors_only)
        except VitdemoError as error:
            return (html.notice(str(error)), "", None, "", *shown.show(None, every))
        if cell is not None and not set(cell) <= set(found.classes):
            cell = None
        words = drawing.cell_title(found, *cell) if cell else ""
        pictures = shown.show(query(found, *cell) if cell else None, every)
        return (drawing.confusion_html(found, cell), "", cell, words, *pictures)

    def pick(name, other, unit, errors_only, every, event: gr.EventData):
        try:
            classes = predictions(name).classes
            pick = str(event.pick).removeprefix("pair-")
            cell = tuple(classes[i] for i in picked_numbers(pick, len(classes), len(classes)))
        except VitdemoError:  # the runs changed under the page
            cell = None
        return draw(name, other, unit, errors_only, cell, every)

    def draw_fresh(name, other, *settings):
        models, name = renewed_runs(evaluated_runs(), name)
        others, other = renewed_runs(comparable(predictions, name), other, optional=True)
        return models, others, *draw(name, other, *settings)

    @for_people
    def draw_png(name, other, unit, errors_only):
        return drawing.png_link(matrix(name, other, unit, errors_only)) if name else ""

    settings = [model, other, unit, errors_only]
    inputs = [*settings, cell, shown.every]
    drawn = [view, kept, cell, title, *shown.outputs]
    # One event for them all, so that of quick clicks the last one is answered last.
    events = [tab.select, *(setting.input for setting in settings)]
    gr.on(events, draw_fresh, inputs=inputs, outputs=[model, other, *drawn], **QUIET)
    picked = view.pick(pick, inputs=[*settings, shown.every], outputs=drawn, **QUIET)
    picked.success(None, js=SHOW_PICTURES)
    made = keep.click(
        draw_png, inputs=settings, outputs=kept, api_visibility="private", **LIGHT_QUEUE
    )
    made.success(None, js="() => document.querySelector('#confusion-png a')?.click()")
    gallery.wire(shown, opener)


def comparable(predictions: Callable[[str], Predictions], name: str | None) -> list[Run]:
    """The runs that `name` can be compared with: those tested on the same pictures."""
    try:
        return [run for run in predictions(name).runs if run.name != name] if name else []
    except VitdemoError:
        return []


def query(matrix: Matrix, true: str, predicted: str) -> Query:
    """The pictures of the cell of two class names."""
    i, j = matrix.classes.index(true), matrix.classes.index(predicted)
    return Query(matrix.run, Filters("all", i, j), matrix.other)
