"""Colours and curves of figures, and the conversion of figures to inline SVG."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

matplotlib.rcParams["svg.fonttype"] = "none"  # keeps text as text, in the page's font
TEXT_COLOUR = "#010203"  # placeholder that `figure_to_svg` replaces by the page's text colour
SEQUENTIAL_COLOURMAP = "inferno"  # perceptually uniform, and readable in greyscale
DIVERGING_COLOURMAP = "PuOr_r"  # purple is negative, orange positive; safe for colour-blind readers


def colour_table(name: str) -> np.ndarray:
    """Return the colours (256, 3) uint8 of matplotlib's colour map `name`, lowest value first."""
    return (255 * colormaps[name](np.arange(256))[:, :3]).round().astype(np.uint8)


@dataclass(frozen=True)
class Curve:
    """One line of a plot: `x` and `y` have equal length, `marker` is a matplotlib marker."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dashed: bool = False
    marker: str = "o"


_figure_numbers = itertools.count()


def figure_to_svg(figure: Figure) -> str:
    """Convert a figure to inline SVG that fills its container, in the page's text colour.

    The SVG is hidden from screen readers, which would otherwise read all tick labels. The element
    around the SVG must have a label.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(TEXT_COLOUR, "currentColor")
    head, rest = text.split(">", 1)
    head = " ".join(part for part in head.split() if not part.startswith(("width=", "height=")))
    # Ids must be unique on the page, so each figure has its own prefix.
    prefix = f"f{next(_figure_numbers)}-"
    for name in ('id="', 'href="#', "url(#"):
        rest = rest.replace(name, name + prefix)
    return f'{head} aria-hidden="true">{rest}'
