"""Components of the Explore tab that several sections use: the image, the model and the layer."""

import json

from PIL import Image

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.page import image_sources
from vitdemo.page.bridge import Channel, load_square
from vitdemo.page.feature import PageSetup
from vitdemo.page.kit import NO_PROGRESS
from vitdemo.page.view_state import parse_view_state

DEFAULT_SECTION, CLASS_MAPS_SECTION = "heads", "why"
COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
JS_MIRROR_IMAGE = "vitdemo.loaded.then(({ store }) => store.mirrorImage(props));"
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


def start_on_load(setup: PageSetup) -> None:
    """Open the view in the URL when the page loads; call this after all tabs were laid out.

    The URL parameter `tab` names the sections of all tabs but Explore.
    """
    tabs = {
        name: {
            "selector": f"#{each.elem_id}",
            "labels": {tab.id: tab.label for tab in each.children},
            "inTab": name not in ("tab", "section"),
        }
        for name, each in setup.sections.items()
    }
    photos = [*image_sources.list_photos()]
    image = {"source": photos[0], "path": None, "at": 0.5} if photos else None
    settings = json.dumps({"tabs": tabs, "image": image})
    setup.page.load(None, js=JS_START.replace("SETTINGS", settings), **NO_PROGRESS)
