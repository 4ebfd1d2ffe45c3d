"""The Data tab: sections about the dataset, one module per section."""

from collections.abc import Iterator
from functools import partial

import gradio as gr

from vitdemo import data
from vitdemo.context import AppContext
from vitdemo.data.downloads import OnBytes
from vitdemo.errors import DataError, Stopped, VitdemoError
from vitdemo.page.components.article import Document
from vitdemo.page.components.task_list import Task, TaskList, parse_task_action
from vitdemo.page.data import augmentation, classes, patches, similar
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.fetching import DownloadManager
from vitdemo.page.kit import NO_PROGRESS, show_user_errors
from vitdemo.page.sections import LazySections

DATA_INTRO = (
    "The images that the models are trained and tested on: number per class, division into "
    "patches, data augmentation, and similarity of images in the feature space of a model."
)
SECTIONS = {  # section id -> title and module
    "data-classes": ("Classes", classes),
    "data-patches": ("Patches", patches),
    "data-augmentation": ("Augmentation", augmentation),
    "data-similar": ("Similar images", similar),
}
CIFAR10, DOWNLOAD_ACTIONS = "CIFAR-10", ("get", "stop")
DOWNLOAD_HELP = (
    "Source: the Hugging Face Hub or, if it cannot be reached, CIFAR-10's website, which is slow. "
    "A stopped download can be continued later."
)
# Downloads have a separate queue, so that they do not block other requests.
DOWNLOAD_QUEUE = {"concurrency_id": "dataset download", "concurrency_limit": 20}
DOWNLOAD_STOPPED_MESSAGE = "Download stopped. The next download continues from here."
DOWNLOAD_DONE_MESSAGE = "The dataset was downloaded. Reload the page to show its images in Explore."


def build(tab: gr.Tab, context: AppContext, look: ExploreTab) -> None:
    """Lay out the tab and connect its events; sections use the image of the tab Explore."""
    gr.Markdown(DATA_INTRO)
    missing = Document(elem_id="data-missing")
    fetch = TaskList(elem_id="data-download")
    opened = gr.Textbox(next(iter(SECTIONS)), visible="hidden", label="current section of Data")
    sections, tabs, fetching = LazySections([opened]), {}, DownloadManager()
    with gr.Tabs(elem_id="data-sections", overflow_behavior="wrap"):
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name) as tabs[name]:
                section.build(sections, context, look)

    def state() -> tuple[str, list[Task]]:
        """Return the error of a missing dataset, and a row to download it if possible."""
        try:
            context.open_dataset()
        except DataError as error:
            is_absent = data.is_dataset_missing(context.data_root)
            return str(error), [download_row(fetching)] if is_absent else []
        return "", []

    @show_user_errors
    def act(event: gr.EventData) -> Iterator[tuple]:
        if parse_task_action(event, DOWNLOAD_ACTIONS)[0] == "stop":
            fetching.stop(CIFAR10)
            yield gr.skip(), gr.skip()
            return
        if fetching.get_progress(CIFAR10):
            raise DataError("The dataset is already being downloaded. Wait until it is complete.")
        try:
            for _ in fetching.run_download(CIFAR10, partial(download_cifar10, context)):
                yield gr.skip(), [download_row(fetching)]
        except Stopped:
            yield DOWNLOAD_STOPPED_MESSAGE, [download_row(fetching)]
        except VitdemoError:
            yield state()
            raise
        else:
            yield DOWNLOAD_DONE_MESSAGE, []

    several = {"trigger_mode": "multiple", **DOWNLOAD_QUEUE}
    fetched = fetch.act(act, None, [missing, fetch], **NO_PROGRESS, **several)
    sections.draw_on(fetched.success, list(sections.section_list))
    sections.add("", state, [], [missing, fetch])  # not after a download: `act` shows a message
    sections.draw_on(tab.select, sections.section_list)
    sections.wire(tabs)


def download_row(fetching: DownloadManager) -> Task:
    """Return the task row of the dataset download, with the current progress."""
    if now := fetching.get_progress(CIFAR10):
        stop = [("stop", "Stop")]
        return Task(CIFAR10, "downloading", now.description, min(now.fraction, 0.999), stop)
    return Task(CIFAR10, "", "170 MB", 1.0, [("get", "Download")], DOWNLOAD_HELP)


def download_cifar10(context: AppContext, on_bytes: OnBytes) -> None:
    """Download CIFAR-10 to the page's data folder.

    Raises `DataError` without a network connection, or if the folder contains other files.
    """
    data.open_dataset(context.data_root, download=True, on_bytes=on_bytes)
