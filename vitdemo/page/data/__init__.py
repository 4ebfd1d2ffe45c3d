"""The Data tab: what the models learn from, one section a file, drawn when it is opened."""

import threading

import gradio as gr

from vitdemo import data
from vitdemo.errors import DataError
from vitdemo.page.components.article import Article
from vitdemo.page.data import augmentation, classes, patches, similar
from vitdemo.page.kit import for_people
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
PRIVATE = {"api_visibility": "private"}
# One at a time for all who look; nobody else waits for it.
DOWNLOAD_QUEUE = {"concurrency_id": "download", "concurrency_limit": 1}
DOWNLOADED = "The data set is here. Reload the page to have its pictures in Look, too."


def build(tab: gr.Tab, workbench: Workbench, look: Look) -> None:
    """Lay out and wire the `tab`; it draws from the picture in Look, where its pictures open."""
    gr.Markdown(INTRO)
    missing = Article(elem_id="data-missing")
    fetch = gr.Button(
        "Download CIFAR-10 (170 MB)", visible=False, size="sm", elem_id="data-download"
    )
    opened = gr.Textbox(next(iter(SECTIONS)), visible="hidden", label="open section of Data")
    sections, tabs = Sections([opened]), {}
    with gr.Tabs(elem_id="data-sections"):
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name) as tabs[name]:
                section.build(sections, workbench, look)

    def state():
        """Why there is no data set, and whether it can be had from here."""
        try:
            workbench.source()
        except DataError as error:
            return str(error), gr.update(visible=data.is_absent(workbench.data_root))
        return "", gr.update(visible=False)

    @for_people
    def get(progress=gr.Progress(track_tqdm=True)):  # noqa: B008 (gradio reads the default)
        progress(0, desc="Downloading CIFAR-10")
        download(workbench)
        return DOWNLOADED

    shown = tab.select(state, outputs=[missing, fetch], show_progress="hidden", **PRIVATE)
    fetched = fetch.click(get, outputs=missing, **PRIVATE, **DOWNLOAD_QUEUE)
    fetched.success(lambda: gr.update(visible=False), outputs=fetch, **PRIVATE)
    sections.draw_on(shown.success, sections.all)
    sections.draw_on(fetched.success, sections.all)
    sections.wire(tabs)


_downloading = threading.Lock()


def download(workbench: Workbench) -> None:
    """Fetch CIFAR-10 to where the page looks for data; torchvision's tqdm tells how far it is.

    One download at a time, whoever asks. Raises `DataError` where one is under way, where there
    is no network, or where the folder holds something else.
    """
    if not _downloading.acquire(blocking=False):
        raise DataError("The data set is being downloaded already: look again in a minute.")
    try:
        data.open_source(workbench.data_root, download=True)
    finally:
        _downloading.release()
