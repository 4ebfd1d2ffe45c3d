"""Figures of a model's inside: zero is white, classes differ, dots are where numbers put them."""

import itertools

import numpy as np
import pytest

from vitdemo.figures import inside, svg


def test_diverging_colours_are_white_at_zero_and_symmetric():
    colours = inside.diverging(np.array([[-2.0, 0.0], [2.0, 9.0]]), 2.0)
    assert colours.shape == (2, 2)
    assert colours[0, 1].startswith("#f") and len(set(colours[0, 1][1::2])) == 1  # nearly white
    assert colours[1, 0] == colours[1, 1] != colours[0, 0]  # beyond the limit: the limit
    red, _, blue = (int(colours[0, 0][i : i + 2], 16) for i in (1, 3, 5))
    assert blue > red  # purple below zero


def test_colours_of_nothing_are_those_of_zero():
    assert set(inside.diverging(np.zeros(3), 0.0)) == set(inside.diverging(np.zeros(1), 1.0))
    assert inside.sequential(np.array([0.0]), 0.0) == inside.sequential(np.array([0.0]), 1.0)


def contrast(ink, colour):
    def luminance(text):
        channels = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(ink), luminance(colour)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_is_readable_on_every_colour():
    shares = np.linspace(-1, 1, 41)
    colours = [*inside.diverging(shares, 1), *inside.sequential(np.abs(shares), 1)]
    for colour in (*inside.CLASS_COLOURS, *colours):
        assert contrast(inside.ink_on(colour), colour) > 4.5


def test_ten_classes_have_ten_colours():
    distances = [
        sum(abs(int(a[i : i + 2], 16) - int(b[i : i + 2], 16)) for i in (1, 3, 5))
        for a, b in itertools.combinations(inside.CLASS_COLOURS, 2)
    ]
    assert len(distances) == 45 and min(distances) > 60


def test_a_tile_puts_colours_last():
    colours = np.zeros((3, 2, 2))
    colours[0, 1, 0] = 1.0
    assert inside.tile(colours)[1, 0].tolist() == [255, 0, 0]


def test_the_overview_has_each_map_at_its_place():
    similarity = np.zeros((6, 6))
    similarity[3, 1] = 1.0  # the patch at row 2, column 1 resembles that at row 1, column 2
    picture = inside.position_overview(similarity, (2, 3), side=11, limit=1.0)
    assert picture.shape == (5, 11, 3)  # 2 maps of 2 rows and a gap; 3 of 3 columns and 2 gaps
    zero = picture[0, 0].tolist()
    strong = [(i, j) for i in range(5) for j in range(11) if picture[i, j].tolist() != zero]
    gaps = {(i, j) for i in range(5) for j in range(11) if i == 2 or j in (3, 7)}
    assert set(strong) - gaps == {(3, 1)}


def test_the_distance_plot_has_every_dot_line_and_label():
    heads = np.array([[0.1, 0.3, 0.2], [0.4, 0.5, 0.3]])
    figure = inside.distance_plot(heads, even=0.52, top=0.6)
    (axes,) = figure.axes
    assert axes.collections[0].get_offsets().tolist() == [
        [1 + i, heads[i, j]] for i in range(2) for j in range(3)
    ]
    mean, even = axes.lines
    assert np.allclose(mean.get_ydata(), [0.2, 0.4]) and set(even.get_ydata()) == {0.52}
    assert axes.get_ylim() == (0, 0.6)
    assert svg(figure).count("currentColor") > 4
    assert pytest.approx(0.5) == axes.get_xlim()[0]
