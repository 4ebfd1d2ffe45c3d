"""Charts: ranking curves, reliability, confidence, gains, faithfulness test, attention distance.

Each function takes arrays and returns a new figure for `figures.figure_to_svg`. Fractions from 0
to 1 are drawn in percent, except in ranking curves. Colour-blind readers can distinguish the
colours. Lines also differ in dashes or markers.
"""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from vitdemo.figures import TEXT_COLOUR, Curve
from vitdemo.figures.style import (
    BLUE,
    DASHES,
    GREY,
    LINE_WIDTH,
    ORANGE,
    PURPLE,
    create_plot,
    draw_curve,
)
from vitdemo.metrics.calibration import ReliabilityDiagram
from vitdemo.metrics.recipe_ablation import RecipeAblation

CORRECT_COLOUR, INCORRECT_COLOUR, NOT_SIGNIFICANT_COLOUR = BLUE, ORANGE, GREY
BETTER_COLOUR, WORSE_COLOUR = ORANGE, PURPLE  # the same colours as for the values of maps
LABEL_CHARACTERS = 42  # characters per line of a label in a plot of gains


def plot_ranking_curves(
    curves: Sequence[Curve], x_label: str, y_label: str, *, steps: bool = False, diagonal: bool
) -> Figure:
    """Plot curves with both axes from 0 to 1, the unit of precision and recall in all tables.

    `steps` draws each curve as a step function, for precision-recall curves. `diagonal` also draws
    the line of a random classifier.
    """
    figure, axes = _square_plot(x_label, y_label, 1)
    if diagonal:
        _diagonal(axes, 1)
    for number, curve in enumerate(curves):
        style = "steps-post" if steps else "default"
        draw_curve(axes, curve, f"curve-{number}", drawstyle=style)
    return figure


def plot_reliability(
    diagram: ReliabilityDiagram,
    band: np.ndarray,
    scaled: ReliabilityDiagram | None = None,
    scaled_band: np.ndarray | None = None,
) -> Figure:
    """Plot accuracy against confidence for each of B bins; larger dots have more predictions.

    `band` (2, B) is the 95% range of a calibrated model's accuracy. `scaled` and `scaled_band` are
    the diagram and the range after temperature scaling.
    """
    figure, axes = _square_plot("confidence, %", "accuracy, %", 100)
    _diagonal(axes, 100)
    _chance_bars(axes, diagram, band, TEXT_COLOUR, "chance")
    if scaled:
        _chance_bars(axes, scaled, scaled_band, BETTER_COLOUR, "scaled-chance")
    _reliability_line(axes, diagram, CORRECT_COLOUR, "o", "solid")
    if scaled:
        _reliability_line(axes, scaled, BETTER_COLOUR, "D", DASHES)
    return figure


def _chance_bars(
    axes: Axes, diagram: ReliabilityDiagram, band: np.ndarray, colour: str, name: str
) -> None:
    """Draw the accuracy range of a calibrated model as a bar at each bin's mean confidence."""
    filled = diagram.count > 0
    x, low, high = (100 * values[filled] for values in (diagram.confidence, *band))
    axes.vlines(x, low, high, color=colour, alpha=0.22, linewidth=9, gid=name)


def _reliability_line(
    axes: Axes, diagram: ReliabilityDiagram, colour: str, marker: str, line: str | tuple
) -> None:
    filled = diagram.count > 0
    x, y = 100 * diagram.confidence[filled], 100 * diagram.accuracy[filled]
    axes.plot(x, y, color=colour, linestyle=line, linewidth=1, alpha=0.7)
    fraction = diagram.count[filled] / diagram.count.max()
    axes.scatter(x, y, s=12 + 90 * np.sqrt(fraction), c=colour, marker=marker, zorder=3)


def plot_confidence(edges: np.ndarray, correct: np.ndarray, incorrect: np.ndarray) -> Figure:
    """Plot confidence histograms (B,) of correct and incorrect predictions; `edges` are (B+1,)."""
    figure, axes = create_plot("confidence, %", "proportion of predictions, %")
    width = (edges[1:] - edges[:-1]) * 45  # width of a bar, slightly below half a bin, in percent
    for number, (counts, colour, hatch) in enumerate(
        [(correct, CORRECT_COLOUR, None), (incorrect, INCORRECT_COLOUR, "///")]
    ):
        percent = 100 * counts / max(counts.sum(), 1)
        left = 100 * edges[:-1] + number * width
        style = {"color": colour, "edgecolor": "white" if hatch else colour, "hatch": hatch}
        axes.bar(left, percent, width, align="edge", linewidth=0, **style)
    axes.set_xlim(0, 100)
    return figure


def _diagonal(axes: Axes, top: float) -> None:
    axes.plot([0, top], [0, top], color=TEXT_COLOUR, alpha=0.5, linestyle=":", linewidth=1.2)


def _square_plot(x_label: str, y_label: str, top: float) -> tuple[Figure, Axes]:
    """Create a plot whose axes end slightly outside 0 to `top`, so that no line is cut."""
    figure, axes = create_plot(x_label, y_label)
    limits = -0.01 * top, 1.01 * top
    axes.set(xlim=limits, ylim=limits)
    return figure, axes


def plot_faithfulness(
    curves: Sequence[Curve], band: Sequence[np.ndarray], x_label: str, y_label: str
) -> Figure:
    """Plot faithfulness curves and the `band` (x, mean, low, high) of random orders."""
    figure, axes = create_plot(x_label, y_label, (5, 2.6))
    x, mean, low, high = band
    axes.fill_between(x, low, high, color=TEXT_COLOUR, alpha=0.15, linewidth=0, gid="random-band")
    axes.plot(x, mean, color=TEXT_COLOUR, alpha=0.55, linewidth=1.2, gid="random-mean")
    for number, curve in enumerate(curves):
        draw_curve(axes, curve, f"truth-{number}")
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    return figure


def plot_cascade(curves: Sequence[Curve], ticks: Sequence[str], x_label: str) -> Figure:
    """Plot rank correlations of maps after more and more layers were randomised.

    The `x` of the curves are the positions of the `ticks`, from 0.
    """
    figure, axes = create_plot(x_label, "rank correlation", (5, 2.6))
    for number, curve in enumerate(curves):
        draw_curve(axes, curve, f"cascade-{number}")
    axes.axhline(0, color=TEXT_COLOUR, linewidth=1)
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_ylim(top=1.05)
    return figure


def plot_attention_distance(heads: np.ndarray, even: float, top: float) -> Figure:
    """Plot the attention distances (L, H) of one model by layer, as fractions of the image side.

    The plot has one dot per head, a line through the layers' means, and a dashed line at `even`,
    the distance of uniform attention. `top` is the upper limit of the axis.
    """
    figure, axes = create_plot("layer", "distance, % of the image side", (4.6, 3))
    layers = np.arange(1, len(heads) + 1)
    axes.scatter(np.repeat(layers, heads.shape[1]), heads.ravel(), s=18, color=ORANGE, gid="heads")
    axes.plot(layers, heads.mean(axis=1), color=BLUE, linewidth=LINE_WIDTH, gid="mean")
    axes.axhline(even, color=TEXT_COLOUR, linestyle=DASHES, linewidth=1, gid="even")
    axes.set(ylim=(0, top), xlim=(0.5, len(heads) + 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure


def plot_gains(ablation: RecipeAblation, width: float = 7.5) -> Figure:
    """Plot the accuracy gain of each change to the recipe with its confidence interval.

    `width` is in inches. A filled dot is significantly above 0, a square is significantly below 0,
    and an empty dot is not significant. The colours also differ. Small diamonds are gains with
    other seeds. A grey band shows `RecipeAblation.seed_threshold` on both sides of 0.
    """
    texts = [textwrap.fill(gain.description, LABEL_CHARACTERS) for gain in ablation.single_changes]
    heights = [1.5 + text.count("\n") for text in texts]  # height of each label in lines of text
    positions = np.cumsum(heights) - np.array(heights) / 2
    size = (width, 0.7 + 0.19 * sum(heights))
    figure, axes = create_plot("gain in test accuracy, percentage points", "", size)
    if ablation.seed_threshold is not None:
        threshold = 100 * ablation.seed_threshold
        axes.axvspan(-threshold, threshold, color=TEXT_COLOUR, alpha=0.15, linewidth=0, gid="seeds")
    axes.axvline(0, color=TEXT_COLOUR, linewidth=0.8, alpha=0.6)
    for number, (y, gain) in enumerate(zip(positions, ablation.single_changes, strict=True)):
        is_significant, difference = gain.is_significant, gain.test.difference
        colour = BETTER_COLOUR if difference > 0 else WORSE_COLOUR
        colour = colour if is_significant else NOT_SIGNIFICANT_COLOUR
        marker = {"marker": "s" if is_significant and difference < 0 else "o", "markersize": 6}
        marker |= {"color": colour, "markerfacecolor": colour if is_significant else "none"}
        axes.plot(100 * gain.test.interval, [y, y], color=colour, linewidth=LINE_WIDTH)
        axes.plot(100 * difference, y, **marker, gid=f"gain-{number}")
        marker = {"marker": "D", "markersize": 3, "color": TEXT_COLOUR}
        for seed_gain in ablation.other_seed_gains(gain):
            axes.plot(100 * seed_gain, y, **marker, gid=f"again-{number}")
    axes.set_yticks(positions, texts)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # names of runs may contain dollar signs
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(sum(heights) + 0.2, -0.1)
    axes.spines["left"].set_visible(False)
    return figure
