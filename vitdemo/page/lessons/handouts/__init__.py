"""Handouts: a printable page per lesson, with or without answers, as an HTML file.

The payload is {"count": number of available lessons}, and an update of the menu of lessons. The
tasks return a file, {"name", "text"}.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.lessons.handout import render_handout
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import PageSetup, Report, ViewData
from vitdemo.page.gradio_patches import UncheckedDropdown
from vitdemo.page.lessons.catalog import load_lesson, read_catalog
from vitdemo.page.view_state import ViewState, needs

VIEW = "handouts"
HANDOUTS_TITLE = "Handouts (worksheets)"
HANDOUTS_HELP = (
    "A printable page per lesson, with figures of the available models, the questions and "
    "space for answers. Open the file in a browser and print it."
)
PROGRESS_TEXT = "Drawing the figures"


def build(setup: PageSetup) -> None:
    """Lay out the folded section, and add its menu to `controls`."""
    with gr.Accordion(HANDOUTS_TITLE, open=False, elem_id="hand-outs"):
        gr.Markdown(HANDOUTS_HELP)
        setup.controls.add(keys.HANDOUT, UncheckedDropdown, [])
        add_view(VIEW, elem_id="hand-out-buttons")


@needs(unwatched=(keys.HANDOUT,))
def payload(folders: Sequence[Path], context: AppContext, state: ViewState) -> ViewData:
    titles = {lesson.name: lesson.title for lesson in read_catalog(context, folders)[0]}
    name = state[keys.HANDOUT]
    name = name if name in titles else next(iter(titles), "")
    choices = [(title, name) for name, title in titles.items()]
    return ViewData(
        {"count": len(titles)}, {keys.HANDOUT.name: {"choices": choices, "value": name}}
    )


def write_handout(
    folders: Sequence[Path],
    context: AppContext,
    state: ViewState,
    report: Report,
    *,
    answers: bool = False,
) -> dict:
    """Return the handout of the chosen lesson. Raises `LessonError` if it is not available."""
    report(0, 0, PROGRESS_TEXT)
    lesson = load_lesson(context, folders, state[keys.HANDOUT])
    text = render_handout(lesson, context, answers=answers)
    return {"name": f"vitdemo-{lesson.name}{'-answers' if answers else ''}.html", "text": text}


TASKS = {VIEW: write_handout, f"{VIEW}.answers": partial(write_handout, answers=True)}
