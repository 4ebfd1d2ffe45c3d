"""Row of maps over the model's input image, a block of a document that `maps.js` draws.

MapRow([MapPanel("Rollout", values, input_image, "Rollout of vit")], "Attention of vit")
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class MapPanel:
    """Map `values` (rows, columns) over the model input `seen` (S, S, 3) uint8, with texts.

    Colours range from 0 to the maximum m, or from -m to m if the map is `signed`. `alt` describes
    the map to screen readers. The page shows `head` above the map, and `lines` and `caption` below.
    If the values are a `fraction` of a whole, as for attention, the table is in percent. Otherwise
    the table is in percent of the largest absolute value.
    """

    title: str
    values: np.ndarray
    seen: np.ndarray
    alt: str
    head: str = ""
    lines: Sequence[str] = ()
    caption: str = ""
    badge: str = ""
    badge_title: str = ""
    signed: bool = False
    fraction: bool = True


@dataclass(frozen=True, eq=False)
class MapRow:
    """Map panels in a row, with an introduction above; `sentence` is a message about missing maps.

    `colour_labels` are the labels of the negative and the positive colour of signed maps.
    """

    panels: Sequence[MapPanel]
    intro: str = ""
    sentence: str = ""
    colour_labels: tuple[str, str] = ("against", "for")


def describe_peak(values: np.ndarray) -> str:
    """Return row and column of the largest absolute value as text."""
    row, column = np.unravel_index(np.abs(values).argmax(), values.shape)
    rows, columns = values.shape
    return f"row {row + 1} of {rows}, column {column + 1} of {columns}"
