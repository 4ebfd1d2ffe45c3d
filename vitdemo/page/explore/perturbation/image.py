"""The changed image: the changes in the view state, and the image with patches to remove.

The image of the payload has all its patches, so the browser removes and restores patches without a
request. `hole` is the colour of removed patches, and `words` describes all other changes:

    {"image": file, "grid": [rows, columns], "hole": [red, green, blue], "words": str}
"""

from dataclasses import replace

import numpy as np
from PIL import Image

from vitdemo.analyses.perturbation import make_canvas, patch_grid
from vitdemo.context import AppContext
from vitdemo.data.perturb import PERTURBATIONS
from vitdemo.data.perturb.changes import (
    MAX_SEED,
    PIECE_CHOICES,
    SLIDER_NAMES,
    ImageChanges,
    RemovedPatches,
    apply_changes,
)
from vitdemo.page.bridge import ImageFile, ViewState, load_square

VIEW = "changed_image"
MODEL_GRID = "own"
GRID_CHOICES = {"4": "4 × 4", "8": "8 × 8", MODEL_GRID: "the model's own"}
DEFAULT_GRID = "8"


def payload(context: AppContext, state: ViewState) -> dict:
    changes = parse_changes(context, state)
    kept = replace(changes, removed=RemovedPatches())
    pixels = np.asarray(apply_changes(load_canvas(context, state), kept))
    return {
        "image": ImageFile(pixels),
        "grid": list(changes.removed.grid),
        "hole": pixels.mean((0, 1)).round().astype(int).tolist(),
        "words": kept.describe(),
    }


def load_canvas(context: AppContext, state: ViewState) -> Image.Image:
    return make_canvas(context, load_square(context, state.image))


def load_images(
    context: AppContext, state: ViewState, changes: ImageChanges
) -> tuple[Image.Image, Image.Image]:
    """Return the image of Explore and the image after `changes`, cached. Raises `VitdemoError`.

    Only changed images have the size of the canvas, so predictions before changes equal Explore's.
    """
    original = load_square(context, state.image)
    if changes.is_identity:
        return original, original
    return original, context.cache.call(apply_changes, load_canvas(context, state), changes)


def parse_changes(context: AppContext, state: ViewState) -> ImageChanges:
    """Parse all changes, clamped. Patches removed on another grid are restored."""
    strengths = {}
    for name in SLIDER_NAMES:
        change = PERTURBATIONS[name]
        strengths[name] = state.read_number(name, change.low, change.high, change.neutral)
    pieces = state.read_number("pieces", 1, PIECE_CHOICES[-1], 1)
    return ImageChanges(
        pieces=int(pieces) if pieces in PIECE_CHOICES else 1,
        seed=int(state.read_number("seed", 0, MAX_SEED, 0)),
        removed=RemovedPatches.decode(state.options.get("removed")).on_grid(
            parse_grid(context, state)
        ),
        **strengths,
    )


def parse_grid(context: AppContext, state: ViewState) -> tuple[int, int]:
    """Return the chosen grid (rows, columns) of removable patches."""
    choice = state.read_choice("patches", GRID_CHOICES, DEFAULT_GRID)
    if choice == MODEL_GRID:
        return patch_grid(context, context.find_run(state.model))
    return int(choice), int(choice)
