"""The curves of the truth meter."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from vitdemo.figures import INK, Curve
from vitdemo.figures.style import draw, plot


def truth_plot(
    curves: Sequence[Curve], band: Sequence[np.ndarray], x_label: str, y_label: str
) -> Figure:
    """Curves over the share of patches, over the `band` (x, mean, low, high) of random orders."""
    figure, axes = plot(x_label, y_label, (5, 3.4))
    x, mean, low, high = band
    axes.fill_between(x, low, high, color=INK, alpha=0.15, linewidth=0, gid="random-band")
    axes.plot(x, mean, color=INK, alpha=0.55, linewidth=1.2, gid="random-mean")
    for number, curve in enumerate(curves):
        draw(axes, curve, f"truth-{number}")
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    return figure
