"""Several maps beside each other, each over the picture that was seen, with its words and numbers.

A handler returns a `MapRow` for `Maps`, or a sentence. The value that reaches the script:

    {"intro": str, "sentence": str, "ends": [str, str], "panels": [
        {"head", "title", "alt", "lines": [str], "caption", "badge", "badge_title", "seen": file,
         "grid": [rows, columns], "values": [...], "signed"}]}
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitdemo.page.components import Drawing, served_picture

DIGITS = 4  # of a value: more than colours and tables show


@dataclass(frozen=True)
class Panel:
    """One map `values` (rows, columns) over what was `seen` (S, S, 3) uint8, and its words.

    A signed map runs from -m to m, any other from 0 to its maximum. `alt` is what it shows, for
    those who do not see it; `head` stands above it, `lines` and the quieter `caption` below.
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


@dataclass(frozen=True)
class MapRow:
    """Panels with a line above them, and a sentence where something is missing.

    `ends` say what the two colours of a signed map speak for.
    """

    panels: Sequence[Panel]
    intro: str = ""
    sentence: str = ""
    ends: tuple[str, str] = ("against", "for")


class Maps(Drawing):
    """See the module."""

    def drawn(self, value: MapRow) -> dict:
        return {
            "intro": value.intro,
            "sentence": value.sentence,
            "panels": [self._panel(panel) for panel in value.panels],
            "ends": list(value.ends),
        }

    def _panel(self, panel: Panel) -> dict:
        return {
            "head": panel.head,
            "title": panel.title,
            "alt": panel.alt,
            "lines": list(panel.lines),
            "caption": panel.caption,
            "badge": panel.badge,
            "badge_title": panel.badge_title,
            "signed": panel.signed,
            "grid": list(panel.values.shape),
            "values": [float(f"{value:.{DIGITS}g}") for value in panel.values.ravel()],
            "seen": served_picture(self, panel.seen),
        }


def peak(values: np.ndarray) -> str:
    """Where a map is strongest, in words."""
    row, column = np.unravel_index(np.abs(values).argmax(), values.shape)
    return f"row {row + 1}, column {column + 1} of {values.shape[0]} × {values.shape[1]}"
