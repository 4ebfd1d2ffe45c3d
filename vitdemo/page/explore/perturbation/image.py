"""The changed image: the changes in the view state, and the image with patches to remove.

The image of the payload has all its patches, so the browser removes and restores patches without a
request. `removed_colour` is the colour of removed patches; `strengths` are the other changes:

    {"image": file, "grid": [rows, columns], "removed_colour": [red, green, blue],
     "pieces": pieces per side,
     "strengths": {"titles": [str], "values": [number], "units": [str]}, the changed strengths}
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.analyses.perturbation import get_canvas_side, make_canvas, patch_grid
from vitdemo.context import AppContext
from vitdemo.data.perturb import PERTURBATIONS, REMOVAL_GRID, remove_patches
from vitdemo.data.perturb.changes import (
    SLIDER_NAMES,
    ImageChanges,
    RemovedPatches,
    apply_changes,
    apply_tensor_changes,
)
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, fill, load_square
from vitdemo.page.feature import Feature
from vitdemo.page.graph import (
    Choice,
    Constant,
    Graph,
    Hidden,
    Numbers,
    Outputs,
    Pixels,
    make_number_input,
    make_patches_input,
)
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "changed_image"
STRENGTH_DIGITS = 4


@needs(*keys.CHANGES, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    changes = read_strengths(state)
    pixels = np.asarray(apply_changes(load_canvas(context, state), changes))
    strengths = {name: torch.tensor(float(getattr(changes, name))) for name in SLIDER_NAMES}
    data = {
        "image": ImageFile(pixels),
        "grid": list(read_grid(context, state)),
        "removed_colour": pixels.mean((0, 1)).round().astype(int).tolist(),
        "pieces": changes.pieces,
    }
    return fill(data, describe_strengths(strengths))


def describe_strengths(strengths: Mapping[str, Tensor]) -> Outputs:
    """Return the `strengths` () that are not neutral, by the name of the change."""
    changes = [PERTURBATIONS[name] for name in strengths]
    values = torch.stack([*strengths.values()])
    is_neutral = values == torch.tensor([change.neutral for change in changes])
    indices = torch.where(is_neutral, -1, torch.arange(len(changes)))
    return {
        "strengths": Constant({}),
        "strengths.titles": Choice(indices, [change.title for change in changes]),
        "strengths.values": Numbers(values.masked_fill(is_neutral, torch.nan), STRENGTH_DIGITS),
        "strengths.units": Choice(indices, [change.unit for change in changes]),
    }


def compute_outputs(
    context: AppContext,
    run: Run,
    state: ViewState,
    canvas: Tensor,
    pieces: Tensor,
    removed: Tensor,
    *strengths: Tensor,
) -> Outputs:
    """Compute the data of the view, and the changed image: see `page.graph`.

    `canvas` is (3, S, S) uint8. The other changes are the state's initial values.
    """
    values = dict(zip(TENSOR_STRENGTHS, strengths, strict=True))
    changed = apply_tensor_changes(canvas, pieces, values)
    described = describe_strengths(values)
    outputs = {
        "image": Pixels(changed),
        "removed_colour": Numbers(changed.float().mean((1, 2)).round()),
        "pieces": Numbers(pieces),
        **described,
    }
    has_other_changes = (pieces != 1) | (described["strengths.titles"].values >= 0).any()
    outputs["is_changed"] = Hidden(has_other_changes | removed.any())
    outputs["changed"] = Hidden(remove_patches(changed[None], removed)[0])
    return outputs


def get_canvas_crop(context: AppContext, run: Run) -> tuple[int, float, str]:
    """Return the crop of the canvas, as `Graph.get_crop` does."""
    return get_canvas_side(context), 1.0, "bicubic"


TENSOR_STRENGTHS = tuple(name for name in SLIDER_NAMES if name != "jpeg")
GRAPH = Graph(
    compute_outputs,
    inputs=[
        make_number_input(keys.PIECES, keys.PIECES.start),
        make_patches_input(keys.REMOVED_PATCHES, (REMOVAL_GRID, REMOVAL_GRID)),
        *(make_number_input(key, key.start) for key in map(keys.STRENGTHS.get, TENSOR_STRENGTHS)),
    ],
    get_crop=get_canvas_crop,
)
FEATURE = Feature({VIEW: payload}, graphs={VIEW: GRAPH})


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
    run = partial(context.find_run, state.model)
    return parse_grid(state[keys.REMOVAL_GRID], lambda: patch_grid(context, run()))


def parse_grid(choice: str, get_own: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """Return the grid (rows, columns) of a `choice`; "own" is the grid of the model."""
    return get_own() if choice == "own" else (int(choice), int(choice))
