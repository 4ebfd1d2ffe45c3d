"""The tab "Lessons", and the panel with the chosen lesson next to all tabs."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import gradio as gr
from gradio.components import Component

from vitdemo.page.bridge import Payload, Task
from vitdemo.page.lessons import catalog, cost, handouts, panel

LESSONS_INTRO = (
    "Each lesson opens the views it explains and stays next to them. A step has a short text and "
    "a task or a question. Your progress is saved in this browser. For teachers: add `?teach=1` "
    "to the address for larger text, and use the arrow keys to change steps."
)


def build(controls: dict[str, Component]) -> None:
    """Lay out the tab, whose views the browser draws. Add its controls to `controls`."""
    gr.Markdown(LESSONS_INTRO)
    catalog.build()
    cost.build(controls)
    handouts.build(controls)


def list_payloads(folders: Sequence[Path]) -> Mapping[str, Payload]:
    """Return the payload functions by view, for the lessons in `folders`."""
    views = {part.VIEW: partial(part.payload, folders) for part in (catalog, panel, handouts)}
    return {**views, cost.VIEW: cost.payload}


def list_tasks(folders: Sequence[Path]) -> Mapping[str, Task]:
    """Return the tasks by name, for the lessons in `folders`."""
    saves = {name: partial(task, folders) for name, task in handouts.TASKS.items()}
    return {**saves, **cost.TASKS}
