"""Scatter plots of test images; hovering over a dot shows its image, a click chooses it.

    view = EmbeddingScatter(elem_id="tsne")
    view.pick(handler, ...)  # handler(event: gr.EventData, ...): event.pick is the image number

A handler returns `EmbeddingPlane`s with their images, or an error message. The script receives
lists over the same images:

    {"classes": [name, ...], "numbers": [...], "labels": [...], "sheet": file, "columns": int,
     "planes": [{"name", "places": [[x, y], ...] in 0..1}, ...], "sentence": str}
"""

from collections.abc import Sequence

import numpy as np

from vitdemo.analyses.features import FeatureSpace
from vitdemo.page.components import View, serve_image
from vitdemo.page.components.pictures import tile_images

THUMBNAIL_COLUMNS = 50  # thumbnails per row of the sheet
EmbeddingPlane = tuple[FeatureSpace, np.ndarray]


class EmbeddingScatter(View):
    """Scatter plots of test images; the event `pick` means that the user chose an image."""

    def to_payload(self, value: Sequence[EmbeddingPlane]) -> dict:
        sample = value[0][0].sample
        return {
            "classes": list(sample.source.classes),
            "numbers": sample.indices.tolist(),
            "labels": sample.labels.tolist(),
            "sheet": serve_image(
                self, tile_images(sample.thumbnails, THUMBNAIL_COLUMNS), exact=False
            ),
            "columns": THUMBNAIL_COLUMNS,
            "planes": [
                {"name": space.name, "places": places.astype(float).round(4).tolist()}
                for space, places in value
            ],
        }
