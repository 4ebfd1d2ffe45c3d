"""The Explore tab: an image, the models' predictions, and sections that explain one model.

A new image causes one event: each model runs once, and one response updates the whole tab. If a
view needs only the attention matrices, the browser draws it without a request to the server.
"""

from pathlib import Path

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, group_models, load_square
from vitdemo.page.components.offers import ExampleImages
from vitdemo.page.components.run_choice import RunChoice
from vitdemo.page.explore import (
    attention_maps,
    class_attribution,
    image_input,
    inside,
    more_models,
    perturbation,
    predictions,
    side_by_side,
)
from vitdemo.page.explore.tab import CLASS_ATTRIBUTION_SECTION, COMMON_DEPTH, DEFAULT_SECTION
from vitdemo.page.feature import Feature, PageSetup, merge_features
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.image_sources import load_example_images
from vitdemo.page.kit import LIGHT_QUEUE, NO_API, NO_PROGRESS, add_download_button
from vitdemo.page.view_state import ViewState
from vitdemo.publishing.maps_file import save_maps

TAB_ID, TITLE = "explore", "Explore"
# Predictions come after the attention, whose forward pass they reuse.
PARTS = (
    *(image_input, attention_maps, predictions, class_attribution, side_by_side),
    *(perturbation, inside),
)


def write_maps(context: AppContext, state: ViewState, folder: Path) -> Path:
    """Write all maps of the image and the model. Raises `VitdemoError`."""
    return Path(save_maps(context, state.model, load_square(context, state.image), folder))


def build_attention(setup: PageSetup) -> None:
    """Lay out the attention maps, and the maps of several models in a fold below."""
    attention_maps.build(setup)
    side_by_side.build(setup)


FEATURE = merge_features(
    [*(part.FEATURE for part in PARTS), Feature(downloads={"maps": write_maps})]
)
# Section id: title and layout function.
SECTIONS = {
    DEFAULT_SECTION: ("Attention", build_attention),
    CLASS_ATTRIBUTION_SECTION: ("Why this class?", class_attribution.build),
    "hands": ("Fool the model", perturbation.build),
    "inside": ("Inside the model", inside.build),
}

JS_SET_LAYER = 'layer => vitdemo.loaded.then(({ controls }) => controls.takeInput("layer", layer))'
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
    with gr.Row(elem_id="explore", equal_height=False):
        with gr.Column(elem_id="explore-input", scale=0, min_width=260):
            build_image_column(setup)
            added = more_models.build(setup)
        with gr.Column(elem_id="explore-sections", min_width=300):
            add_view("no_model", elem_id="no-model")
            build_layer(setup)
            add_view("export_menu", elem_id="explore-export")
            with gr.Tabs(elem_id="sections", overflow_behavior="wrap") as setup.sections["section"]:
                for name, (title, lay_out) in SECTIONS.items():
                    with gr.Tab(title, id=name):
                        lay_out(setup)
            build_links()
    return merge_features([FEATURE, added])


def build_image_column(setup: PageSetup) -> None:
    """Lay out the image, the examples, the menu of models, and the predictions."""
    context = setup.context
    add_view(image_input.VIEW, elem_id="picture")
    examples = ExampleImages(elem_id="offers")
    options = {"label": keys.MODEL.label, "elem_id": keys.MODEL.element}
    setup.shown["model"] = RunChoice(group_models(context), **options)
    add_view(predictions.VIEW, elem_id="answers")

    def load_examples() -> dict:
        return load_example_images(
            context.load_test_image,
            context.count_test_images,
            has_truth=bool(context.ground_truth_runs()),
        )

    for event in (setup.page.load, examples.others):
        event(load_examples, None, examples, **NO_PROGRESS, **LIGHT_QUEUE)


def build_layer(setup: PageSetup) -> None:
    """Lay out the slider of layers, which the store also updates. *Attention* has its own."""
    options = {"label": keys.LAYER.label, "elem_id": keys.LAYER.element}
    setup.shown["layer"] = layer = UncheckedSlider(
        1, COMMON_DEPTH, COMMON_DEPTH, step=1, buttons=[], **options
    )
    layer.input(None, layer, None, js=JS_SET_LAYER, **NO_PROGRESS)


def build_links() -> None:
    """Lay out the buttons below the sections: a link to the view, and all maps as a file."""
    with gr.Row():
        copy = gr.Button("Copy a link to this view", size="sm", scale=0, elem_id="copy-link")
        add_download_button("Download all maps (.npz)", "save-maps", "maps")
    copy.click(report_copy, copy, js=JS_COPY_LINK, **NO_API)


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
