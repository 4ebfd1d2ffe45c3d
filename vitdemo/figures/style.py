"""Common style of all plots: text colour of the page, faint grid, two spines."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitdemo.figures import TEXT_COLOUR, Curve

# Colours for colour-blind readers, with a contrast of at least 2.9:1 on both themes
BLUE, ORANGE, GREY = "#2f86c9", "#d97706", "#7a8594"
PURPLE = "#7c4fd0"
DASHES = (0, (4, 2))
LINE_WIDTH = 1.8  # points
MAX_MARKERS = 10  # maximum number of large markers on a curve


def create_plot(
    x_label: str, y_label: str, size: tuple[float, float] = (5, 4)
) -> tuple[Figure, Axes]:
    """Return a new figure of `size` (width, height) in inches, and its axes."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x_label, color=TEXT_COLOUR)
    axes.set_ylabel(y_label, color=TEXT_COLOUR)
    axes.tick_params(which="both", colors=TEXT_COLOUR)
    axes.grid(color=TEXT_COLOUR, alpha=0.15)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(TEXT_COLOUR)
    return figure, axes


def draw_curve(axes: Axes, curve: Curve, gid: str, scale: float = 1, **options) -> None:
    """Draw a curve with x and y multiplied by `scale`; `options` are options of `Axes.plot`.

    A marker other than a dot is drawn on a few points.
    """
    dashes = DASHES if curve.dashed else "solid"
    style = {"color": curve.colour, "linestyle": dashes, "linewidth": LINE_WIDTH, "gid": gid}
    if curve.marker != "o":
        interval = max(1, -(-len(curve.x) // MAX_MARKERS))
        style |= {"marker": curve.marker, "markersize": 6, "markevery": interval}
    axes.plot(scale * np.asarray(curve.x), scale * np.asarray(curve.y), **style | options)
