"""Signed maps, and the curves of the truth meter."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from vitdemo.figures import INK, Curve, enlarge

DIVERGING = "PuOr_r"  # purple against, orange for: told apart by the colour-blind, too


def signed_overlay(
    picture: np.ndarray, values: np.ndarray, side: int, *, opacity: float
) -> np.ndarray:
    """Signed values (rows, columns) over the picture (S, S, 3), as (side, side, 3) uint8.

    White is 0 and both ends are equally far from it, so that colours compare.
    """
    top = float(np.abs(values).max())
    share = 0.5 + values / (2 * top) if top > 0 else np.full_like(values, 0.5)
    colours = enlarge(_coloured(share), side).astype(np.float32)
    base = enlarge(picture, side).astype(np.float32)
    return ((1 - opacity) * base + opacity * colours).round().astype(np.uint8)


def signed_scale_bar(width: int, height: int) -> np.ndarray:
    """The colours from the strongest against (left) to the strongest for, (height, width, 3)."""
    return np.repeat(_coloured(np.linspace(0, 1, width)[None]), height, axis=0)


def _coloured(share: np.ndarray) -> np.ndarray:
    return (255 * colormaps[DIVERGING](share)[..., :3]).round().astype(np.uint8)


def truth_plot(
    curves: Sequence[Curve], band: Sequence[np.ndarray], x_label: str, y_label: str
) -> Figure:
    """Curves over the share of patches, over the `band` (x, mean, low, high) of random orders."""
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    x, mean, low, high = band
    axes.fill_between(x, low, high, color=INK, alpha=0.15, linewidth=0, gid="random-band")
    axes.plot(x, mean, color=INK, alpha=0.55, linewidth=1.2, gid="random-mean")
    for number, curve in enumerate(curves):
        axes.plot(
            curve.x,
            curve.y,
            color=curve.colour,
            linestyle=(0, (4, 2)) if curve.dashed else "solid",
            linewidth=1.8,
            gid=f"truth-{number}",
        )
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.tick_params(colors=INK)
    axes.grid(color=INK, alpha=0.15)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    return figure
