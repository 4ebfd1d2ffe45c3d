"""Figure of a confusion matrix, for reports."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from vitdemo.figures import DIVERGING_COLOURMAP, SEQUENTIAL_COLOURMAP, TEXT_COLOUR

MAX_CLASSES_WITH_NUMBERS = 25  # maximum number of classes for which each cell shows its number


def plot_confusion_matrix(
    values: np.ndarray,
    texts: Sequence[Sequence[str]],
    classes: Sequence[str],
    label: str,
    *,
    signed: bool = False,
) -> Figure:
    """Draw a confusion matrix (C, C) with `texts` in the cells; rows are true classes.

    The colour scale covers only the cells off the diagonal, because the larger values on the
    diagonal would make all errors look alike. Values above the scale have the last colour of the
    scale. With `signed`, the colour map diverges around 0. `label` is the label of the colour bar.
    """
    values = np.asarray(values, dtype=float)
    c = len(classes)
    top = float(np.abs(values[~np.eye(c, dtype=bool)]).max(initial=0)) or 1.0
    norm = Normalize(-top if signed else 0, top)
    colours = colormaps[DIVERGING_COLOURMAP if signed else SEQUENTIAL_COLOURMAP + "_r"]
    side = min(3 + 0.55 * c, 14)
    figure = Figure(figsize=(side + 1.2, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap=colours, norm=norm)
    axes.set_xlabel("predicted class", color=TEXT_COLOUR)
    axes.set_ylabel("true class", color=TEXT_COLOUR)
    axes.set_xticks(range(c), classes, rotation=45, ha="right", parse_math=False)
    axes.set_yticks(range(c), classes, parse_math=False)
    axes.tick_params(colors=TEXT_COLOUR)
    if c <= MAX_CLASSES_WITH_NUMBERS:
        style = {"ha": "center", "va": "center", "fontsize": 9}
        # Perceived lightness of each cell, 0 to 1
        lightness = colours(norm(values))[..., :3] @ np.array([0.299, 0.587, 0.114])  # (C, C)
        for row, column in np.ndindex(c, c):
            colour = "black" if lightness[row, column] > 0.5 else "white"
            axes.text(column, row, texts[row][column], color=colour, **style)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, extend="both" if signed else "max")
    bar.set_label(label, color=TEXT_COLOUR)
    bar.ax.tick_params(colors=TEXT_COLOUR)
    return figure
