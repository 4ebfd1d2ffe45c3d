"""Gallery of test images, 48 per page; a click on an image opens the image in Explore.

    shown = Gallery(elem_id="errors-pictures")
    load_gallery_page(context, query)          # the value that a handler returns
    shown.wire(context, query_of, inputs, look.open_test_image_on)

The script receives:

    {"count": number of selected images, "start": index of the first one shown, "page": 48,
     "model": the queried run, "models": [name, ...], "compared": [name, ...],
     "pictures": [{"number", "true", "answers": [[class, probability], one per model]}, ...],
     "sheet": file or None, "columns": of the sheet, "pixels": bool, "sentence": str}

`sheet` is one file with all images in rows of `columns`. Without the dataset, `sheet` is None, and
the script shows a table of image numbers and predictions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gradio as gr
import numpy as np
from gradio.components import Component

from vitdemo.analyses.predictions import (
    ImageQuery,
    ImageSelection,
    available_predictions,
    load_test_images,
    select_by_query,
)
from vitdemo.context import AppContext
from vitdemo.errors import DataError, VitdemoError
from vitdemo.page.components import View, serve_image
from vitdemo.page.kit import REFRESH_EVENT, parse_pick, show_user_errors

PAGE_SIZE = 48
SHEET_COLUMNS = 8  # number of images per row of the sheet
MAX_PIXELATED_SIDE = 64  # pixels; images up to this side are enlarged without interpolation


@dataclass(frozen=True, eq=False)
class GalleryPage:
    """Page of selected test images, from index `start` of the `selection`.

    `images` is (n, S, S, 3) uint8, or None; then `sentence` is the reason.
    """

    selection: ImageSelection
    start: int
    images: np.ndarray | None
    sentence: str = ""

    @property
    def numbers(self) -> np.ndarray:
        return self.selection.image_indices[self.start : self.start + PAGE_SIZE]


def load_gallery_page(
    context: AppContext, query: ImageQuery | None, start: int = 0
) -> GalleryPage | str | None:
    """Return the gallery page that contains index `start`, or a message if the query fails."""
    if query is None:
        return None
    try:
        found = select_by_query(context, query)
    except VitdemoError as error:
        return str(error)
    last = max(len(found.image_indices) - 1, 0) // PAGE_SIZE * PAGE_SIZE
    page = GalleryPage(found, max(0, min(start, last)), None)
    run = found.predictions.runs[found.predictions.names.index(query.run)]
    try:
        return GalleryPage(found, page.start, load_test_images(context, run, page.numbers))
    except DataError as error:
        absent = f"Only the image numbers are available, not the images. {error}"
        words = absent if len(found.image_indices) else ""
        return GalleryPage(found, page.start, None, words)


class Gallery(View):
    """Gallery of test images; events: `pick` (the user chose an image), `turn` (another page)."""

    def to_payload(self, value: GalleryPage) -> dict:
        query, group = value.selection.query, value.selection.predictions
        sheet = None
        if value.images is not None and len(value.images):
            sheet = serve_image(self, tile_images(value.images), exact=is_pixelated(value.images))
        return {
            "count": len(value.selection.image_indices),
            "start": value.start,
            "page": PAGE_SIZE,
            "model": query.run,
            "models": group.names,
            "compared": [query.run, query.other_run] if query.other_run else [],
            "pictures": [
                {
                    "number": number,
                    "true": group.classes[group.labels[number]],
                    "answers": [
                        top_prediction(group.classes, row[number]) for row in group.probabilities
                    ],
                }
                for number in map(int, value.numbers)
            ],
            "sheet": sheet,
            "columns": SHEET_COLUMNS,
            "pixels": sheet is not None and is_pixelated(value.images),
            "sentence": value.sentence,
        }

    def wire(
        self,
        context: AppContext,
        query_of: Callable[..., ImageQuery | None],
        inputs: Sequence[Component],
        open_picked: Callable,
    ) -> None:
        """Connect the events: turn pages, and open a chosen image in Explore.

        `query_of(*inputs)` returns the query or None. `open_picked` is
        `ExploreTab.open_test_image_on`.
        """

        def number(query: ImageQuery, event: gr.EventData) -> int:
            return parse_pick(event.pick, len(available_predictions(context, query.run).labels))[0]

        @show_user_errors
        def turn(event: gr.EventData, *values):
            query = query_of(*values)
            return load_gallery_page(context, query, number(query, event)) if query else None

        def picked(*values) -> tuple[int, str]:
            *values, event = values
            query = query_of(*values)
            if query is None:
                raise VitdemoError("These images are no longer available. Choose others.")
            return number(query, event), query.run

        self.turn(turn, inputs=list(inputs), outputs=self, **REFRESH_EVENT)
        open_picked(self.pick, picked, list(inputs))


def top_prediction(classes: Sequence[str], probabilities: np.ndarray) -> tuple[str, float]:
    """Return the most probable of the `classes`, and its probability."""
    return classes[probabilities.argmax()], round(float(probabilities.max()), 6)


def is_pixelated(pictures: np.ndarray) -> bool:
    return pictures.shape[1] <= MAX_PIXELATED_SIDE


def tile_images(pictures: np.ndarray, columns: int = SHEET_COLUMNS) -> np.ndarray:
    """Tile images (n, S, S, 3) in rows of `columns`; the last row is padded with black."""
    n, S = pictures.shape[:2]
    rows = math.ceil(n / columns)
    padded = np.zeros((rows * columns, S, S, 3), np.uint8)
    padded[:n] = pictures
    grid = padded.reshape(rows, columns, S, S, 3).swapaxes(1, 2)  # (rows, S, columns, S, 3)
    return grid.reshape(rows * S, columns * S, 3)
