"""The Explore tab: an image, the models' predictions, and sections that explain one model.

A new image causes one event: each model runs once, and one response updates the whole tab. If a
view needs only the attention matrices, the browser draws it without a request to the server.
"""

import gradio as gr
from PIL import Image

from vitdemo.analyses.export import save_maps
from vitdemo.context import AppContext
from vitdemo.errors import ImageError
from vitdemo.page.bridge import add_view
from vitdemo.page.explore import (
    attention_maps,
    class_attribution,
    image_input,
    inside,
    perturbation,
    predictions,
    side_by_side,
)
from vitdemo.page.explore.more_models import MoreModelsPanel
from vitdemo.page.explore.tab import CLASS_MAPS_SECTION, DEFAULT_SECTION, ExploreTab
from vitdemo.page.feature import Task
from vitdemo.page.kit import MODEL_QUEUE, NO_API, add_download_button

VIEWS = (image_input, attention_maps, predictions, class_attribution, side_by_side)
# View -> payload function. Predictions reuse the forward pass of the attention, which comes first.
PAYLOADS = {view.VIEW: view.payload for view in VIEWS} | perturbation.PAYLOADS | inside.PAYLOADS
TASKS: dict[str, Task] = {**class_attribution.TASKS, **inside.TASKS}
# Section id: title and layout function.
SECTIONS = {
    DEFAULT_SECTION: ("Attention", attention_maps.build),
    CLASS_MAPS_SECTION: ("Why this class?", class_attribution.build),
    "hands": ("Change the image", perturbation.build),
    "inside": ("Inside the model", inside.build),
    "side": ("Side by side", side_by_side.build),
}

COPY_FAILED = "not copied"
JS_COPY_LINK = """async () => {
  try {
    await navigator.clipboard.writeText(window.location.href);
  } catch { // without HTTPS there is no clipboard
    return ["NOT_COPIED"];
  }
  const { store } = await vitdemo.loaded;
  return [store.state.image?.source === "own" ? "own" : ""];
}""".replace("NOT_COPIED", COPY_FAILED)


def build(page: gr.Blocks, context: AppContext, *, local_only: bool) -> ExploreTab:
    with gr.Row(elem_id="look", equal_height=False):
        with gr.Column(elem_id="look-at", scale=0, min_width=260):
            look = ExploreTab(context)
            more = MoreModelsPanel(look, local_only=local_only)
        with gr.Column(elem_id="look-into", min_width=300):
            add_view("no_model", elem_id="no-model")
            look.lay_out_choices()
            with gr.Tabs(elem_id="sections", overflow_behavior="wrap") as look.sections:
                for name, (title, lay_out) in SECTIONS.items():
                    with gr.Tab(title, id=name):
                        lay_out(look)
            with gr.Row():
                copy = gr.Button("Copy a link to this view", size="sm", elem_id="copy-link")
                add_download_button(
                    "Download all maps (.npz)",
                    "save-maps",
                    lambda folder, image, name: save_maps(
                        context, name, require_image(image), folder
                    ),
                    [look.image, look.model],
                    MODEL_QUEUE,
                )
    look.connect_events(page)
    more.wire()
    copy.click(report_copy, copy, js=JS_COPY_LINK, **NO_API)
    return look


def require_image(image: Image.Image | None) -> Image.Image:
    """Return `image`. Raises `ImageError` if `image` is None (not chosen yet, or expired)."""
    if image is None:
        raise ImageError("No image is chosen. Choose an image first.")
    return image


def report_copy(said: str) -> None:
    """Show a message that the link was copied, or that the browser blocked copying.

    If `said` is "own", the message adds that the link does not contain the user's photo.
    """
    if said == COPY_FAILED:
        gr.Warning(
            "The browser blocked copying (it requires HTTPS). Copy the link from the address bar."
        )
        return
    missing = (
        " The link does not contain your photo, but opens the page with the first image."
        if said
        else ""
    )
    gr.Info(f"Link copied.{missing}")
