"""The section "Change the image" of Explore: the predictions of all models for a changed image.

All changes are part of the view state, including the removed patches (state key `removed`, encoded
by `RemovedPatches.encode`). The buttons change the state in the browser, see `view.js`.
"""

import json

import gradio as gr

from vitdemo.data.perturb.changes import MAX_SEED
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.explore.perturbation import attention, image, knockout, predictions, presets
from vitdemo.page.feature import PageSetup, merge_features
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.kit import NO_PROGRESS

PARTS = presets, image, predictions, attention, knockout
FEATURE = merge_features(part.FEATURE for part in PARTS)

ABOUT_CHANGES = (
    "If a prediction changes, the cause can be the missing content or the gaps themselves. "
    "Compare with the same number of random gaps. If a prediction does not change, the removed "
    "patches may still be important, because other patches can contain the same information. "
    "Attention shows only which tokens a token attends to, and does not explain the prediction."
)


def build(setup: PageSetup) -> None:
    with gr.Row(elem_id="hands", equal_height=False):
        with gr.Column(scale=2, min_width=200, elem_id="hands-image"):
            add_view(image.VIEW, elem_id="changed-image")
        with gr.Column(scale=3, min_width=260):
            add_view(presets.VIEW, elem_id="hands-presets")
            add_view("changes_fold", elem_id="hands-fold")
            with gr.Column(elem_id="hands-more"):
                lay_out_removal(setup)
                lay_out_changes(setup)
            add_view(predictions.VIEW, elem_id="hands-answers")
            add_view(attention.VIEW, elem_id="hands-maps")
            add_view("knockout_fold", elem_id="knockout-fold")
            knockout.build(setup)
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT_CHANGES)


def lay_out_removal(setup: PageSetup) -> None:
    setup.controls.add(keys.REMOVAL_GRID, gr.Radio)
    setup.controls.add(keys.PATCHES_PER_CLICK, UncheckedSlider)
    setup.controls.add(keys.RANKING, gr.Radio)
    call_on_click(gr.Button("Restore all patches", size="sm", elem_id="hands-back"), "restoreAll")


def lay_out_changes(setup: PageSetup) -> None:
    """Lay out the controls of all other changes; the payloads clamp values out of range."""
    setup.controls.add(keys.PIECES, gr.Radio)
    for key in (*keys.STRENGTHS.values(), keys.CHANGE_SEED):
        setup.controls.add(key, UncheckedSlider)
    call_on_click(gr.Button("New random seed", size="sm"), "chooseRandomSeed", MAX_SEED)


def call_on_click(button: gr.Button, function: str, *arguments: object) -> None:
    """Call a function of `view.js` in the browser when the user presses `button`."""
    call = f"{function}({', '.join(map(json.dumps, arguments))})"
    js = f'() => vitdemo.load("explore/perturbation/view.js").then((view) => view.{call})'
    button.click(None, js=js, **NO_PROGRESS)
