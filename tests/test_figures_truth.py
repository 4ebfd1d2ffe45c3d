"""The truth meter's curves."""

import numpy as np
import pytest

from vitdemo.figures import Curve, svg
from vitdemo.figures.truth import truth_plot


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
