"""The section "Change the image" of Explore: the predictions of all models for a changed image.

The changes are part of the view state, also the removed patches (state key `removed`, encoded by
`RemovedPatches.encode`). The buttons change the state in the browser, see `view.js`.
"""

import json

import gradio as gr
from gradio.components import Component

from vitdemo.data.perturb import PERTURBATIONS
from vitdemo.data.perturb.changes import (
    MAX_SEED,
    PIECE_CHOICES,
    PRESETS,
    SLIDER_NAMES,
    ImageChanges,
)
from vitdemo.page.bridge import add_view
from vitdemo.page.explore.perturbation import attention, image, knockout, predictions
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.kit import NO_PROGRESS

PAYLOADS = {part.VIEW: part.payload for part in (image, predictions, attention, knockout)}
SLIDER_STEPS = {"rotate": 5, "brightness": 0.05, "blur": 0.5, "noise": 1, "jpeg": 1}
MAX_PATCHES_PER_CLICK = 32  # maximum number of patches removed per click

CHANGE_IMAGE_INTRO = (
    "Remove or shuffle patches, or degrade the image. **All models receive the same changed "
    "image**; their predictions are shown next to the original ones. If a prediction changes, the "
    "cause can be the removed patches or the gaps themselves: compare with the same number of "
    "random gaps. If a prediction stays, the removed patches may still matter, since other patches "
    "can contain the same information. Attention shows only which tokens a token attends to."
)

TEXTS = {
    "patches": "Patches: press one to remove or restore it",
    "help": "Click a patch to remove it; click again to restore it. Arrow keys move the focus.",
    "download": "Download PNG",
    "remove_patch": "Remove row {row}, column {column}",
    "removed": "{count} of {total} patches removed",
    "no_changes": "none",
    "current_changes": "Current changes: {changes}.",
    "image": "The image that all models receive. Changes: {changes}",
    "attention": "Attention of {run} to the current image. Bright: {reader} attends most to this "
    "patch in layer {layer}, or in the rollout up to this layer. Attention does not explain the "
    "prediction.",
    "mean": "Mean of the heads, layer {layer}",
    "rollout": "Rollout, layers 1 to {layer}",
    "rollout_of_first": "Rollout, layer {layer}",
    "strongest": "strongest in row {row}, column {column} of {rows} × {columns}",
}


def build(look: ExploreTab) -> None:
    """Lay out the section in reading order: presets, image, predictions, changes, knock-out."""
    gr.Markdown(CHANGE_IMAGE_INTRO)
    with gr.Row(elem_classes="vd-presets", elem_id="hands-presets"):
        for preset in PRESETS.values():
            button = gr.Button(preset.title, size="sm", min_width=140)
            call_on_click(button, "apply", encode_changes(preset.changes), preset.description)
    add_message("hands-note")
    with gr.Row():
        with gr.Column(scale=4, min_width=300):
            add_view(image.VIEW, elem_id="hands-picture")
            look.controls |= lay_out_removal()
        with gr.Column(scale=4, min_width=300):
            add_view(predictions.VIEW, elem_id="hands-answers")
            add_view(attention.VIEW, elem_id="hands-maps")
        with gr.Column(scale=4, min_width=300):
            look.controls |= lay_out_changes()
    look.controls |= knockout.build()


def lay_out_removal() -> dict[str, Component]:
    """Lay out the removal of patches; return the controls by state key."""
    grid = gr.Radio(
        [(title, value) for value, title in image.GRID_CHOICES.items()],
        value=image.DEFAULT_GRID,
        label="Grid",
        info="Another grid restores all patches.",
    )
    count = UncheckedSlider(
        1,
        MAX_PATCHES_PER_CLICK,
        16,
        step=1,
        label="Patches to remove per click",
        elem_id="hands-count",
    )
    ranking = gr.Radio(
        [(title, value) for value, title in attention.RANKING_CHOICES.items()],
        value="rollout",
        label="Rank patches by",
    )
    with gr.Row():
        for title, elem_id, function in (
            ("Remove most-attended patches", "hands-most", "removeMostAttended"),
            ("Remove random patches", "hands-random", "removeRandom"),
            ("Restore all patches", "hands-back", "restoreAll"),
        ):
            call_on_click(gr.Button(title, size="sm", min_width=140, elem_id=elem_id), function)
    add_message("hands-told")
    return {"patches": grid, "count": count, "ranking": ranking}


def lay_out_changes() -> dict[str, Component]:
    """Lay out all other changes; return the controls by state key."""
    pieces = gr.Radio(
        [("off", 1), *((f"{n} × {n}", n) for n in PIECE_CHOICES[1:])],
        value=1,
        label="Shuffle",
        info=PERTURBATIONS["shuffle"].description,
        elem_id="hands-pieces",
    )
    sliders = {name: make_slider(name) for name in SLIDER_NAMES}
    seed = UncheckedSlider(0, MAX_SEED, 0, step=1, label="Shuffle and noise seed")
    with gr.Row():
        new_seed = gr.Button("New random seed", size="sm", min_width=100)
        reset = gr.Button("Reset all changes", size="sm", min_width=100, elem_id="hands-reset")
    call_on_click(new_seed, "drawSeed", MAX_SEED)
    nothing = encode_changes(ImageChanges()) | {"seed": 0} | knockout.EMPTY_LAYER_RANGE
    call_on_click(reset, "apply", nothing, "")
    return {"pieces": pieces, **sliders, "seed": seed}


def make_slider(name: str) -> gr.Slider:
    """Return the slider of the change `name`; the payloads clamp values that are out of range."""
    change = PERTURBATIONS[name]
    return UncheckedSlider(
        change.low,
        change.high,
        change.neutral,
        step=SLIDER_STEPS[name],
        label=f"{change.title} ({change.unit})",
        info=change.description,
        elem_id=f"hands-{name}",
    )


def encode_changes(changes: ImageChanges) -> dict[str, object]:
    """Return the view state of `changes`, without the seed.

    The state contains the grid only if patches are removed.
    """
    values = {name: getattr(changes, name) for name in ("pieces", *SLIDER_NAMES)}
    values["removed"] = changes.removed.encode
    return values | ({"patches": str(changes.removed.grid[0])} if changes.removed.cells else {})


def call_on_click(button: gr.Button, function: str, *arguments: object) -> None:
    """Call a function of `view.js` in the browser when the user presses `button`."""
    call = f"{function}({', '.join(map(json.dumps, arguments))})"
    button.click(None, js=f"() => vitdemo.perturbation.{call}", **NO_PROGRESS)


def add_message(elem_id: str) -> None:
    """Add a place where `view.js` shows a message."""
    template = '<div class="message">'
    gr.HTML(html_template=template, apply_default_css=False, padding=False, elem_id=elem_id)
