"""The changed image: the changes in the view state, and the image with patches to remove.

The image of the payload has all its patches, so the browser removes and restores patches without a
request. `removed_colour` is the colour of removed patches; `strengths` are the other changes:

    {"image": file, "grid": [rows, columns], "removed_colour": [red, green, blue],
     "pieces": pieces per side, "strengths": [{"title": str, "value": number, "unit": str}, ...]}
"""

from dataclasses import replace

import numpy as np
from PIL import Image

from vitdemo.analyses.perturbation import make_canvas, patch_grid
from vitdemo.context import AppContext
from vitdemo.data.perturb import PERTURBATIONS
from vitdemo.data.perturb.changes import (
    SLIDER_NAMES,
    ImageChanges,
    RemovedPatches,
    apply_changes,
)
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, load_square
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "changed_image"


@needs(*keys.CHANGES, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    changes = read_strengths(state)
    pixels = np.asarray(apply_changes(load_canvas(context, state), changes))
    return {
        "image": ImageFile(pixels),
        "grid": list(read_grid(context, state)),
        "removed_colour": pixels.mean((0, 1)).round().astype(int).tolist(),
        "pieces": changes.pieces,
        "strengths": list_strengths(changes),
    }


FEATURE = Feature({VIEW: payload})


def list_strengths(changes: ImageChanges) -> list[dict]:
    """Return the changes with a strength that is not neutral."""
    values = {name: getattr(changes, name) for name in SLIDER_NAMES}
    return [
        {"title": PERTURBATIONS[name].title, "value": value, "unit": PERTURBATIONS[name].unit}
        for name, value in values.items()
        if value != PERTURBATIONS[name].neutral
    ]


def load_canvas(context: AppContext, state: ViewState) -> Image.Image:
    return make_canvas(context, load_square(context, state.image))


def load_images(
    context: AppContext, state: ViewState, changes: ImageChanges
) -> tuple[Image.Image, Image.Image]:
    """Return the image of Explore and the image after `changes`, cached. Raises `VitdemoError`.

    Only changed images have the size of the canvas. The predictions before changes are therefore
    equal to the predictions in Explore.
    """
    original = load_square(context, state.image)
    if changes.is_identity:
        return original, original
    return original, context.cache.call(apply_changes, load_canvas(context, state), changes)


def parse_changes(context: AppContext, state: ViewState) -> ImageChanges:
    """Parse all changes, clamped. Patches removed on another grid are restored."""
    removed = RemovedPatches.decode(state[keys.REMOVED_PATCHES])
    return replace(read_strengths(state), removed=removed.on_grid(read_grid(context, state)))


def read_strengths(state: ViewState) -> ImageChanges:
    """Return all changes except the removed patches."""
    return ImageChanges(
        pieces=state[keys.PIECES],
        seed=int(state[keys.CHANGE_SEED]),
        **{name: state[key] for name, key in keys.STRENGTHS.items()},
    )


def read_grid(context: AppContext, state: ViewState) -> tuple[int, int]:
    """Return the chosen grid (rows, columns) of removable patches."""
    choice = state[keys.REMOVAL_GRID]
    if choice == "own":
        return patch_grid(context, context.find_run(state.model))
    return int(choice), int(choice)
