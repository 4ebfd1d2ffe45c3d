"""The section "Fool the model" of Explore: a game that removes patches, and other image changes.

All changes are part of the view state, including the removed patches (state key `removed`, encoded
by `RemovedPatches.encode`). The browser changes the state, see `view.js`.
"""

import json

import gradio as gr

from vitdemo.data.perturb import PERTURBATIONS
from vitdemo.data.perturb.changes import MAX_SEED
from vitdemo.explain.removal_search import MAX_PASSES
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.explore.perturbation import image, order, predictions, presets, search
from vitdemo.page.feature import PageSetup, merge_features
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.kit import NO_PROGRESS

PARTS = presets, image, predictions, order, search
FEATURE = merge_features(part.FEATURE for part in PARTS)

SLIDERS = ("blur", "noise", "brightness")  # the other sliders are in the fold
ABOUT_CHANGES = (
    "All models receive the same changed image. If a prediction changes, the cause can be the "
    "missing content or the gaps themselves. Compare with the same number of random gaps. If a "
    "prediction does not change, the removed patches may still be important, because other patches "
    "can contain the same information. *Find fewest* is a greedy search: each step removes the "
    "patch that lowers the probability of the class most. When the prediction has changed, the "
    f"search restores patches that are not needed. It tests at most {MAX_PASSES:,} images."
)


def build(setup: PageSetup) -> None:
    with gr.Row(elem_id="hands", equal_height=False):
        with gr.Column(scale=2, min_width=200, elem_id="hands-image"):
            add_view(image.VIEW, elem_id="changed-image")
        with gr.Column(scale=3, min_width=260):
            add_view(predictions.VIEW, elem_id="hands-answers")
            add_view(order.VIEW, elem_id="hands-order")
            add_view(presets.VIEW, elem_id="hands-presets")
            with gr.Column(elem_id="hands-sliders"):
                for name in SLIDERS:  # the caption of the image has the values with their units
                    add_slider(setup, name, label=PERTURBATIONS[name].title)
            add_view("changes_fold", elem_id="hands-fold")
            with gr.Column(elem_id="hands-more"):
                lay_out_fold(setup)
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT_CHANGES)


def lay_out_fold(setup: PageSetup) -> None:
    setup.controls.add(keys.REMOVAL_GRID, gr.Radio)
    setup.controls.add(keys.PATCHES_PER_CLICK, UncheckedSlider, buttons=[])
    setup.controls.add(keys.PIECES, gr.Radio)
    for name in keys.STRENGTHS:
        if name not in SLIDERS:
            add_slider(setup, name)
    setup.controls.add(keys.CHANGE_SEED, UncheckedSlider, buttons=[])
    call_on_click(gr.Button("New random seed", size="sm"), "chooseRandomSeed", MAX_SEED)


def add_slider(setup: PageSetup, name: str, **options: object) -> None:
    """Add the slider of a change; the payloads clamp values out of range."""
    setup.controls.add(keys.STRENGTHS[name], UncheckedSlider, buttons=[], **options)


def call_on_click(button: gr.Button, function: str, *arguments: object) -> None:
    """Call a function of `view.js` in the browser when the user presses `button`."""
    call = f"{function}({', '.join(map(json.dumps, arguments))})"
    js = f'() => vitdemo.load("explore/perturbation/view.js").then((view) => view.{call})'
    button.click(None, js=js, **NO_PROGRESS)
