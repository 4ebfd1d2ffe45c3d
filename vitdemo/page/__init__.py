"""The web page: `build_page` composes the tabs, one module each."""

from collections.abc import Sequence
from pathlib import Path

import gradio as gr

from vitdemo.jobs import Jobs
from vitdemo.lessons import FOLDER, LANGUAGE
from vitdemo.page import (
    api,
    calibration,
    compare,
    confusion,
    data,
    errors,
    header,
    lessons,
    look,
    metrics,
    own_classes,
    tabs,
    training,
)
from vitdemo.page.components import FOLDER as COMPONENTS
from vitdemo.page.components import head_script
from vitdemo.page.components.lesson_panel import LessonPanel
from vitdemo.page.kit import Page
from vitdemo.workbench import Workbench

# System fonts, so that the page loads completely without a network.
THEME = gr.themes.Soft(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "sans-serif"],
    font_mono=["ui-monospace", "monospace"],
)
# A tab's style sheet is next to its code. Each component loads its own one by itself.
OWN = {file.with_suffix(".css") for file in COMPONENTS.glob("*.html")}
PRINT = Path(__file__).parent / "print.css"
CSS = sorted({*Path(__file__).parent.rglob("*.css")} - OWN - {PRINT})
JS = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
PAGE_WIDE = [Path(__file__).parent / name for name in ("stream.js", "waiting.js", "names.js")]
SCRIPTS = [*(file.read_text(encoding="utf-8") for file in PAGE_WIDE), head_script()]
HEAD = "".join(f"<script>{script}</script>" for script in SCRIPTS)
HEAD += f'<style media="print">{PRINT.read_text(encoding="utf-8")}</style>'


def build_page(
    workbench: Workbench,
    jobs: Jobs | None = None,
    lesson_folders: Sequence[Path] = (FOLDER / LANGUAGE,),
    *,
    alone: bool = True,
) -> gr.Blocks:
    """Build the whole page for the models of `workbench`.

    With `jobs`, users can start training runs from the page. `alone` means that the page is bound
    to localhost, so its user may download any model. Pass THEME, CSS (paths), JS and HEAD to
    `launch`.
    """
    with Page(title="vitdemo", delete_cache=(3600, 3600), fill_width=True) as page:
        header.build(
            page, runs=workbench.everything, roots=workbench.roots, device=workbench.device
        )
        panel = LessonPanel(elem_id="lesson")  # CSS places it next to the tabs
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as page_tabs:
            with gr.Tab("Explore", id="look") as tab:
                opener = look.build(page, tab, page_tabs, workbench, alone=alone)
            with gr.Tab("Lessons", id="lessons") as tab:
                lessons.build(page, tab, panel, opener, lesson_folders)
            with gr.Tab("Training progress", id="training") as tab:
                learnt = training.build(tab, workbench, opener, jobs)
            with gr.Tab("Per-class metrics", id="metrics") as tab:
                metrics.build(tab, workbench)
            with gr.Tab("Confusion matrix", id="confusion") as tab:
                confusion.build(tab, workbench, opener)
            with gr.Tab("Errors", id="errors") as tab:
                errors.build(tab, workbench, opener)
            with gr.Tab("Calibration", id="calibration") as tab:
                calibration.build(tab, workbench)
            with gr.Tab("Compare models", id="compare") as tab:
                compare.build(tab, workbench, gains_of=learnt.pick)
            with gr.Tab("Data", id="data") as tab:
                data.build(tab, workbench, opener)
            with gr.Tab("Custom classes", id="own") as tab:
                own_classes.build(tab, workbench, jobs)
        tabs.remember(page, page_tabs)
        api.build(workbench)
    return page
