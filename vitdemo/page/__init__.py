"""The web page: `build_page` lays out the tabs, one per module."""

from collections.abc import Sequence
from pathlib import Path

from vitdemo.page import gradio_stubs as gradio_stubs  # must come before other imports of gradio

# isort: split
import gradio as gr

from vitdemo.context import AppContext
from vitdemo.jobs import JobQueue
from vitdemo.lessons import DEFAULT_LANGUAGE, LESSONS_FOLDER
from vitdemo.page import (
    api,
    bridge,
    custom_classes,
    data,
    explore,
    header,
    lessons,
    results,
    training,
)
from vitdemo.page.data import download
from vitdemo.page.data.download import DatasetDownload
from vitdemo.page.explore.tab import start_on_load
from vitdemo.page.gradio_patches import AppBlocks
from vitdemo.page.kit import SESSION_QUEUES
from vitdemo.page.modules import build_head
from vitdemo.page.saved_view import code
from vitdemo.page.saved_view import html as saved_view
from vitdemo.page.theme import CSS as CSS
from vitdemo.page.theme import THEME as THEME

HEAD = build_head()

# Modules with payload functions of views; some also have tasks.
FEATURES = (explore, results, data)
PAYLOADS = {name: payload for feature in FEATURES for name, payload in feature.PAYLOADS.items()}
TASKS = {name: task for feature in FEATURES for name, task in getattr(feature, "TASKS", {}).items()}
TASKS[saved_view.TASK] = saved_view.write_saved_view
TASKS[code.TASK] = code.write_saved_code


def build_page(
    context: AppContext,
    jobs: JobQueue | None = None,
    lesson_folders: Sequence[Path] = (LESSONS_FOLDER / DEFAULT_LANGUAGE,),
    *,
    local_only: bool = True,
    downloads_dataset: bool = False,
) -> gr.Blocks:
    """Build the whole page for the models of `context`.

    With `jobs`, users can start training runs from the page. `local_only` means that the page is
    bound to localhost; then users may download any timm model. `downloads_dataset` downloads a
    missing CIFAR-10 in the background. Pass THEME, CSS (paths), HEAD and
    `modules.build_app_options()` to `Blocks.launch`.
    """
    dataset = DatasetDownload(context)
    if downloads_dataset:
        dataset.start()
    options = {"delete_cache": (3600, 3600), "fill_width": True}
    with AppBlocks(title="vitdemo", serial_queues=SESSION_QUEUES, **options) as page:
        header.build(page, context)
        bridge.add_view(download.VIEW, elem_id="dataset")
        bridge.add_view(lessons.panel.VIEW, elem_id="lesson")  # next to all tabs
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as page_tabs:
            with gr.Tab("Explore", id="look"):
                opener = explore.build(page, context, local_only=local_only)
            with gr.Tab("Lessons", id="lessons"):
                lessons.build(opener.controls)
            with gr.Tab("Train", id="training"):
                training.build(context, opener.controls, jobs, local_only=local_only)
            with gr.Tab("Results", id=results.TAB):
                sections, tests = results.build(context, opener.controls, local_only=local_only)
            with gr.Tab("Data", id="data"):
                data.build(context, opener.controls)
            with gr.Tab("Custom classes", id="own"):
                own = custom_classes.build(context, opener.controls, jobs)
        features = [
            bridge.Feature(PAYLOADS, TASKS),
            bridge.Feature(training.make_payloads(jobs)),
            *(lessons.make_feature(lesson_folders), own, tests, dataset.make_feature()),
        ]
        shown = {"model": opener.model, "layer": opener.layer}
        page.bridge = bridge.build(context, features, opener.controls, shown)
        start_on_load(page, page_tabs, opener.sections, {results.TAB: sections})
        api.register_endpoints(context)
    return page
