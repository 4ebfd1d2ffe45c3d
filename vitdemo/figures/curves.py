"""Training curves as a matplotlib figure, and the line styles of runs in all figures."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitdemo.figures import TEXT_COLOUR, Curve
from vitdemo.figures.style import create_plot, draw_curve

# Colours for colour-blind readers, with a contrast of at least 2.9:1 on both themes
HUES = ("#0a78c2", "#c45f10", "#17876a", "#a2559a", "#96740a", "#64748b")
LIGHTER_HUES = ("#4f95d8", "#dd8034", "#2fa382", "#c27db8", "#b08d24", "#8a98ac")
COLOURS = tuple(zip(HUES, LIGHTER_HUES, strict=True))  # for a run's validation and training curve
# Maximum number of runs with training curves, which would hide the validation curves of more runs.
MAX_TRAINING_CURVES = len(COLOURS)
# Markers and their symbols in text. The first marker is a tiny dot, so it has no symbol.
MARKERS = {"o": "", "s": "■", "^": "▲", "D": "◆"}


@dataclass(frozen=True)
class LineStyle:
    """Line style: a colour, a lighter colour (for the training curve of a run), and a marker."""

    colour: str
    lighter: str
    marker: str

    @property
    def symbol(self) -> str:
        return MARKERS.get(self.marker, self.marker.strip("$"))

    def curve(self, x: Sequence[float], y: Sequence[float], *, training: bool) -> Curve:
        """Return a curve in this style; training curves are dashed and lighter."""
        colour = self.lighter if training else self.colour
        return Curve(x, y, colour, dashed=training, marker=self.marker)


def iter_line_styles(
    colours: Sequence[tuple[str, str]] = COLOURS,
) -> Iterator[LineStyle]:
    """Yield different line styles without end: the marker changes when all `colours` are used."""
    for number in itertools.count():
        yield from (LineStyle(*pair, get_marker(number)) for pair in colours)


def get_marker(number: int) -> str:
    """Return the marker `number` of `MARKERS`; after the last one, the markers are numbers."""
    return [*MARKERS][number] if number < len(MARKERS) else f"${number + 1}$"


def choose_line_styles(names: Sequence[str], numbers: Mapping[str, int]) -> dict[str, LineStyle]:
    """Return the line style of each run name in `names`.

    The colour depends only on the run's number, see `runs.number_runs`. If several runs in `names`
    have the same colour, all except the first have a marker.
    """
    styles, used = {}, Counter()
    for name in names:
        hue = numbers[name] % len(COLOURS)
        styles[name] = LineStyle(*COLOURS[hue], get_marker(used[hue]))
        used[hue] += 1
    return styles


def plot_curves(
    curves: Sequence[Curve],
    y_label: str,
    *,
    zero: bool = False,
    marks: Sequence[tuple[float, str]] = (),
) -> Figure:
    """Plot curves over epochs, and a dotted line for each of the `marks` (epoch, colour).

    `zero` also draws the line y = 0.
    """
    figure, axes = create_plot("epoch", y_label, (6, 3))
    for number, curve in enumerate(curves):
        dots = {"marker": "o", "markersize": 3 if len(curve.x) < 60 else 0}
        draw_curve(axes, curve, f"curve-{number}", **(dots if curve.marker == "o" else {}))
    if zero:
        axes.axhline(0, color=TEXT_COLOUR, linewidth=0.8, alpha=0.6)
    for epoch, colour in marks:
        axes.axvline(epoch, color=colour, linestyle=":", linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return figure
