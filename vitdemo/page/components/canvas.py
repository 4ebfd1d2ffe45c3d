"""The changed picture of "Hands on", and the patches that a person takes from it.

    canvas.toggle(handler, inputs=canvas, ...)    # handler(removed: Removed | None)

A handler returns a `Changed`. The value, which comes back with every event:

    {"picture": file, "grid": [rows, columns], "removed": [cells], "words": str, "hole": colour}
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from vitdemo.page.components import Drawing, served_picture
from vitdemo.perturb.changes import MOST_ROWS, Changes, Removed


@dataclass(frozen=True)
class Changed:
    """The `picture` after all `changes`."""

    picture: Image.Image
    changes: Changes


class Canvas(Drawing):
    """See the module. Its event: `toggle`."""

    def preprocess(self, payload) -> Removed | None:
        """The patches that are gone; None before the first drawing, and for what is no patch."""
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
        """As it is, not as a text: the script changes it, and it comes back."""
        return None if value is None else self.drawn(value)

    def drawn(self, value: Changed) -> dict:
        pixels, removed = np.asarray(value.picture), value.changes.removed
        red, green, blue = pixels.mean(axis=(0, 1)).round().astype(int)
        return {
            "picture": served_picture(self, pixels).model_dump(),
            "grid": list(removed.grid),
            "removed": list(removed.cells),
            "words": value.changes.words(),
            "hole": f"rgb({red} {green} {blue})",  # what `perturb.remove_patches` fills with
        }
