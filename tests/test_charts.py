"""`figures.charts`: what is drawn are the numbers that went in."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_hex

from vitdemo import figures
from vitdemo.figures import charts
from vitdemo.metrics.calibration import Reliability
from vitdemo.metrics.paired import McNemar

NAN = float("nan")


def lines(figure):
    return {line.get_gid(): line for line in figure.axes[0].get_lines()}


@pytest.mark.parametrize("steps", [True, False])
def test_square_plot_draws_shares_as_percent(steps):
    curve = figures.Curve([0, 0.25, 1], [0, 0.5, 1], "#112233", dashed=True)
    figure = charts.square_plot([curve], "x", "y", steps=steps, diagonal=not steps)
    line = lines(figure)["curve-0"]
    assert line.get_xdata().tolist() == [0, 25, 100]
    assert line.get_ydata().tolist() == [0, 50, 100]
    assert (line.get_drawstyle() == "steps-post") is steps
    assert len(figure.axes[0].get_lines()) == (1 if steps else 2)


def test_reliability_plot_leaves_empty_bins_out():
    edges, confidence = np.linspace(0, 1, 4), np.array([NAN, 0.5, 0.75])
    found = Reliability(edges, np.array([0, 2, 4]), np.array([0, 1, 2]), confidence)
    right, confidence = np.array([0, 0, 3]), np.array([NAN, NAN, 0.25])
    scaled = Reliability(edges, np.array([0, 0, 6]), right, confidence)
    band = np.array([[NAN, 0.25, 0.5], [NAN, 0.75, 1]])
    figure = charts.reliability_plot(found, band, scaled)
    chance, before, after = figure.axes[0].collections
    assert before.get_offsets().tolist() == [[50, 50], [75, 50]]
    assert before.get_sizes()[0] < before.get_sizes()[1]
    assert after.get_offsets().tolist() == [[25, 50]]
    wanted = [[[50, 25], [50, 75]], [[75, 50], [75, 100]]]
    assert [segment.tolist() for segment in chance.get_segments()] == wanted


def test_confidence_plot_has_shares_of_right_and_of_wrong():
    figure = charts.confidence_plot(np.array([0, 0.5, 1]), np.array([1, 3]), np.array([1, 0]))
    bars = [(b.get_x(), b.get_height(), to_hex(b.get_facecolor())) for b in figure.axes[0].patches]
    right, wrong = charts.RIGHT, charts.WRONG
    assert bars == [(0, 25, right), (50, 75, right), (22.5, 100, wrong), (72.5, 0, wrong)]
    figure = charts.confidence_plot(np.array([0, 1]), np.array([4]), np.array([0]))
    assert [bar.get_height() for bar in figure.axes[0].patches] == [100, 0]  # none is wrong


def test_gains_are_drawn_in_points_and_a_doubtful_one_is_empty():
    long = "weights of a run " * 9
    words = ["better", r"worse $\x$ $a$", long]
    tests = [McNemar(500, a, b, 1000, math.nan) for a, b in ((30, 10), (10, 20), (11, 10))]
    figure = charts.gain_plot(words, tests, [True, True, False])
    dots = [line for gid, line in lines(figure).items() if gid]
    assert [dot.get_xdata()[0] for dot in dots] == pytest.approx([2, -1, 0.1])
    assert [dot.get_marker() for dot in dots] == ["o", "s", "o"]
    assert [dot.get_markerfacecolor() != "none" for dot in dots] == [True, True, False]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert [text.replace("\n", " ") for text in texts] == [each.strip() for each in words]
    assert texts[2].count("\n") == 2
    drawn = figures.svg(figure)  # in which no word of a stranger is taken for a formula
    assert r"worse $\x$ $a$" in drawn
    assert "currentColor" in drawn and figures.INK not in drawn  # the page's text colour


def test_the_truth_meter_draws_every_curve_over_the_band_of_chance():
    x = np.array([0.0, 50.0, 100.0])
    curves = [figures.Curve(x, x[::-1], "#0a78c2"), figures.Curve(x, x, "#8a98ac", dashed=True)]
    figure = charts.truth_plot(curves, (x, x, x - 5, x + 5), "gone, %", "probability, %")
    drawn = lines(figure)
    assert drawn["truth-0"].get_ydata().tolist() == [100, 50, 0]
    assert drawn["truth-1"].get_linestyle() == "--"
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((-5, 105))


def test_the_distance_plot_has_every_dot_and_line():
    heads = np.array([[0.1, 0.3, 0.2], [0.4, 0.5, 0.3]])
    (axes,) = charts.distance_plot(heads, even=0.52, top=0.6).axes
    dots = [[1 + i, heads[i, j]] for i in range(2) for j in range(3)]
    assert axes.collections[0].get_offsets().tolist() == dots
    mean, even = axes.lines
    assert np.allclose(mean.get_ydata(), [0.2, 0.4]) and set(even.get_ydata()) == {0.52}
    assert axes.get_ylim() == (0, 0.6)
