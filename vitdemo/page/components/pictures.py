"""Images and maps side by side, a piece of an `Document`: see `pictures.js`.

ImageRow([ImageItem("Mean of all cats", "cat"), ...], concatenate_images(means))
ImageRow([ImageItem("Norm of each token", "Norm", values=norms)])
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ImageItem:
    """An image or map with alternative text `alt`, a `caption` and a small `note`.

    With `values` (rows, columns) it is a map with a folded table of its numbers. Its colours range
    from 0 to the maximum m, or from -m to m if `signed`. With a `pick` the image is a button.
    """

    alt: str
    caption: str
    note: str = ""
    values: np.ndarray | None = None
    signed: bool = False
    pick: str = ""


@dataclass(frozen=True, eq=False)
class ImageRow:
    """A row of `items`, each about `width` pixels wide; items without values show `sheet`.

    `sheet` (S, n*S, 3) uint8 holds all their images in order, see `concatenate_images`, so that
    they are one file.
    """

    items: Sequence[ImageItem]
    sheet: np.ndarray | None = None
    width: int = 112


def concatenate_images(pictures: np.ndarray) -> np.ndarray:
    """Concatenate images (n, S, S, 3) side by side, (S, n*S, 3)."""
    n, S = pictures.shape[:2]
    return pictures.swapaxes(0, 1).reshape(S, n * S, 3)
