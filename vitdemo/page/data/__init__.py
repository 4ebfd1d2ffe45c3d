"""The Data tab: what the models learn from, one section a file, drawn when it is opened."""

from collections.abc import Callable, Mapping

import gradio as gr

from vitdemo.page import html
from vitdemo.page.data import augmentation, classes, patches, similar
from vitdemo.page.kit import for_people
from vitdemo.page.sections import Sections

__all__ = ["augmentation", "build", "classes", "patches", "similar"]

INTRO = (
    "What the models learn from: how many pictures each class has, how a picture becomes tokens, "
    "what training does to it, and which pictures resemble each other to a model."
)
# One at a time for all who look; nobody else waits for it.
PRIVATE = {"api_visibility": "private"}
DOWNLOAD_QUEUE = {"concurrency_id": "download", "concurrency_limit": 1}


def build(
    tab: gr.Tab,
    *,
    absence: Callable[[], str],
    downloadable: Callable[[], bool],
    download: Callable[[], object],
    lay_out: Mapping[str, tuple[str, Callable[[Sections], None]]],
) -> None:
    """Lay out and wire the tab `tab`.

    `absence` says why there is no data set (empty: it is there), `downloadable` whether it can be
    had from here, `download` fetches it; `lay_out` has the title of each section by its id, and
    what lays it out.
    """
    gr.Markdown(INTRO)
    missing = gr.HTML(elem_id="data-missing", apply_default_css=False)
    fetch = gr.Button(
        "Download CIFAR-10 (170 MB)", visible=False, size="sm", elem_id="data-download"
    )
    opened = gr.Textbox(next(iter(lay_out)), visible="hidden", label="open section of Data")
    sections, tabs = Sections([opened]), {}
    with gr.Tabs(elem_id="data-sections"):
        for name, (title, section) in lay_out.items():
            with gr.Tab(title, id=name) as tabs[name]:
                section(sections)

    def look():
        sentence = absence()
        offered = bool(sentence) and downloadable()
        return html.notice(sentence) if sentence else "", gr.update(visible=offered)

    @for_people
    def get(progress=gr.Progress(track_tqdm=True)):  # noqa: B008 (gradio reads the default)
        progress(0, desc="Downloading CIFAR-10")
        download()
        return "The data set is here. Reload the page to have its pictures in Look, too."

    shown = tab.select(look, outputs=[missing, fetch], show_progress="hidden", **PRIVATE)
    fetched = fetch.click(get, outputs=missing, **PRIVATE, **DOWNLOAD_QUEUE)
    fetched.success(lambda: gr.update(visible=False), outputs=fetch, **PRIVATE)
    sections.draw_on(shown.success, sections.all)
    sections.draw_on(fetched.success, sections.all)
    sections.wire(tabs)
