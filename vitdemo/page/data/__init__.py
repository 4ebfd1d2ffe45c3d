"""The Data tab: what the models learn from, one section a file, drawn when it is opened."""

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
    "What the models learn from: how many pictures each class has, how a picture becomes tokens, "
    "what training does to it, and which pictures resemble each other to a model."
)
SECTIONS = {  # id of its tab: its title and its file
    "data-classes": ("Classes", classes),
    "data-patches": ("Patches", patches),
    "data-augmentation": ("Augmentation", augmentation),
    "data-similar": ("Similar pictures", similar),
}
CIFAR10, ACTIONS = "CIFAR-10", ("get", "stop")
WHENCE = (
    "From the Hugging Face Hub, or where that cannot be reached from CIFAR-10's own site, which is "
    "slow. What is here stays when it is stopped: the next download goes on there."
)
# Nobody else waits for it.
DOWNLOAD_QUEUE = {"concurrency_id": "download of the data set", "concurrency_limit": 20}
STOPPED = "Stopped. What has come stays: the next download goes on there."
DOWNLOADED = "The data set is here. Reload the page to have its pictures in Look, too."


def build(tab: gr.Tab, workbench: Workbench, look: Look) -> None:
    """Lay out and wire the `tab`; it draws from the picture in Look, where its pictures open."""
    gr.Markdown(INTRO)
    missing = Article(elem_id="data-missing")
    fetch = TaskList(elem_id="data-download")
    opened = gr.Textbox(next(iter(SECTIONS)), visible="hidden", label="open section of Data")
    sections, tabs, fetching = Sections([opened]), {}, Fetching()
    with gr.Tabs(elem_id="data-sections", overflow_behavior="wrap"):
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name) as tabs[name]:
                section.build(sections, workbench, look)

    def state() -> tuple[str, list[Task]]:
        """Why there is no data set, and the download where it can be had from here."""
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
            raise DataError("The data set is being downloaded already.")
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
    sections.add("", state, [], [missing, fetch])  # not after a download, which says how it went
    sections.draw_on(tab.select, sections.all)
    sections.wire(tabs)


def row(fetching: Fetching) -> Task:
    """The download as it stands."""
    if now := fetching.progress(CIFAR10):
        stop = [("stop", "Stop")]
        return Task(CIFAR10, "downloading", now.words, min(now.share, 0.999), stop)
    return Task(CIFAR10, "", "170 MB", 1.0, [("get", "Download")], WHENCE)


def download(workbench: Workbench, on_bytes: OnBytes) -> None:
    """Fetch CIFAR-10 to where the page looks for data. Raises `DataError` where there is no
    network, or where the folder holds something else."""
    data.open_source(workbench.data_root, download=True, on_bytes=on_bytes)
