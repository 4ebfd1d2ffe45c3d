"""Curves hold the numbers they were given, and their SVG says them where the pointer is."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from vitdemo.figures import Curve
from vitdemo.figures.curves import Hover, Mark, curve_plot, hover_svg


def test_curve_plot_holds_the_numbers_it_was_given():
    lines = [Curve([1, 2, 3], [0.3, 0.2, 0.1], "#112233"), Curve([1], [0.5], "red")]
    (axes,) = curve_plot(lines, "loss").axes
    for drawn, wanted in zip(axes.get_lines(), lines, strict=True):
        assert list(drawn.get_xdata()) == list(wanted.x)
        assert list(drawn.get_ydata()) == list(wanted.y)
        assert drawn.get_color() == wanted.colour
    assert axes.get_ylabel() == "loss"


@pytest.mark.parametrize("last", [1, 2, 3, 40])
def test_epochs_on_the_axis_are_whole(last):
    epochs = list(range(1, last + 1))
    (axes,) = curve_plot([Curve(epochs, epochs, "red")], "loss").axes
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_a_logarithmic_plot_leaves_out_what_has_no_logarithm():
    (axes,) = curve_plot([Curve([1, 2, 3], [1.0, 0.1, 0.0], "red")], "loss", log=True).axes
    assert axes.get_yscale() == "log"
    (axes,) = curve_plot([Curve([1, 2], [0.0, 0.0], "red")], "loss", log=True).axes
    assert axes.get_yscale() == "linear"  # nothing to draw on the other


def test_marks_stand_where_they_were_put():
    (axes,) = curve_plot([Curve([1, 9], [1, 2], "red")], "%", marks=[Mark(2.5, "blue")]).axes
    mark = axes.get_lines()[-1]
    assert list(mark.get_xdata()) == [2.5, 2.5] and mark.get_color() == "blue"


def strips(text: str) -> list[dict]:
    root = ElementTree.fromstring(re.sub(r'(xlink:)?href="[^"]*"', "", text))
    return [
        {k: float(rect.get(k)) for k in ("x", "width")} | {"words": rect[0].text}
        for rect in root.iter("{http://www.w3.org/2000/svg}rect")
        if rect.get("class") == "vd-hover"
    ]


@pytest.mark.parametrize("log", [False, True])
def test_hover_strips_meet_half_way_and_cover_the_plot(log):
    figure = curve_plot([Curve([1, 2, 4], [0.5, 2.0, 1.0], "red")], "loss", log=log)
    text = hover_svg(figure, [Hover(x, f"<{x}>") for x in (1, 2, 4)])
    found = strips(text)
    assert [strip["words"] for strip in found] == ["<1>", "<2>", "<4>"]
    ends = [strip["x"] + strip["width"] for strip in found]
    assert ends[:2] == pytest.approx([strip["x"] for strip in found[1:]], abs=0.02)
    # The points as matplotlib drew them: `M x y` of the line's path.
    line = re.search(
        r'id="[^"]*curve-0">\s*<path d="M ([\d.]+)[^L]*L ([\d.]+)[^L]*L ([\d.]+)', text
    )
    first, second, third = map(float, line.groups())
    assert ends[0] == pytest.approx((first + second) / 2, abs=0.1)
    assert ends[1] == pytest.approx((second + third) / 2, abs=0.1)


def test_a_plot_without_points_has_no_strips():
    assert strips(hover_svg(curve_plot([], "loss"), [])) == []
