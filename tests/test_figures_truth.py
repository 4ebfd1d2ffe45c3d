"""Signed maps and the truth meter's curves."""

import numpy as np
import pytest

from vitdemo.figures import Curve, svg
from vitdemo.figures.truth import signed_overlay, signed_scale_bar, truth_plot

BLACK = np.zeros((4, 4, 3), np.uint8)


def test_signed_colours_are_symmetric_about_white():
    values = np.array([[-2.0, 0.0], [1.0, 2.0]])
    drawn = signed_overlay(BLACK, values, 4, opacity=1.0)
    against, none, some, strong = drawn[0, 0], drawn[0, 3], drawn[3, 0], drawn[3, 3]
    assert none.min() > 235  # white: nothing
    assert against[2] > against[0] and strong[0] > strong[2]  # purple, orange
    assert some.astype(int).sum() > strong.astype(int).sum()  # paler, since weaker
    assert np.array_equal(signed_overlay(BLACK, -values, 4, opacity=1.0)[0, 0], strong)


def test_a_map_of_zeros_is_white_and_opacity_shows_the_picture():
    zeros = signed_overlay(BLACK, np.zeros((2, 2)), 8, opacity=1.0)
    assert zeros.shape == (8, 8, 3) and zeros.min() > 235
    assert not signed_overlay(BLACK, np.ones((2, 2)), 8, opacity=0.0).any()


def test_the_scale_bar_runs_from_against_to_for():
    bar = signed_scale_bar(100, 4)
    assert bar.shape == (4, 100, 3)
    assert bar[0, 0, 2] > bar[0, 0, 0] and bar[0, -1, 0] > bar[0, -1, 2]
    ends = signed_overlay(BLACK, np.array([[-1.0, 1.0]]), 4, opacity=1.0)
    assert np.array_equal(bar[0, -1], ends[0, -1])


def test_every_curve_and_the_band_are_drawn_at_their_values():
    x = np.array([0.0, 50.0, 100.0])
    curves = [Curve(x, np.array([90.0, 40.0, 10.0]), "#0a78c2"), Curve(x, x, "#8a98ac", True)]
    figure = truth_plot(curves, (x, x, x - 5, x + 5), "gone, %", "probability, %")
    lines = {line.get_gid(): line for line in figure.axes[0].lines}
    assert lines["truth-0"].get_ydata().tolist() == [90, 40, 10]
    assert lines["truth-1"].get_linestyle() == "--"
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(105) and band[:, 1].min() == pytest.approx(-5)
    text = svg(figure)
    assert "gone, %" in text and "random-band" in text and "#010203" not in text
