"""Pictures and maps side by side, a piece of an `Article`: see `pictures.js`.

Pictures([Item("Mean of all cats", "cat"), ...], strip(means))
Pictures([Item("Length of each token", "Length", values=lengths)])
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Item:
    """`alt` is for those who do not see it; `caption` and a quieter `note` stand below.

    With `values` (rows, columns) it is a map of them, its numbers folded below: from 0 to its
    maximum or, if `signed`, from -m to m. With a `pick` the picture is a button.
    """

    alt: str
    caption: str
    note: str = ""
    values: np.ndarray | None = None
    signed: bool = False
    pick: str = ""


@dataclass(frozen=True, eq=False)
class Pictures:
    """`items`, each about `width` pixels wide; those without values are the pictures of `sheet`.

    `sheet` (S, n*S, 3) uint8 has them in turn, see `strip`: however many, it is one file.
    """

    items: Sequence[Item]
    sheet: np.ndarray | None = None
    width: int = 112


def strip(pictures: np.ndarray) -> np.ndarray:
    """Pictures (n, S, S, 3) side by side, (S, n*S, 3)."""
    n, S = pictures.shape[:2]
    return pictures.swapaxes(0, 1).reshape(S, n * S, 3)
