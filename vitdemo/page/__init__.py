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
from vitdemo.page.explore.tab import describe_tabs, start_on_load
from vitdemo.page.feature import Feature, PageSetup, merge_features
from vitdemo.page.gradio_patches import AppBlocks
from vitdemo.page.kit import SESSION_QUEUES
from vitdemo.page.modules import build_head
from vitdemo.page.saved_view import code
from vitdemo.page.saved_view import html as saved_view
from vitdemo.page.theme import CSS as CSS
from vitdemo.page.theme import THEME as THEME

HEAD = build_head()

# Modules of the tabs, in their order on the page.
TABS = explore, lessons, training, results, data, custom_classes
SAVING = Feature(
    tasks={saved_view.TASK: saved_view.write_saved_view, code.TASK: code.write_saved_code}
)
# Functions that need only an `AppContext` and a `ViewState`: no session and no training jobs.
FEATURE = merge_features([*(tab.FEATURE for tab in TABS), SAVING])


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
        setup = PageSetup(page, context, jobs, lesson_folders, local_only)
        header.build(page, context)
        bridge.add_view(download.VIEW, elem_id="dataset")
        bridge.add_view(lessons.panel.VIEW, elem_id="lesson")  # next to all tabs
        features = [SAVING, dataset.make_feature()]
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as setup.sections["tab"]:
            for tab in TABS:
                with gr.Tab(tab.TITLE, id=tab.TAB_ID):
                    features.append(tab.build(setup))
        page.bridge = bridge.build(setup, features)
        page.tabs = describe_tabs(setup)
        start_on_load(page, page.tabs)
        api.register_endpoints(context)
    return page
