"""The web page: `build_page` lays out the tabs, one per module."""

from collections.abc import Sequence
from pathlib import Path

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
from vitdemo.page.components import View
from vitdemo.page.data import download
from vitdemo.page.data.download import DatasetDownload
from vitdemo.page.explore.tab import start_on_load
from vitdemo.page.gradio_patches import AppBlocks
from vitdemo.page.kit import SESSION_QUEUES
from vitdemo.page.modules import PRINT_STYLESHEET, build_head

# System fonts: the page needs no web fonts, so it also loads without a network.
THEME = gr.themes.Soft(
    primary_hue="blue",
    neutral_hue="slate",
    font=["system-ui", "sans-serif"],
    font_mono=["ui-monospace", "monospace"],
).set(
    # Labels are small and grey, and controls have no boxes: the results are the loudest elements.
    block_title_background_fill="transparent",
    block_title_background_fill_dark="transparent",
    block_title_padding="0",
    block_title_text_color="*neutral_600",
    block_title_text_color_dark="*neutral_300",
    block_title_text_size="*text_sm",
    block_title_text_weight="500",
    block_info_text_color="*neutral_600",
    block_info_text_color_dark="*neutral_300",
    block_background_fill="transparent",
    block_background_fill_dark="transparent",
    block_shadow="none",
    block_shadow_dark="none",
    block_padding="4px 6px",
    body_text_color_subdued="*neutral_600",  # on all backgrounds, a contrast of at least 4.5
    body_text_color_subdued_dark="*neutral_300",
    link_text_color="*primary_700",
    link_text_color_dark="*primary_300",
    link_text_color_hover="*primary_800",
    link_text_color_hover_dark="*primary_200",
    link_text_color_active="*primary_700",
    link_text_color_active_dark="*primary_300",
    link_text_color_visited="*primary_700",
    link_text_color_visited_dark="*primary_300",
    input_background_fill_dark="*neutral_700",
    # White text on primary_500 has a contrast of only 3.7.
    button_primary_background_fill="*primary_600",
    button_primary_background_fill_hover="*primary_700",
    button_primary_background_fill_dark="*primary_600",
    button_primary_background_fill_hover_dark="*primary_700",
    checkbox_label_background_fill_selected="*primary_600",
    checkbox_label_background_fill_selected_dark="*primary_600",
    checkbox_border_color="*neutral_400",
    checkbox_border_color_dark="*neutral_400",
    checkbox_background_color_selected="*primary_600",
    checkbox_background_color_selected_dark="*primary_600",
)
# A component of Python loads its own style sheet, so `CSS` does not contain these files.
COMPONENT_STYLESHEETS = {component.part("css") for component in View.__subclasses__()}
CSS = sorted({*Path(__file__).parent.rglob("*.css")} - COMPONENT_STYLESHEETS - {PRINT_STYLESHEET})
HEAD = build_head()

# Modules with the payload functions of their views, and perhaps tasks.
FEATURES = (explore, results, data)
PAYLOADS = {name: payload for feature in FEATURES for name, payload in feature.PAYLOADS.items()}
TASKS = {name: task for feature in FEATURES for name, task in getattr(feature, "TASKS", {}).items()}


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
    if downloads_dataset and context.is_dataset_missing():
        dataset.start()
    options = {"delete_cache": (3600, 3600), "fill_width": True}
    with AppBlocks(title="vitdemo", serial_queues=SESSION_QUEUES, **options) as page:
        header.build(
            page,
            runs=context.list_runs_and_models,
            roots=context.roots,
            device=context.device,
        )
        download.build()
        lessons.panel.build()  # next to all tabs
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as page_tabs:
            with gr.Tab("Explore", id="look"):
                opener = explore.build(page, context, local_only=local_only)
            with gr.Tab("Lessons", id="lessons"):
                lessons.build(opener.controls)
            with gr.Tab("Train", id="training"):
                training.build(context, opener.controls, jobs, local_only=local_only)
            with gr.Tab("Results", id=results.TAB):
                parts = results.build(context, opener.controls)
            with gr.Tab("Data", id="data"):
                data.build(context, opener.controls)
            with gr.Tab("Custom classes", id="own"):
                own = custom_classes.build(context, opener.controls, jobs)
        bridge.build(
            context,
            {
                **PAYLOADS,
                **training.make_payloads(jobs),
                **lessons.list_payloads(lesson_folders),
                **own.payloads,
                **dataset.payloads(),
            },
            {**TASKS, **lessons.list_tasks(lesson_folders), **own.tasks},
            {**own.actions, **dataset.actions()},
            opener.controls,
            opener.updated_components,
        )
        start_on_load(page, page_tabs, opener.sections, {results.TAB: parts})
        api.register_endpoints(context)
    return page
