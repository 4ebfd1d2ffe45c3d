"""Test pictures as points of planes beside each other; a point shows its picture, a click picks it.

    view = Planes(elem_id="tsne")
    view.pick(handler, ...)  # handler(event: gr.EventData, ...): event.pick, number of the picture

A handler returns planes, as `features.planes` gives them, or a sentence. The value that reaches the
script, its lists all of the same pictures:

    {"classes": [name, ...], "numbers": [...], "labels": [...], "sheet": file, "columns": of it,
     "planes": [{"name", "places": [[x, y], ...] in 0..1}, ...], "sentence": str}
"""

from collections.abc import Sequence

import numpy as np

from vitdemo.features import Space
from vitdemo.page.components import Drawing, served_picture
from vitdemo.page.components.gallery import tiled

COLUMNS = 50  # small pictures in a row of the sheet behind the dots
Plane = tuple[Space, np.ndarray]


class Planes(Drawing):
    """See the module. Its event: `pick`."""

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
