"""The image in the section "Change the image", from which the user can remove patches.

    canvas.toggle(handler, inputs=canvas, ...)    # handler(removed: Removed | None)

A handler returns a `ChangedImage`. The payload, which every event sends back:

    {"picture": file, "grid": [rows, columns], "removed": [cells], "words": str, "hole": colour}
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from vitdemo.data.perturb.changes import MAX_GRID_ROWS, ImageChanges, RemovedPatches
from vitdemo.page.components import View, serve_image


@dataclass(frozen=True)
class ChangedImage:
    """Image after all `changes`."""

    image: Image.Image
    changes: ImageChanges


class ImageCanvas(View):
    """Image with removable patches; the event `toggle` means that the user clicked a patch."""

    def preprocess(self, payload) -> RemovedPatches | None:
        """Return the removed patches; None before the first drawing, or if `payload` is invalid."""
        try:
            rows, columns = payload["grid"]
            removed = tuple(dict.fromkeys(payload["removed"]))
            whole = all(type(n) is int for n in (rows, columns, *removed))
        except (TypeError, KeyError, ValueError):
            return None
        if not whole or not (0 < rows <= MAX_GRID_ROWS and 0 < columns <= MAX_GRID_ROWS):
            return None
        return RemovedPatches((rows, columns), tuple(n for n in removed if 0 <= n < rows * columns))

    def postprocess(self, value: ChangedImage | None) -> dict | None:
        """Return the payload as a dict, since the script changes the value and sends it back."""
        return None if value is None else self.to_payload(value)

    def to_payload(self, value: ChangedImage) -> dict:
        pixels, removed = np.asarray(value.image), value.changes.removed
        red, green, blue = pixels.mean(axis=(0, 1)).round().astype(int)
        return {
            "picture": serve_image(self, pixels).model_dump(),
            "grid": list(removed.grid),
            "removed": list(removed.cells),
            "words": value.changes.describe(),
            "hole": f"rgb({red} {green} {blue})",  # colour that removed patches are filled with
        }
