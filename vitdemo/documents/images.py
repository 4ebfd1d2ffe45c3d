"""Row of images and maps, a block of a document that `pictures.js` draws.

ImageRow([ImageItem("Mean of all cats", "cat"), ...], concatenate_images(means))
ImageRow([ImageItem("Norm of each token", "Norm", values=norms)])
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ImageItem:
    """Image or map of a row, with alternative text `alt`, a `caption` and a small `note`.

    With `values` (rows, columns), the item is a map with a folded table of these values. Colours
    range from 0 to the maximum m, or from -m to m if `signed`. An item with a `pick` is a button.
    """

    alt: str
    caption: str
    note: str = ""
    values: np.ndarray | None = None
    signed: bool = False
    pick: str = ""


@dataclass(frozen=True, eq=False)
class ImageRow:
    """Row of images and maps, each about `width` pixels wide.

    `sheet` (S, n*S, 3) uint8 contains the images of all items without `values`, see
    `concatenate_images`. The browser needs only one file.
    """

    items: Sequence[ImageItem]
    sheet: np.ndarray | None = None
    width: int = 112


def concatenate_images(pictures: np.ndarray) -> np.ndarray:
    """Concatenate images (n, S, S, 3) side by side, (S, n*S, 3)."""
    n, S = pictures.shape[:2]
    return pictures.swapaxes(0, 1).reshape(S, n * S, 3)


def tile_images(pictures: np.ndarray, columns: int) -> np.ndarray:
    """Tile images (n, S, S, 3) in rows of `columns`; the last row is padded with black."""
    n, S = pictures.shape[:2]
    rows = math.ceil(n / columns)
    padded = np.zeros((rows * columns, S, S, 3), np.uint8)
    padded[:n] = pictures
    grid = padded.reshape(rows, columns, S, S, 3).swapaxes(1, 2)  # (rows, S, columns, S, 3)
    return grid.reshape(rows * S, columns * S, 3)
