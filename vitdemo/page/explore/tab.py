"""Components of the Explore tab that several sections use: the image, the model and the layer."""

import json
from collections.abc import Mapping

import gradio as gr
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.page import image_sources
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import Channel, add_view, load_square, parse_view_state
from vitdemo.page.components.offers import ExampleImages
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.kit import LIGHT_QUEUE, NO_PROGRESS, Controls

DEFAULT_SECTION, CLASS_MAPS_SECTION = "heads", "why"
COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
JS_MIRROR_IMAGE = "vitdemo.loaded.then(({ store }) => store.mirrorImage(props));"
JS_SET_LAYER = "layer => vitdemo.loaded.then(({ store }) => store.takeLayer(layer))"
JS_START = "() => vitdemo.loaded.then(({ store }) => store.start(SETTINGS))"


class CurrentImage(Channel):
    """Hidden component whose value is the image of the view state, as input of other tabs.

    Handlers receive the RGB square, or None without a valid image. `context` loads the image.
    """

    context: AppContext  # not an argument, since gradio copies the arguments of components

    def __init__(self):
        super().__init__(JS_MIRROR_IMAGE, elem_id="current-image")

    def preprocess(self, payload) -> Image.Image | None:
        try:
            state = parse_view_state({"image": payload, "model": ""})
            return load_square(self.context, state.image)
        except VitdemoError:
            return None


class ExploreTab:
    """Components of the Explore tab.

    Sections add their controls of gradio to `controls`.
    """

    def __init__(self, context: AppContext):
        """Lay out the column of the image; `lay_out_choices` fills the other column."""
        self.context = context
        self.image = CurrentImage()
        self.image.context = context
        add_view("image_input", elem_id="picture")
        self.example_images = ExampleImages(elem_id="offers")
        add_view("predictions", elem_id="answers")
        self.sections: gr.Tabs  # set by `vitdemo.page.explore.build`
        self.controls = Controls()

    def lay_out_choices(self) -> None:
        with gr.Row(elem_id="look-choices"):
            runs = group_runs(self.context.explainable_runs())
            self.model = RunChoice(
                runs, label=keys.MODEL.label, elem_id=keys.MODEL.element, min_width=220
            )
            self.layer = UncheckedSlider(
                1,
                COMMON_DEPTH,
                COMMON_DEPTH,
                step=1,
                label=keys.LAYER.label,
                elem_id=keys.LAYER.element,
                min_width=220,
                buttons=[],
            )
        self.layer.input(None, self.layer, None, js=JS_SET_LAYER, **NO_PROGRESS)

    def connect_events(self, page: gr.Blocks) -> None:

        def load_examples() -> dict:
            return image_sources.load_example_images(
                self.context.load_test_image, self.context.count_test_images
            )

        for event in (page.load, self.example_images.others):
            event(load_examples, None, self.example_images, **NO_PROGRESS, **LIGHT_QUEUE)


def describe_opening(context: AppContext, name: str | None) -> dict:
    """Return the fields of `store.openImage` that do not depend on the image, for the run `name`.

    The attention section opens, or *Why this class?* for a model without attention. If the run has
    no weights, the model is None, and a text below the image reports this.
    """
    run = next((run for run in context.explainable_runs() if run.name == name), None)
    has_attention = run is None or context.count_layers(run) > 0
    return {
        "model": run.name if run else None,
        "unavailable": name if name and run is None else "",
        "section": DEFAULT_SECTION if has_attention else CLASS_MAPS_SECTION,
    }


def start_on_load(
    page: gr.Blocks, page_tabs: gr.Tabs, sections: gr.Tabs, inner: Mapping[str, gr.Tabs]
) -> None:
    """Open the view in the URL when `page` loads; call this after all tabs were laid out.

    `inner` are the sections of further tabs, by the tab's id. The URL parameter `tab` names them.
    """
    tabs = {
        name: {
            "selector": f"#{each.elem_id}",
            "labels": {tab.id: tab.label for tab in each.children},
            "inTab": name in inner,
        }
        for name, each in {"tab": page_tabs, "section": sections, **inner}.items()
    }
    photos = [*image_sources.list_photos()]
    image = {"source": photos[0], "path": None, "at": 0.5} if photos else None
    settings = json.dumps({"tabs": tabs, "image": image})
    page.load(None, js=JS_START.replace("SETTINGS", settings), **NO_PROGRESS)
