"""Arrays -> coloured pictures as (side, side, 3) uint8 arrays, and figures -> inline SVG.

Letters: S side of what the model saw, rows and columns of the patch grid. A map is drawn at its own
resolution, one flat square a patch: smoothing would claim detail that attention does not have.
"""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from PIL import Image

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: small, and in the page's font
INK = "#010203"  # stands for the page's own text colour, see `svg`
SEQUENTIAL = "inferno"  # perceptually uniform, and its order survives without colour
DIVERGING = "PuOr_r"  # purple is less or against, orange more or for: the colour-blind see both


def enlarge(picture: np.ndarray, side: int) -> np.ndarray:
    """(S, S, 3) uint8 -> (side, side, 3), nearest neighbour, so that pixels stay pixels."""
    return np.asarray(Image.fromarray(picture).resize((side, side), Image.Resampling.NEAREST))


def display_side(side: int, target: int) -> int:
    """The smallest whole multiple of `side` from `target` on: pixels stay equal squares."""
    return side * -(-target // side)


def colour_table(name: str) -> np.ndarray:
    """The colours of matplotlib's map `name` from its lower end to its upper, (256, 3) uint8."""
    return (255 * colormaps[name](np.arange(256))[:, :3]).round().astype(np.uint8)


def colour_map(values: np.ndarray, side: int, *, vmax: float | None = None) -> np.ndarray:
    """Values (rows, columns) >= 0 -> (side, side, 3) uint8; black is 0, brightest is `vmax`.

    `vmax` is the map's own maximum by default; a map of zeros stays black.
    """
    top = float(values.max()) if vmax is None else vmax
    share = np.clip(values / top, 0, 1) if top > 0 else np.zeros_like(values)
    colours = colormaps[SEQUENTIAL](share)[..., :3]  # (rows, columns, 3)
    return enlarge((255 * colours).round().astype(np.uint8), side)


@dataclass(frozen=True)
class Curve:
    """One line of a plot: `x` and `y` of equal length; a `faint` one is what another smooths.

    `marker` is matplotlib's sign of its points.
    """

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dashed: bool = False
    faint: bool = False
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
