"""Arrays -> coloured pictures, as (side, side, 3) uint8 arrays.

Letters: S side of what the model saw, rows and columns of the patch grid. A map is drawn at its own
resolution, one flat square a patch: smoothing would claim detail that attention does not have.
"""

import numpy as np
from matplotlib import colormaps
from PIL import Image

SEQUENTIAL = "inferno"  # perceptually uniform, and its order survives without colour


def enlarge(picture: np.ndarray, side: int) -> np.ndarray:
    """(S, S, 3) uint8 -> (side, side, 3), nearest neighbour, so that pixels stay pixels."""
    return np.asarray(Image.fromarray(picture).resize((side, side), Image.Resampling.NEAREST))


def with_patch_grid(picture: np.ndarray, grid: tuple[int, int], side: int) -> np.ndarray:
    """What the model saw, enlarged, with a line between patches.

    Args:
        picture: (S, S, 3) uint8.
        grid: rows and columns of patches.
        side: of the result in pixels.
    """
    canvas = enlarge(picture, side).copy()  # (side, side, 3)
    for axis, count in enumerate(grid):
        lines = np.round(np.arange(1, count) * side / count).astype(int)
        index = (lines,) if axis == 0 else (slice(None), lines)
        canvas[index] = (0.55 * canvas[index] + 0.45 * 255).astype(np.uint8)
    return canvas


def colour_map(values: np.ndarray, side: int, *, vmax: float | None = None) -> np.ndarray:
    """Values (rows, columns) >= 0 -> (side, side, 3) uint8; black is 0, brightest is `vmax`.

    `vmax` is the map's own maximum by default; a map of zeros stays black.
    """
    top = float(values.max()) if vmax is None else vmax
    share = np.clip(values / top, 0, 1) if top > 0 else np.zeros_like(values)
    colours = colormaps[SEQUENTIAL](share)[..., :3]  # (rows, columns, 3)
    return enlarge((255 * colours).round().astype(np.uint8), side)


def overlay(
    picture: np.ndarray,
    values: np.ndarray,
    side: int,
    *,
    opacity: float,
    vmax: float | None = None,
) -> np.ndarray:
    """`colour_map` of (rows, columns) over the picture (S, S, 3) with `opacity` in 0..1."""
    base = enlarge(picture, side).astype(np.float32)
    colours = colour_map(values, side, vmax=vmax).astype(np.float32)
    return ((1 - opacity) * base + opacity * colours).round().astype(np.uint8)


def scale_bar(width: int, height: int) -> np.ndarray:
    """The colours from 0 (left) to the maximum (right), (height, width, 3) uint8."""
    line = colormaps[SEQUENTIAL](np.linspace(0, 1, width))[None, :, :3]  # (1, width, 3)
    return np.repeat((255 * line).round().astype(np.uint8), height, axis=0)
