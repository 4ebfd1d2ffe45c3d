"""Colours and pixels of the pictures that the page draws."""

import re

import numpy as np
from matplotlib import colormaps

from vitdemo import figures
from vitdemo.figures import Curve
from vitdemo.figures.curves import curve_plot

RED = np.full((4, 4, 3), (255, 0, 0), dtype=np.uint8)


def test_enlarge_keeps_pixels_as_squares():
    picture = np.arange(2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 3)
    large = figures.enlarge(picture, 6)
    assert large.shape == (6, 6, 3)
    assert np.array_equal(large[::3, ::3], picture)
    assert np.array_equal(large[2, 2], picture[0, 0])


def test_colour_map_spans_zero_to_the_maximum():
    drawn = figures.colour_map(np.array([[0.0, 0.25], [0.5, 1.0]]), 4)
    ends = (255 * colormaps["inferno"](np.array([0.0, 1.0]))[:, :3]).round()
    assert np.array_equal(drawn[0, 0], ends[0])
    assert np.array_equal(drawn[-1, -1], ends[1])


def test_colour_map_depends_on_shape_not_on_scale():
    values = np.random.default_rng(0).random((3, 3))
    assert np.array_equal(figures.colour_map(values, 6), figures.colour_map(7 * values, 6))


def test_colour_map_of_zeros_is_black():
    drawn = figures.colour_map(np.zeros((2, 2)), 4)
    assert np.array_equal(drawn[0, 0], (255 * np.array(colormaps["inferno"](0.0)[:3])).round())


def test_brightness_of_the_map_rises_with_the_value():
    drawn = figures.colour_map(np.linspace(0, 1, 16).reshape(1, 16), 16)[0].astype(float)
    luminance = drawn @ (0.2126, 0.7152, 0.0722)
    assert (np.diff(luminance) > 0).all()


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
