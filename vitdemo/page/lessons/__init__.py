"""The tab "Lessons", and the panel with the chosen lesson next to all tabs."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import gradio as gr
from gradio.components import Component

from vitdemo.page.bridge import Payload, Task
from vitdemo.page.lessons import catalog, cost, handouts, panel

LESSONS_INTRO = "A lesson opens the views that it explains. Each step has one task or question."
ABOUT_LESSONS = (
    "*Teach* opens a lesson for a projector: the text is larger, and the arrow keys change the "
    "step. Your progress is saved in this browser only."
)


def build(controls: dict[str, Component]) -> None:
    """Lay out the tab, whose views the browser draws. Add its controls to `controls`."""
    gr.Markdown(LESSONS_INTRO)
    catalog.build()
    cost.build(controls)
    handouts.build(controls)
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT_LESSONS)


def list_payloads(folders: Sequence[Path]) -> Mapping[str, Payload]:
    """Return the payload functions by view, for the lessons in `folders`."""
    views = {part.VIEW: partial(part.payload, folders) for part in (catalog, panel, handouts)}
    return {**views, cost.VIEW: cost.payload}


def list_tasks(folders: Sequence[Path]) -> Mapping[str, Task]:
    """Return the tasks by name, for the lessons in `folders`."""
    saves = {name: partial(task, folders) for name, task in handouts.TASKS.items()}
    return {**saves, **cost.TASKS}
