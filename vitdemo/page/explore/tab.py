"""Opening of the Explore tab: the start of the page, and links to an image."""

import json

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.page.feature import PageSetup
from vitdemo.page.image_sources import describe_image, list_photos
from vitdemo.page.kit import NO_PROGRESS

DEFAULT_SECTION, CLASS_ATTRIBUTION_SECTION = "heads", "class-attribution"
COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
JS_START = "() => vitdemo.loaded.then(({ tabs }) => tabs.start(SETTINGS))"


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
        "section": DEFAULT_SECTION if has_attention else CLASS_ATTRIBUTION_SECTION,
    }


def describe_tabs(setup: PageSetup) -> dict[str, dict]:
    """Return the tabs of the page for `store.start`; call this after all tabs were laid out.

    The URL parameter `tab` names the sections of all tabs but Explore.
    """
    return {
        name: {
            "selector": f"#{each.elem_id}",
            "labels": {tab.id: tab.label for tab in each.children},
            "inTab": name not in ("tab", "section"),
        }
        for name, each in setup.sections.items()
    }


def start_on_load(page: gr.Blocks, tabs: dict[str, dict]) -> None:
    """Open the view in the URL when the page loads."""
    image = next(map(describe_image, list_photos()), None)
    settings = json.dumps({"tabs": tabs, "image": image})
    page.load(None, js=JS_START.replace("SETTINGS", settings), **NO_PROGRESS)
