"""The tab "Lessons", and the panel with the chosen lesson next to all tabs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import gradio as gr

from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Feature, PageSetup, merge_features
from vitdemo.page.lessons import catalog, cost, handouts, panel

LESSONS_INTRO = "A lesson opens the views that it explains. Each step has one task or question."
ABOUT_LESSONS = (
    "*Teach* opens a lesson for a projector: only the parts of each step are shown, enlarged, and "
    "a presenter's remote changes the step. Your progress is saved in this browser only."
)


TAB_ID, TITLE, FEATURE = "lessons", "Lessons", cost.FEATURE


def build(setup: PageSetup) -> Feature:
    """Lay out the tab, and add its controls to `setup.controls`. The browser draws the views."""
    gr.Markdown(LESSONS_INTRO)
    cost.build(setup)
    add_view(catalog.VIEW, elem_id="lessons")
    handouts.build(setup)
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT_LESSONS)
    return merge_features([FEATURE, make_feature(setup.lesson_folders)])


def make_feature(folders: Sequence[Path]) -> Feature:
    """Return the functions of the tab and the panel for the lessons in `folders`."""
    views = {part.VIEW: partial(part.payload, folders) for part in (catalog, panel, handouts)}
    saves = {name: partial(task, folders) for name, task in handouts.TASKS.items()}
    return Feature(views, saves)
