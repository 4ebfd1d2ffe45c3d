"""Figures of a dataset: colour histograms and separated patches."""

import numpy as np
from matplotlib.figure import Figure

from vitdemo.figures import TEXT_COLOUR
from vitdemo.figures.style import create_plot

# Colour-blind readers can distinguish these colours (Okabe & Ito 2008) and the dashes.
CHANNEL_STYLES = (
    ("red", "#d55e00", "solid"),
    ("green", "#009e73", (0, (5, 2))),
    ("blue", "#3b8ed0", (0, (1.5, 1.5))),
)


def plot_channel_histograms(histograms: np.ndarray) -> Figure:
    """Plot the histograms (3, 256) of the red, green and blue channels in percent of the pixels."""
    figure, axes = create_plot("intensity, 0 to 255", "% of the pixels", (6, 3))
    for counts, (name, colour, dashes) in zip(histograms, CHANNEL_STYLES, strict=True):
        percent = 100 * counts / max(counts.sum(), 1)
        axes.plot(range(256), percent, color=colour, linestyle=dashes, linewidth=1.6, label=name)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, labelcolor=TEXT_COLOUR)
    return figure


def arrange_patches(patches: np.ndarray, side: int) -> np.ndarray:
    """Draw patches (rows, columns, height, width, 3) with gaps: about (side, side, 3) uint8."""
    rows, _, height, *_ = patches.shape
    scale = max(1, round(side / (rows * height * 1.25)))
    gap = max(1, height * scale // 4)
    enlarged = patches.repeat(scale, 2).repeat(scale, 3)
    margins = ((0, 0), (0, 0), (0, gap), (0, gap), (0, 0))
    padded = np.pad(enlarged, margins, constant_values=128).swapaxes(1, 2)
    return padded.reshape(rows * padded.shape[1], -1, 3)[:-gap, :-gap]
