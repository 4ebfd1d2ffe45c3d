"""Gallery of test images, 48 per page; a click on an image opens the image in Explore.

`gallery_payload` returns:

    {"count": number of selected images, "start": index of the first shown image, "page": 48,
     "model": the queried run, "models": [name, ...], "compared": [name, ...],
     "pictures": [{"number", "true", "answers": [[class, probability], one per model],
                   "image": the image of the view state}, ...],
     "opening": other arguments of `store.openImage`, see `describe_opening`,
     "sheet": image or None, "columns": of the sheet, "pixels": bool, "sentence": str}

`sheet` is one file with all images in rows of `columns`. If the images' dataset is missing, `sheet`
is None, and `gallery.js` shows a table of image numbers and predictions.
"""

from collections.abc import Sequence

import numpy as np

from vitdemo.analyses.predictions import (
    ImageQuery,
    ImageSelection,
    load_test_images,
    select_by_query,
)
from vitdemo.context import AppContext
from vitdemo.documents.images import tile_images
from vitdemo.errors import DataError
from vitdemo.page.bridge import ImageFile
from vitdemo.page.explore.tab import describe_opening
from vitdemo.page.image_sources import describe_image, format_test_source
from vitdemo.test_sets.context import TestSetContext

PAGE_SIZE = 48
SHEET_COLUMNS = 8  # number of images per row of the sheet
MAX_PIXELATED_SIDE = 64  # pixels; images up to this side are enlarged without interpolation


def gallery_payload(context: AppContext, query: ImageQuery, page: int = 1) -> dict:
    """Return the payload of the page `page`, or of the last page. Raises `RunError`."""
    selection = select_by_query(context, query)
    count, group = len(selection.image_indices), selection.predictions
    probabilities = group.probabilities  # (M, N, C)
    test_set_id = context.tests.id if isinstance(context, TestSetContext) else ""
    start = min((page - 1) * PAGE_SIZE, max(count - 1, 0) // PAGE_SIZE * PAGE_SIZE)
    numbers = selection.image_indices[start : start + PAGE_SIZE].tolist()
    images, sentence = load_gallery_images(context, selection, numbers)
    pixelated, sheet = False, None
    if images is not None:
        pixelated = images.shape[1] <= MAX_PIXELATED_SIDE
        sheet = ImageFile(tile_images(images, SHEET_COLUMNS), exact=pixelated)
    return {
        "count": count,
        "start": start,
        "page": PAGE_SIZE,
        "model": query.run,
        "models": group.names,
        "compared": [query.run, query.other_run] if query.other_run else [],
        "pictures": [
            {
                "number": number,
                "true": group.classes[group.labels[number]],
                "answers": [
                    (group.classes[row.argmax()], round(float(row.max()), 6))
                    for row in probabilities[:, number]
                ],
                "image": describe_image(format_test_source(number, test_set_id)),
            }
            for number in numbers
        ],
        "opening": describe_opening(context, query.run),
        "sheet": sheet,
        "columns": SHEET_COLUMNS,
        "pixels": pixelated,
        "sentence": sentence,
    }


def load_gallery_images(
    context: AppContext, selection: ImageSelection, numbers: Sequence[int]
) -> tuple[np.ndarray | None, str]:
    """Return the images (n, S, S, 3) uint8 and "", or None and the reason (if any)."""
    if not numbers:
        return None, ""
    group = selection.predictions
    run = group.runs[group.names.index(selection.query.run)]
    try:
        return load_test_images(context, run, numbers), ""
    except DataError as error:
        if context.is_dataset_missing():
            return None, str(error)  # the page shows a download card instead
        return None, f"Only the image numbers are available, not the images. {error}"
