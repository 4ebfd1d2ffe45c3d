"""Figures as SVG within a page."""

import re

from vitdemo import figures
from vitdemo.figures import Curve
from vitdemo.figures.curves import curve_plot


def test_two_figures_on_one_page_share_no_id():
    plots = [curve_plot([Curve([1, 2], [1, 2], "red")], "loss") for _ in range(2)]
    first, second = (set(re.findall(r' id="([^"]+)"', figures.svg(plot))) for plot in plots)
    assert first and not first & second


def test_svg_takes_the_pages_text_colour_and_every_reference_is_met():
    text = figures.svg(curve_plot([Curve([1, 2], [1, 2], "red")], "loss"))
    assert text.startswith("<svg") and "currentColor" in text and figures.INK not in text
    ids = set(re.findall(r' id="([^"]+)"', text))
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert {a or b for a, b in used} <= ids
