"""Test pictures as points of planes beside each other; a point shows its picture, a click picks it.

    view = Planes(elem_id="tsne")
    view.pick(handler, ...)  # handler(event: gr.EventData, ...): event.pick, number of the picture

A handler returns planes, as `features.planes` gives them, or a sentence. The value that reaches the
script, its lists all of the same pictures:

    {"classes": [name, ...], "numbers": [...], "labels": [...], "sheet": file, "columns": of it,
     "planes": [{"name", "places": [[x, y], ...] in 0..1}, ...], "sentence": str}
"""

from collections.abc import Sequence

import gradio as gr
import numpy as np

from vitdemo.features import Space
from vitdemo.page.components import drawn_by, served_picture
from vitdemo.page.components.gallery import tiled

COLUMNS = 50  # small pictures in a row of the sheet behind the dots
Plane = tuple[Space, np.ndarray]


class Planes(gr.HTML):
    """See the module. Its event: `pick`."""

    def __init__(self, value: str | None = None, **options):
        super().__init__(value, **drawn_by("planes"), **options)

    def preprocess(self, payload) -> None:
        """What is picked comes with the event."""

    def postprocess(self, value: Sequence[Plane] | str | None) -> dict | None:
        if value is None or isinstance(value, str):
            return {"sentence": value or ""}
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
