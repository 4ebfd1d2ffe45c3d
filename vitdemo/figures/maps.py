"""Maps as small palette pictures, one pixel a patch: the browser enlarges them, pixels as squares.

A head wall of 12 x 12 heads on 14 x 14 patches is one picture of 168 x 168 pixels this way.
"""

import numpy as np
from matplotlib import colormaps
from PIL import Image

from vitdemo.figures import SEQUENTIAL

_COLOURS = (255 * colormaps[SEQUENTIAL](np.arange(256))[:, :3]).round().astype(np.uint8)  # (256, 3)


def map_picture(values: np.ndarray, *, vmax: float | None = None) -> Image.Image:
    """Values (rows, columns) >= 0 -> a palette picture of as many pixels, in the colours of
    `figures.colour_map`: black is 0, brightest is `vmax` (the map's own maximum by default)."""
    return wall_picture(values[None, None], vmax=vmax)


def wall_picture(maps: np.ndarray, *, vmax: float | None = None) -> Image.Image:
    """Maps (R, C, rows, columns) >= 0 -> one palette picture (R * rows, C * columns).

    Each map is scaled to its own maximum, or all of them to `vmax`; a map of zeros stays black.
    """
    R, C, rows, columns = maps.shape
    top = maps.max(axis=(2, 3), keepdims=True) if vmax is None else np.full((1, 1, 1, 1), vmax)
    share = np.divide(maps, top, out=np.zeros_like(maps, float), where=top > 0)
    indices = np.clip(256 * share, 0, 255).astype(np.uint8)  # as matplotlib rounds
    pixels = indices.transpose(0, 2, 1, 3).reshape(R * rows, C * columns)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.putpalette(_COLOURS.tobytes())
    return picture
