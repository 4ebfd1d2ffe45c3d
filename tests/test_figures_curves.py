"""Curves hold the numbers they were given, and every run its style."""

import re

import pytest

from vitdemo import figures
from vitdemo.figures import Curve
from vitdemo.figures.curves import COLOURS, MARKERS, LineStyle, curve_plot, line_styles

NAMES = [f"run {number}" for number in range(40)]


def test_curve_plot_holds_the_numbers_it_was_given():
    lines = [Curve([1, 2, 3], [0.3, 0.2, 0.1], "#112233"), Curve([1], [0.5], "red")]
    (axes,) = curve_plot(lines, "loss").axes
    for drawn, wanted in zip(axes.get_lines(), lines, strict=True):
        assert list(drawn.get_xdata()) == list(wanted.x)
        assert list(drawn.get_ydata()) == list(wanted.y)
        assert drawn.get_color() == wanted.colour
    assert axes.get_ylabel() == "loss"


@pytest.mark.parametrize("last", [1, 2, 40])
def test_epochs_on_the_axis_are_whole(last):
    epochs = list(range(1, last + 1))
    (axes,) = curve_plot([Curve(epochs, epochs, "red")], "loss").axes
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_svg_takes_the_pages_text_colour_and_shares_no_id_with_another():
    plots = [curve_plot([Curve([1, 2], [1, 2], "red")], "loss") for _ in range(2)]
    texts = [figures.svg(plot) for plot in plots]
    first, second = (set(re.findall(r' id="([^"]+)"', text)) for text in texts)
    assert first and not first & second
    assert texts[0].startswith("<svg")
    assert "currentColor" in texts[0] and figures.INK not in texts[0]
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', texts[0])
    assert {a or b for a, b in used} <= first


@pytest.mark.parametrize("count", [1, 7, len(COLOURS) * len(MARKERS)])
def test_no_two_runs_share_a_style(count):
    for shown in (NAMES[:count], NAMES[-count:], NAMES[::-1][:count]):
        found = line_styles(shown, NAMES)
        assert list(found) == shown
        assert len(set(found.values())) == count
    found = line_styles(NAMES, NAMES)  # more runs than styles still have one
    assert set(found) == set(NAMES)
    assert len(set(found.values())) == len(COLOURS) * len(MARKERS)


def test_a_run_keeps_its_colour_whatever_else_is_shown():
    alone = line_styles(["run 4"], NAMES)["run 4"]
    assert line_styles(NAMES[:6], NAMES)["run 4"] == alone == LineStyle(*COLOURS[4], "o")
    both = line_styles(["run 4", "run 10"], NAMES)  # of the same place in the cycle
    assert both["run 4"] == alone and both["run 10"] == LineStyle(*COLOURS[0], "o")


def test_a_larger_marker_stands_on_a_few_points():
    epochs = list(range(100))
    curve = LineStyle("red", "blue", "s").curve(epochs, epochs, training=True)
    (axes,) = curve_plot([curve], "loss").axes
    (line,) = axes.get_lines()
    assert (line.get_color(), line.get_marker(), line.get_markevery()) == ("blue", "s", 10)
    assert list(line.get_ydata()) == epochs
