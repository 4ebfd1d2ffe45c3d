"""Colours of maps and of text, curves, and figures -> inline SVG."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: small, and in the page's font
INK = "#010203"  # stands for the page's own text colour, see `svg`
SEQUENTIAL = "inferno"  # perceptually uniform, and its order survives without colour
DIVERGING = "PuOr_r"  # purple is less or against, orange more or for: the colour-blind see both


def colour_table(name: str) -> np.ndarray:
    """The colours of matplotlib's map `name` from its lower end to its upper, (256, 3) uint8."""
    return (255 * colormaps[name](np.arange(256))[:, :3]).round().astype(np.uint8)


@dataclass(frozen=True)
class Curve:
    """One line of a plot: `x` and `y` of equal length; `marker` is matplotlib's sign of points."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dashed: bool = False
    marker: str = "o"


_numbers = itertools.count()


def svg(figure: Figure) -> str:
    """The figure as inline SVG as wide as its place, in the text colour of the page around it.

    Hidden from screen readers, which would spell its ticks: who places it says what it shows.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    head, rest = text.split(">", 1)
    head = " ".join(part for part in head.split() if not part.startswith(("width=", "height=")))
    # Ids are of the whole page: each figure gets a prefix of its own.
    prefix = f"f{next(_numbers)}-"
    for name in ('id="', 'href="#', "url(#"):
        rest = rest.replace(name, name + prefix)
    return f'{head} aria-hidden="true">{rest}'
