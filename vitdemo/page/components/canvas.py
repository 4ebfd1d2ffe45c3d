"""The changed image of "Change the image", from which the user can remove patches.

    canvas.toggle(handler, inputs=canvas, ...)    # handler(removed: Removed | None)

A handler returns a `Changed`. The payload, which every event sends back:

    {"picture": file, "grid": [rows, columns], "removed": [cells], "words": str, "hole": colour}
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from vitdemo.page.components import Drawing, served_picture
from vitdemo.perturb.changes import MOST_ROWS, Changes, Removed


@dataclass(frozen=True)
class Changed:
    """An image after all `changes`."""

    picture: Image.Image
    changes: Changes


class Canvas(Drawing):
    """Image with removable patches, see the module. Its event: `toggle`."""

    def preprocess(self, payload) -> Removed | None:
        """Return the removed patches; None before the first drawing and for an invalid payload."""
        try:
            rows, columns = payload["grid"]
            removed = tuple(dict.fromkeys(payload["removed"]))
            whole = all(type(n) is int for n in (rows, columns, *removed))
        except (TypeError, KeyError, ValueError):
            return None
        if not whole or not (0 < rows <= MOST_ROWS and 0 < columns <= MOST_ROWS):
            return None
        return Removed((rows, columns), tuple(n for n in removed if 0 <= n < rows * columns))

    def postprocess(self, value: Changed | None) -> dict | None:
        """Return the payload as a dict, since the script edits it and returns it."""
        return None if value is None else self.drawn(value)

    def drawn(self, value: Changed) -> dict:
        pixels, removed = np.asarray(value.picture), value.changes.removed
        red, green, blue = pixels.mean(axis=(0, 1)).round().astype(int)
        return {
            "picture": served_picture(self, pixels).model_dump(),
            "grid": list(removed.grid),
            "removed": list(removed.cells),
            "words": value.changes.words(),
            "hole": f"rgb({red} {green} {blue})",  # fill colour of `perturb.remove_patches`
        }
