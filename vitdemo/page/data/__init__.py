"""The Data tab: what the models learn from, one section a file, drawn when it is opened."""

from collections.abc import Callable

import gradio as gr

from vitdemo.page import html
from vitdemo.page.data import augmentation, classes, patches, similar
from vitdemo.page.data.section import PRIVATE, Section
from vitdemo.page.kit import for_people

__all__ = ["augmentation", "build", "classes", "patches", "similar"]

INTRO = (
    "What the models learn from: how many pictures each class has, how a picture becomes tokens, "
    "what training does to it, and which pictures resemble each other to a model."
)
# One at a time for all who look; nobody else waits for it.
DOWNLOAD_QUEUE = {"concurrency_id": "download", "concurrency_limit": 1}


def build(
    tab: gr.Tab,
    *,
    absence: Callable[[], str],
    downloadable: Callable[[], bool],
    download: Callable[[], object],
    sections: Callable[[], list[Section]],
) -> None:
    """Lay out and wire the tab `tab`.

    `absence` says why there is no data set (empty: it is there), `downloadable` whether it can be
    had from here, `download` fetches it; `sections` lays out the sections.
    """
    gr.Markdown(INTRO)
    missing = gr.HTML(elem_id="data-missing", apply_default_css=False)
    fetch = gr.Button(
        "Download CIFAR-10 (170 MB)", visible=False, size="sm", elem_id="data-download"
    )
    with gr.Tabs(elem_id="data-sections"):
        found = sections()

    def look():
        sentence = absence()
        offered = bool(sentence) and downloadable()
        return html.notice(sentence) if sentence else "", gr.update(visible=offered)

    @for_people
    def get(progress=gr.Progress(track_tqdm=True)):  # noqa: B008 (gradio reads the default)
        progress(0, desc="Downloading CIFAR-10")
        download()
        return "The data set is here. Reload the page to have its pictures in Look, too."

    first = found[0]
    opened = tab.select(look, outputs=[missing, fetch], show_progress="hidden", **PRIVATE)
    first.draw_on(opened.success)
    fetched = fetch.click(get, outputs=missing, **PRIVATE, **DOWNLOAD_QUEUE)
    fetched.success(lambda: gr.update(visible=False), outputs=fetch, **PRIVATE)
    first.draw_on(fetched.success)
    for section in found:
        section.draw_on(section.tab.select)
