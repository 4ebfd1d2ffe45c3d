"""Several maps next to each other, each over the model's input image, with texts and numbers.

A handler returns a `MapRow`, or a message. The payload:

    {"intro": str, "sentence": str, "ends": [str, str], "panels": [
        {"head", "title", "alt", "lines": [str], "caption", "badge", "badge_title", "seen": file,
         "grid": [rows, columns], "values": [...], "signed", "fraction"}]}
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitdemo.page.components import View, serve_image

PANEL_DIGITS = 4  # significant digits of a value: more than colours and tables show


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class MapRow:
    """Map panels in a row, with an introduction above; `sentence` is a message about missing maps.

    `colour_labels` are the labels of the negative and the positive colour of signed maps.
    """

    panels: Sequence[MapPanel]
    intro: str = ""
    sentence: str = ""
    colour_labels: tuple[str, str] = ("against", "for")


class MapRowView(View):
    """Row of maps over model inputs."""

    def to_payload(self, value: MapRow) -> dict:
        return {
            "intro": value.intro,
            "sentence": value.sentence,
            "panels": [self._panel_payload(panel) for panel in value.panels],
            "ends": list(value.colour_labels),
        }

    def _panel_payload(self, panel: MapPanel) -> dict:
        return {
            "head": panel.head,
            "title": panel.title,
            "alt": panel.alt,
            "lines": list(panel.lines),
            "caption": panel.caption,
            "badge": panel.badge,
            "badge_title": panel.badge_title,
            "signed": panel.signed,
            "fraction": panel.fraction,
            "grid": list(panel.values.shape),
            "values": [float(f"{value:.{PANEL_DIGITS}g}") for value in panel.values.ravel()],
            "seen": serve_image(self, panel.seen),
        }


def describe_peak(values: np.ndarray) -> str:
    """Return row and column of the largest absolute value as text."""
    row, column = np.unravel_index(np.abs(values).argmax(), values.shape)
    return f"row {row + 1}, column {column + 1} of {values.shape[0]} × {values.shape[1]}"
