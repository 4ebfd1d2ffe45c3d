"""Figures of a model's inside: colours of classes and changes, head distances, positions, filters.

Letters: L layers, H heads, P patches, K filters, p side of a filter in pixels.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from vitdemo.figures import DIVERGING, INK, SEQUENTIAL
from vitdemo.figures.style import BLUE, DASHES, ORANGE, WIDTH, plot

# Paul Tol's "muted" scheme, https://personal.sron.nl/~pault: ten colours that the colour-blind tell
# apart. The grey one is also for all that has no colour of its own.
CLASS_COLOURS = (
    *("#cc6677", "#332288", "#ddcc77", "#117733", "#88ccee"),
    *("#882255", "#44aa99", "#999933", "#aa4499", "#dddddd"),
)


def diverging(values: np.ndarray, limit: float) -> np.ndarray:
    """Values of any shape as "#rrggbb": white is 0, purple is -`limit`, orange is `limit`."""
    return _hex(colormaps[DIVERGING](0.5 + 0.5 * _share(values, limit)))


def sequential(values: np.ndarray, limit: float) -> np.ndarray:
    """Values >= 0 of any shape as "#rrggbb": black is 0, brightest is `limit`."""
    return _hex(colormaps[SEQUENTIAL](np.clip(_share(values, limit), 0, 1)))


def ink_on(colour: str) -> str:
    """Black or white, whichever has more contrast on "#rrggbb" (WCAG 2.1, relative luminance)."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ (0.2126, 0.7152, 0.0722))
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"


def tile(colours: np.ndarray) -> np.ndarray:
    """One filter (3, p, p) in 0..1 -> (p, p, 3) uint8."""
    return (255 * colours).round().astype(np.uint8).transpose(1, 2, 0)


def position_overview(
    similarity: np.ndarray, grid: tuple[int, int], side: int, limit: float
) -> np.ndarray:
    """Cosines (P, P) as a map of each patch at its place in the grid, about `side` pixels wide."""
    rows, columns = grid
    maps = similarity.reshape(rows, columns, rows, columns)
    maps = np.pad(maps, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)  # a gap
    whole = maps.transpose(0, 2, 1, 3).reshape(rows * (rows + 1), -1)[:-1, :-1]
    colours = colormaps[DIVERGING](0.5 + 0.5 * _share(np.nan_to_num(whole), limit))[..., :3]
    colours[np.isnan(whole)] = 0.5  # grey, which the colours of numbers never are
    picture = (255 * colours).round().astype(np.uint8)
    times = max(1, round(side / whole.shape[1]))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def distance_plot(heads: np.ndarray, even: float, top: float) -> Figure:
    """How far the heads (L, H) of one model look, as shares of the picture's side, by layer.

    A dot a head, a line through the layers' means, a dashed line at `even`; up to `top`.
    """
    figure, axes = plot("layer", "distance, share of the side", (4.6, 3))
    layers = np.arange(1, len(heads) + 1)
    axes.scatter(np.repeat(layers, heads.shape[1]), heads.ravel(), s=18, color=ORANGE, gid="heads")
    axes.plot(layers, heads.mean(axis=1), color=BLUE, linewidth=WIDTH, gid="mean")
    axes.axhline(even, color=INK, linestyle=DASHES, linewidth=1, gid="even")
    axes.set(ylim=(0, top), xlim=(0.5, len(heads) + 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    return figure


def _share(values: np.ndarray, limit: float) -> np.ndarray:
    """Values over `limit`, kept in -1..1; zeros where the limit is 0."""
    values = np.asarray(values, np.float64)
    return np.clip(values / limit, -1, 1) if limit > 0 else np.zeros_like(values)


def _hex(colours: np.ndarray) -> np.ndarray:
    """(..., 4) in 0..1 -> (...) of "#rrggbb"."""
    flat: Sequence[str] = [to_hex(colour) for colour in colours.reshape(-1, 4)]
    return np.array(flat, dtype=object).reshape(colours.shape[:-1])
