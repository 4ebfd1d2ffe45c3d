"""Curves of a training as a matplotlib figure, and how runs are told apart everywhere."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitdemo.figures import INK, Curve
from vitdemo.figures.style import draw, plot

# Each at 2.9 : 1 or more on white and on the dark theme, and apart for the colour-blind too.
HUES = ("#0a78c2", "#c45f10", "#17876a", "#a2559a", "#96740a", "#64748b")
LIGHTER = ("#4f95d8", "#dd8034", "#2fa382", "#c27db8", "#b08d24", "#8a98ac")
COLOURS = tuple(zip(HUES, LIGHTER, strict=True))  # of a run: for validation and for training
MANY = len(COLOURS)  # of more runs, curves of training would hide those of validation
# Markers, and what stands for them in words; the first is drawn so small that it is part of the
# line. Each serves as many runs as there are colours.
MARKERS = {"o": "", "s": "■", "^": "▲", "D": "◆"}
MARKED = 10  # points of a curve, at most, that carry a larger marker


@dataclass(frozen=True)
class LineStyle:
    """How the curves of a run are told from others: its colour for validation, a lighter one for
    training, and its marker."""

    colour: str
    lighter: str
    marker: str

    @property
    def sign(self) -> str:
        return MARKERS[self.marker]

    def curve(self, x: Sequence[float], y: Sequence[float], *, training: bool) -> Curve:
        """What is measured on training pictures is dashed and lighter."""
        colour = self.lighter if training else self.colour
        return Curve(x, y, colour, dashed=training, marker=self.marker)


def line_styles(shown: Sequence[str], order: Sequence[str]) -> dict[str, LineStyle]:
    """Name -> its style for each of the names `shown`, which are among `order`.

    A name keeps the colour of its place in the `order`, whatever else is shown, unless one before
    it has that colour; then it takes one that is free. Once no colour is, they begin anew with the
    next marker.
    """
    every = [LineStyle(*pair, marker) for marker in MARKERS for pair in COLOURS]
    found: dict[str, LineStyle] = {}
    for name in shown:
        own = every[order.index(name) % len(COLOURS)]
        if own not in found.values():
            found[name] = own
    late = [name for name in shown if name not in found]
    free = [style for style in every if style not in found.values()]
    found |= dict(zip(late, itertools.chain(free, itertools.cycle(every)), strict=False))
    return {name: found[name] for name in shown}


def curve_plot(curves: Sequence[Curve], y_label: str, *, zero: bool = False) -> Figure:
    """Curves over epochs; a curve of a single point is a dot. `zero` draws the line of y = 0."""
    figure, axes = plot("epoch", y_label, (6, 3))
    for number, curve in enumerate(curves):
        draw(axes, curve, f"curve-{number}", **_points(curve))
    if zero:
        axes.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return figure


def _points(curve: Curve) -> dict:
    """matplotlib's options for the points of a curve: small dots, or a larger marker on a few."""
    if not MARKERS.get(curve.marker):
        return {"marker": curve.marker, "markersize": 3 if len(curve.x) < 60 else 0}
    every = max(1, -(-len(curve.x) // MARKED))
    return {"marker": curve.marker, "markersize": 6, "markevery": every}
