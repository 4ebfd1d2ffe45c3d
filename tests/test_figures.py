"""Colours and pixels of the pictures that the page draws."""

import re

import numpy as np
import pytest
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


@pytest.mark.parametrize("opacity", [0.0, 0.4, 1.0])
def test_overlay_blends_picture_and_map(opacity):
    values = np.array([[0.0, 1.0], [0.5, 0.2]])
    drawn = figures.overlay(RED, values, 8, opacity=opacity).astype(float)
    wanted = (1 - opacity) * figures.enlarge(RED, 8) + opacity * figures.colour_map(values, 8)
    assert np.abs(drawn - wanted).max() <= 0.5


def test_overlay_puts_each_value_over_its_own_patch():
    values = np.zeros((2, 4))
    values[1, 3] = 1
    drawn = figures.overlay(np.zeros((8, 8, 3), np.uint8), values, 8, opacity=1.0)
    bright = drawn.sum(-1) > drawn.sum(-1).min()
    assert bright[4:, 6:].all()
    assert bright.sum() == 8


def test_scale_bar_has_the_colours_of_the_map():
    bar = figures.scale_bar(11, 3)
    assert bar.shape == (3, 11, 3)
    assert np.array_equal(bar[0], figures.colour_map(np.linspace(0, 1, 11)[None], 11)[0])


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
