"""The Explore tab: an image, the models' predictions, and sections that explain one model.

A new image causes one event: each model runs once, and one response updates the whole tab. If a
view needs only the attention matrices, the browser draws it without a request to the server.
"""

from pathlib import Path

import gradio as gr
from PIL import Image

from vitdemo.errors import ImageError
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.offers import ExampleImages
from vitdemo.page.components.run_choice import RunChoice, group_runs
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
from vitdemo.page.explore.tab import CLASS_MAPS_SECTION, COMMON_DEPTH, DEFAULT_SECTION, CurrentImage
from vitdemo.page.feature import Feature, PageSetup, merge_features
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.image_sources import load_example_images
from vitdemo.page.kit import LIGHT_QUEUE, MODEL_QUEUE, NO_API, NO_PROGRESS, add_download_button
from vitdemo.publishing.maps_file import save_maps

TAB_ID, TITLE = "look", "Explore"
# Predictions come after the attention, whose forward pass they reuse.
FEATURE = merge_features(
    part.FEATURE
    for part in (
        *(image_input, attention_maps, predictions, class_attribution, side_by_side),
        *(perturbation, inside),
    )
)
# Section id: title and layout function.
SECTIONS = {
    DEFAULT_SECTION: ("Attention", attention_maps.build),
    CLASS_MAPS_SECTION: ("Why this class?", class_attribution.build),
    "hands": ("Change the image", perturbation.build),
    "inside": ("Inside the model", inside.build),
    "side": ("Side by side", side_by_side.build),
}

JS_SET_LAYER = "layer => vitdemo.loaded.then(({ store }) => store.takeLayer(layer))"
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


def build(setup: PageSetup) -> Feature:
    with gr.Row(elem_id="look", equal_height=False):
        with gr.Column(elem_id="look-at", scale=0, min_width=260):
            image = build_image_column(setup)
            more = MoreModelsPanel(setup)
        with gr.Column(elem_id="look-into", min_width=300):
            add_view("no_model", elem_id="no-model")
            build_choices(setup)
            with gr.Tabs(elem_id="sections", overflow_behavior="wrap") as setup.sections["section"]:
                for name, (title, lay_out) in SECTIONS.items():
                    with gr.Tab(title, id=name):
                        lay_out(setup)
            build_links(setup, image)
    more.wire()
    return FEATURE


def build_image_column(setup: PageSetup) -> CurrentImage:
    """Lay out the image, the examples to choose from, and the predictions; return the image."""
    context, image = setup.context, CurrentImage()
    image.context = context
    add_view(image_input.VIEW, elem_id="picture")
    examples = ExampleImages(elem_id="offers")
    add_view(predictions.VIEW, elem_id="answers")

    def load_examples() -> dict:
        return load_example_images(context.load_test_image, context.count_test_images)

    for event in (setup.page.load, examples.others):
        event(load_examples, None, examples, **NO_PROGRESS, **LIGHT_QUEUE)
    return image


def build_choices(setup: PageSetup) -> None:
    """Lay out the menu of models and the slider of layers, which the store also updates."""
    with gr.Row(elem_id="look-choices"):
        options = {"label": keys.MODEL.label, "elem_id": keys.MODEL.element, "min_width": 220}
        setup.shown["model"] = RunChoice(group_runs(setup.context.explainable_runs()), **options)
        options |= {"label": keys.LAYER.label, "elem_id": keys.LAYER.element}
        setup.shown["layer"] = layer = UncheckedSlider(
            1, COMMON_DEPTH, COMMON_DEPTH, step=1, buttons=[], **options
        )
    layer.input(None, layer, None, js=JS_SET_LAYER, **NO_PROGRESS)


def build_links(setup: PageSetup, image: CurrentImage) -> None:
    """Lay out the buttons below the sections: a link to the view, and all maps as a file."""

    def write_maps(folder: Path, square: Image.Image | None, name: str) -> str:
        return save_maps(setup.context, name, require_image(square), folder)

    with gr.Row():
        copy = gr.Button("Copy a link to this view", size="sm", elem_id="copy-link")
        inputs = [image, setup.shown["model"]]
        label = "Download all maps (.npz)"
        add_download_button(label, "save-maps", write_maps, inputs, MODEL_QUEUE)
    copy.click(report_copy, copy, js=JS_COPY_LINK, **NO_API)


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
