"""The Confusion matrix tab: which classes a model takes for which, per model."""

from collections.abc import Callable

import gradio as gr
import numpy as np

from vitdemo.errors import VitdemoError
from vitdemo.evaluation import confusion, most_confused, pair_sentence, row_normalised
from vitdemo.runs import Run
from vitdemo.ui import html
from vitdemo.ui.components import QUIET, fresh_radio, run_radio
from vitdemo.ui.metrics import NOTHING

COUNTS, SHARES = "Counts", "Share of the true class"
PAIRS = 10
INTRO = (
    "Which classes a model takes for which, over all test pictures: a row for the true class, a "
    "column for what the model said. Blue is right; orange is wrong, stronger where it is "
    "more frequent."
)
BLUE, ORANGE = "#1d4ed8", "#c2410c"


def build(page: gr.Blocks, *, evaluated_runs: Callable[[], list[Run]]) -> None:
    """Lay out and wire the tab; `evaluated_runs` reads the run folders as they are now."""
    gr.Markdown(INTRO)
    with gr.Row():
        model = run_radio(evaluated_runs())
        unit = gr.Radio([COUNTS, SHARES], value=COUNTS, label="Cells show", min_width=300)
    view = gr.HTML(elem_id="confusion-matrix", apply_default_css=False)

    def show(name, unit):
        run = next((run for run in evaluated_runs() if run.name == name), None)
        return confusion_html(run, unit == SHARES)

    def open_page(name, unit):
        update = fresh_radio(evaluated_runs(), name)
        return update, show(update["value"], unit)

    page.load(open_page, inputs=[model, unit], outputs=[model, view], **QUIET)
    gr.on([model.input, unit.input], show, inputs=[model, unit], outputs=view, **QUIET)


def confusion_html(run: Run | None, shares: bool) -> str:
    """The matrix, then the most confused pairs as sentences."""
    if run is None:
        return html.notice(NOTHING)
    try:
        matrix = confusion(run.evaluation.probabilities, run.evaluation.labels)  # (C, C)
    except (VitdemoError, ValueError) as error:
        return html.notice(f"{run.name}: {error}")
    pairs = [pair_sentence(pair, run.classes) for pair in most_confused(matrix, PAIRS)]
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in pairs)
    sentences = f"<ol>{items}</ol>" if items else "<p>No picture was taken for another class.</p>"
    link = html.csv_link(
        ("true \\ said", *run.classes),
        [(name, *map(int, row)) for name, row in zip(run.classes, matrix, strict=True)],
        f"{run.name}-confusion.csv",
    )
    return (
        matrix_html(matrix, run.classes, shares)
        + f"<p>{link}</p><h3>Most confused pairs of {html.escape(run.name)}</h3>{sentences}"
    )


def matrix_html(matrix: np.ndarray, classes: tuple[str, ...], shares: bool) -> str:
    """(C, C) counts as a table; `shares` shows each row in percent of its class."""
    normalised = row_normalised(matrix)  # (C, C)
    wrong = normalised.copy()
    np.fill_diagonal(wrong, 0)
    top = wrong.max() or 1.0
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in classes)
    body = []
    for i, name in enumerate(classes):
        cells = []
        for j, said in enumerate(classes):
            strength = normalised[i, j] if i == j else wrong[i, j] / top
            text = f"{100 * normalised[i, j]:.1f} %" if shares else f"{matrix[i, j]:,}"
            title = f"{name} taken for {said}: {matrix[i, j]} ({100 * normalised[i, j]:.1f} %)"
            if i == j:
                title = f"{name} named rightly: {matrix[i, j]} ({100 * normalised[i, j]:.1f} %)"
            cells.append(
                f'<td title="{html.escape(title)}" aria-label="{html.escape(title)}" '
                f'style="{shade(i == j, strength)}">{text}</td>'
            )
        body.append(f'<tr><th scope="row">{html.escape(name)}</th>{"".join(cells)}</tr>')
    return (
        '<div class="vd-scroll"><table class="vd-table vd-matrix"><thead><tr>'
        f'<th scope="col">true \\ said</th>{head}</tr></thead><tbody>{"".join(body)}</tbody>'
        "</table></div>"
    )


def shade(right: bool, strength: float) -> str:
    """Background of a cell for a strength in 0..1: never so strong that its number is hard to read.

    At 55 % the page's own text colour keeps a contrast above 5 : 1 in light and dark.
    """
    percent = round(55 * min(float(strength), 1.0))
    return f"background: color-mix(in srgb, {BLUE if right else ORANGE} {percent}%, transparent)"
