"""The original image and the presets, each with a small copy of the image after its changes.

The payload's `sheet` contains the copies side by side:

    {"presets": [{"title": str, "description": str, "changes": view state}, ...], "sheet": file}
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo.context import AppContext
from vitdemo.data import image_files
from vitdemo.data.perturb.changes import (
    PRESETS,
    SLIDER_NAMES,
    ImageChanges,
    Preset,
    apply_changes,
    change_pixels,
)
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile
from vitdemo.page.explore.perturbation.image import get_canvas_crop, load_canvas
from vitdemo.page.feature import Feature
from vitdemo.page.graph import Graph, Outputs, Pixels
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "change_presets"
MAX_COPY_SIDE = 112  # side of a small copy in pixels
ORIGINAL = Preset(
    "Original",
    "",
    ImageChanges(),
)
SHOWN = ORIGINAL, *PRESETS.values()


@needs(keys.IMAGE)
def payload(context: AppContext, state: ViewState) -> dict:
    image = load_canvas(context, state)
    changed = [context.cache.call(apply_changes, image, each.changes) for each in SHOWN]
    sheet = reduce_images(torch.stack([torch.from_numpy(image_files.to_uint8(i)) for i in changed]))
    return {
        "presets": [
            {
                "title": each.title,
                "description": each.description,
                "changes": encode_changes(each.changes) | {"seed": 0},
            }
            for each in SHOWN
        ],
        "sheet": ImageFile(np.ascontiguousarray(sheet.permute(1, 2, 0)), exact=False),
    }


def compute_outputs(context: AppContext, run: Run, state: ViewState, canvas: Tensor) -> Outputs:
    """Compute the sheet of the canvas (3, S, S) uint8: see `page.graph`."""
    changed = torch.cat([change_pixels(canvas[None], each.changes) for each in SHOWN])
    return {"sheet": Pixels(reduce_images(changed))}


def reduce_images(images: Tensor) -> Tensor:
    """Return small copies of images (n, 3, S, S) uint8 side by side, (3, s, n * s) uint8."""
    side = min(images.shape[-1], MAX_COPY_SIDE)
    copies = F.adaptive_avg_pool2d(images.float(), side).round().to(torch.uint8)
    return copies.permute(1, 2, 0, 3).flatten(2)


FEATURE = Feature({VIEW: payload}, graphs={VIEW: Graph(compute_outputs, get_crop=get_canvas_crop)})


def encode_changes(changes: ImageChanges) -> dict[str, object]:
    """Return the view state of `changes` without the seed, and without the grid if unused."""
    values = {name: getattr(changes, name) for name in ("pieces", *SLIDER_NAMES)}
    values["removed"] = changes.removed.encode
    return values | ({"patches": str(changes.removed.grid[0])} if changes.removed.cells else {})
