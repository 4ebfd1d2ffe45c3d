"""Scatter plots of test images side by side; hovering shows an image, a click chooses it.

    view = Planes(elem_id="tsne")
    view.pick(handler, ...)  # handler(event: gr.EventData, ...): event.pick is the image number

A handler returns the result of `features.planes`, or an error message. The script receives lists
over the same images:

    {"classes": [name, ...], "numbers": [...], "labels": [...], "sheet": file, "columns": of it,
     "planes": [{"name", "places": [[x, y], ...] in 0..1}, ...], "sentence": str}
"""

from collections.abc import Sequence

import numpy as np

from vitdemo.features import Space
from vitdemo.page.components import Drawing, served_picture
from vitdemo.page.components.gallery import tiled

COLUMNS = 50  # thumbnails per row of the sheet
Plane = tuple[Space, np.ndarray]


class Planes(Drawing):
    """Component described in the module docstring, with the event `pick`."""

    def drawn(self, value: Sequence[Plane]) -> dict:
        sample = value[0][0].sample
        return {
            "classes": list(sample.source.classes),
            "numbers": sample.indices.tolist(),
            "labels": sample.labels.tolist(),
            "sheet": served_picture(self, tiled(sample.small, COLUMNS), exact=False),
            "columns": COLUMNS,
            "planes": [
                {"name": space.name, "places": places.astype(float).round(4).tolist()}
                for space, places in value
            ],
        }
