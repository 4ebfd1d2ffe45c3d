"""The original image and the presets, each with a small copy of the image after its changes.

The payload's `sheet` contains the copies side by side:

    {"presets": [{"title": str, "description": str, "changes": view state}, ...], "sheet": file}
"""

import numpy as np

from vitdemo.context import AppContext
from vitdemo.data import image_files
from vitdemo.data.perturb.changes import (
    PRESETS,
    SLIDER_NAMES,
    ImageChanges,
    Preset,
    apply_changes,
)
from vitdemo.documents.images import concatenate_images
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile
from vitdemo.page.explore.perturbation.image import load_canvas
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "change_presets"
MAX_COPY_SIDE = 112  # side of a small copy in pixels
ORIGINAL = Preset(
    "Original",
    "",
    ImageChanges(),
)


@needs(keys.IMAGE)
def payload(context: AppContext, state: ViewState) -> dict:
    image, presets = load_canvas(context, state), (ORIGINAL, *PRESETS.values())
    side = min(image.width, MAX_COPY_SIDE)
    changed = [context.cache.call(apply_changes, image, each.changes) for each in presets]
    copies = np.stack([np.asarray(image_files.crop_and_resize(each, side)) for each in changed])
    return {
        "presets": [
            {
                "title": each.title,
                "description": each.description,
                "changes": encode_changes(each.changes) | {"seed": 0},
            }
            for each in presets
        ],
        "sheet": ImageFile(concatenate_images(copies), exact=False),
    }


FEATURE = Feature({VIEW: payload})


def encode_changes(changes: ImageChanges) -> dict[str, object]:
    """Return the view state of `changes` without the seed, and without the grid if unused."""
    values = {name: getattr(changes, name) for name in ("pieces", *SLIDER_NAMES)}
    values["removed"] = changes.removed.encode
    return values | ({"patches": str(changes.removed.grid[0])} if changes.removed.cells else {})
