"""The Data tab: the dataset, in one module per section, each drawn when it is opened."""

from collections.abc import Iterator
from functools import partial

import gradio as gr

from vitdemo import data
from vitdemo.downloads import OnBytes
from vitdemo.errors import DataError, Stopped, VitdemoError
from vitdemo.page.components.article import Article
from vitdemo.page.components.task_list import Task, TaskList, wanted
from vitdemo.page.data import augmentation, classes, patches, similar
from vitdemo.page.fetching import Fetching
from vitdemo.page.kit import HIDDEN, for_people
from vitdemo.page.look.tab import Look
from vitdemo.page.sections import Sections
from vitdemo.workbench import Workbench

INTRO = (
    "The images that the models are trained and tested on: number per class, division into "
    "patches, data augmentation, and similarity of images in the feature space of a model."
)
SECTIONS = {  # id of the section's tab -> title and module
    "data-classes": ("Classes", classes),
    "data-patches": ("Patches", patches),
    "data-augmentation": ("Augmentation", augmentation),
    "data-similar": ("Similar images", similar),
}
CIFAR10, ACTIONS = "CIFAR-10", ("get", "stop")
WHENCE = (
    "Source: the Hugging Face Hub or, if it cannot be reached, CIFAR-10's website, which is slow. "
    "A stopped download can be continued later."
)
# A queue of its own, so that a download does not block other requests.
DOWNLOAD_QUEUE = {"concurrency_id": "dataset download", "concurrency_limit": 20}
STOPPED = "Download stopped. The next download continues from here."
DOWNLOADED = "The dataset was downloaded. Reload the page to show its images in Explore."


def build(tab: gr.Tab, workbench: Workbench, look: Look) -> None:
    """Lay out and wire the `tab`, which shares its image with the tab Explore."""
    gr.Markdown(INTRO)
    missing = Article(elem_id="data-missing")
    fetch = TaskList(elem_id="data-download")
    opened = gr.Textbox(next(iter(SECTIONS)), visible="hidden", label="Open section of Data")
    sections, tabs, fetching = Sections([opened]), {}, Fetching()
    with gr.Tabs(elem_id="data-sections", overflow_behavior="wrap"):
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name) as tabs[name]:
                section.build(sections, workbench, look)

    def state() -> tuple[str, list[Task]]:
        """Return why the dataset is missing, and a download row if it can be downloaded."""
        try:
            workbench.source()
        except DataError as error:
            is_absent = data.is_absent(workbench.data_root)
            return str(error), [row(fetching)] if is_absent else []
        return "", []

    @for_people
    def act(event: gr.EventData) -> Iterator[tuple]:
        if wanted(event, ACTIONS)[0] == "stop":
            fetching.stop(CIFAR10)
            yield gr.skip(), gr.skip()
            return
        if fetching.progress(CIFAR10):
            raise DataError("The dataset is already being downloaded. Wait until it is complete.")
        try:
            for _ in fetching.follow(CIFAR10, partial(download, workbench)):
                yield gr.skip(), [row(fetching)]
        except Stopped:
            yield STOPPED, [row(fetching)]
        except VitdemoError:
            yield state()
            raise
        else:
            yield DOWNLOADED, []

    several = {"trigger_mode": "multiple", **DOWNLOAD_QUEUE}
    fetched = fetch.act(act, None, [missing, fetch], **HIDDEN, **several)
    sections.draw_on(fetched.success, list(sections.all))
    sections.add("", state, [], [missing, fetch])  # not after a download, which has its own message
    sections.draw_on(tab.select, sections.all)
    sections.wire(tabs)


def row(fetching: Fetching) -> Task:
    """Return the row of the dataset download, with its current progress."""
    if now := fetching.progress(CIFAR10):
        stop = [("stop", "Stop")]
        return Task(CIFAR10, "downloading", now.words, min(now.share, 0.999), stop)
    return Task(CIFAR10, "", "170 MB", 1.0, [("get", "Download")], WHENCE)


def download(workbench: Workbench, on_bytes: OnBytes) -> None:
    """Download CIFAR-10 to the page's data folder.

    Raises `DataError` without a network connection, or if the folder contains other files.
    """
    data.open_source(workbench.data_root, download=True, on_bytes=on_bytes)
