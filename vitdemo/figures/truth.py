"""The curves of the truth meter, and the colours of signed maps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from vitdemo.figures import INK, Curve

DIVERGING = "PuOr_r"  # purple against, orange for: told apart by the colour-blind, too


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
