"""Figures contain exactly the given numbers."""

import math
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex

from vitdemo import figures
from vitdemo.figures import Curve, charts
from vitdemo.figures.curves import COLOURS, LineStyle, choose_line_styles, plot_curves
from vitdemo.figures.matrix import plot_confusion_matrix
from vitdemo.metrics.calibration import ReliabilityDiagram
from vitdemo.metrics.paired import McNemarResult
from vitdemo.metrics.recipe_ablation import AblationGain, RecipeAblation

RUN_NAMES = [f"run {number}" for number in range(40)]
RUN_NUMBERS = {name: number for number, name in enumerate(RUN_NAMES)}
NAN = float("nan")
COUNTS = np.array([[90, 10], [4, 6]])
CLASSES = ["$cat$", "<b>"]  # folder names are not markup


# --- curves --------------------------------------------------------------------------------------


def test_curve_plot_contains_the_given_numbers():
    curves = [Curve([1, 2, 3], [0.3, 0.2, 0.1], "#112233"), Curve([1], [0.5], "red")]
    (axes,) = plot_curves(curves, "loss").axes
    for line, curve in zip(axes.get_lines(), curves, strict=True):
        assert list(line.get_xdata()) == list(curve.x)
        assert list(line.get_ydata()) == list(curve.y)
        assert line.get_color() == curve.colour
    assert axes.get_ylabel() == "loss"


def test_epoch_axis_has_integer_ticks():
    (axes,) = plot_curves([Curve([1, 2], [1, 2], "red")], "loss").axes
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_svg_uses_the_page_text_colour_and_unique_ids():
    plots = [plot_curves([Curve([1, 2], [1, 2], "red")], "loss") for _ in range(2)]
    texts = [figures.figure_to_svg(plot) for plot in plots]
    first, second = (set(re.findall(r' id="([^"]+)"', text)) for text in texts)
    assert first and not first & second
    assert texts[0].startswith("<svg")
    assert "currentColor" in texts[0] and figures.TEXT_COLOUR not in texts[0]
    references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', texts[0])
    assert {a or b for a, b in references} <= first


@pytest.mark.parametrize("count", [1, 7, len(RUN_NAMES)])
def test_no_two_runs_share_a_style(count):
    for shown in (RUN_NAMES[:count], RUN_NAMES[-count:], RUN_NAMES[::-1][:count]):
        styles = choose_line_styles(shown, RUN_NUMBERS)
        assert list(styles) == shown
        assert len(set(styles.values())) == count


def test_run_keeps_its_colour_in_every_selection():
    for shown in (["run 4"], RUN_NAMES[:6], ["run 10", "run 4"], RUN_NAMES):
        style = choose_line_styles(shown, RUN_NUMBERS)["run 4"]
        assert (style.colour, style.lighter) == COLOURS[4]
    both = choose_line_styles(["run 4", "run 10"], RUN_NUMBERS)  # the same colour
    assert [style.symbol for style in both.values()] == ["", "■"]


@pytest.mark.parametrize("marker", ["s", "$7$"])
def test_markers_are_drawn_on_a_subset_of_points(marker):
    epochs = list(range(100))
    curve = LineStyle("red", "blue", marker).curve(epochs, epochs, training=True)
    band = (epochs, epochs, epochs, epochs)
    for plot in (plot_curves([curve], "loss"), charts.plot_faithfulness([curve], band, "", "")):
        line = plot.axes[0].get_lines()[-1]
        assert (line.get_color(), line.get_marker(), line.get_markevery()) == ("blue", marker, 10)
        assert list(line.get_ydata()) == epochs


# --- confusion matrix for download ---------------------------------------------------------------


def draw_matrix(values=COUNTS, names=CLASSES, **options):
    texts = [[str(value) for value in row] for row in values]
    return plot_confusion_matrix(values, texts, names, "pictures", **options)


def test_matrix_figure_labels_every_cell_and_class():
    axes = draw_matrix().axes[0]
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "90", (1, 0): "10", (0, 1): "4", (1, 1): "6"}
    assert [t.get_text() for t in axes.get_yticklabels()] == CLASSES
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")
    many = draw_matrix(np.ones((30, 30), int), [str(i) for i in range(30)])
    assert not many.axes[0].texts  # the cells are too small for numbers


def test_matrix_colours_span_the_errors_or_both_signs():
    image = draw_matrix().axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (0, 10)
    image = draw_matrix(np.array([[-3, 3], [-7, 7]]), signed=True).axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (-7, 7)
    red, _, blue, _ = image.cmap(1.0)
    assert red > blue  # orange means a higher value


@pytest.mark.parametrize("values", [np.diag([3, 4]), np.array([[5]])])
def test_matrix_without_errors_is_drawn(values):
    image = draw_matrix(values, CLASSES[: len(values)]).axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (0, 1)
    assert np.array_equal(image.get_array(), values)


# --- charts --------------------------------------------------------------------------------------


def lines_by_gid(figure):
    return {line.get_gid(): line for line in figure.axes[0].get_lines()}


@pytest.mark.parametrize("steps", [True, False])
def test_ranking_curves_are_drawn_as_fractions(steps):
    curve = Curve([0, 0.25, 1], [0, 0.5, 1], "#112233", dashed=True)
    figure = charts.plot_ranking_curves([curve], "x", "y", steps=steps, diagonal=not steps)
    line = lines_by_gid(figure)["curve-0"]
    assert line.get_xdata().tolist() == [0, 0.25, 1]
    assert line.get_ydata().tolist() == [0, 0.5, 1]
    assert (line.get_drawstyle() == "steps-post") is steps
    assert len(figure.axes[0].get_lines()) == (1 if steps else 2)


def test_reliability_plot_leaves_empty_bins_out():
    edges, confidence = np.linspace(0, 1, 4), np.array([NAN, 0.5, 0.75])
    diagram = ReliabilityDiagram(edges, np.array([0, 2, 4]), np.array([0, 1, 2]), confidence)
    correct, confidence = np.array([0, 0, 3]), np.array([NAN, NAN, 0.25])
    scaled = ReliabilityDiagram(edges, np.array([0, 0, 6]), correct, confidence)
    band = np.array([[NAN, 0.25, 0.5], [NAN, 0.75, 1]])
    figure = charts.plot_reliability(diagram, band, scaled, band)
    chance, _, before, after = figure.axes[0].collections
    assert before.get_offsets().tolist() == [[50, 50], [75, 50]]
    assert before.get_sizes()[0] < before.get_sizes()[1]
    assert after.get_offsets().tolist() == [[25, 50]]
    expected = [[[50, 25], [50, 75]], [[75, 50], [75, 100]]]
    assert [segment.tolist() for segment in chance.get_segments()] == expected


def test_confidence_plot_shows_fractions_of_correct_and_incorrect():
    figure = charts.plot_confidence(np.array([0, 0.5, 1]), np.array([1, 3]), np.array([1, 0]))
    bars = [(b.get_x(), b.get_height(), to_hex(b.get_facecolor())) for b in figure.axes[0].patches]
    right, wrong = charts.CORRECT_COLOUR, charts.INCORRECT_COLOUR
    assert bars == [(0, 25, right), (50, 75, right), (22.5, 100, wrong), (72.5, 0, wrong)]
    figure = charts.plot_confidence(np.array([0, 1]), np.array([4]), np.array([0]))
    assert [bar.get_height() for bar in figure.axes[0].patches] == [100, 0]  # no errors


def test_gain_plot_uses_percentage_points_and_hollow_insignificant_dots():
    long = "weights of a run " * 9
    changes = ["better", r"worse $\x$ $a$", long]
    tests = [McNemarResult(500, a, b, 1000, math.nan) for a, b in ((30, 10), (10, 20), (11, 10))]
    p_values = (0.001, 0.001, 0.3)
    gains = [
        AblationGain(str(i), (change,), test, p, None)
        for i, (change, test, p) in enumerate(zip(changes, tests, p_values, strict=True))
    ]
    figure = charts.plot_gains(RecipeAblation("base", 0.5, tuple(gains), ()))
    dots = [line for gid, line in lines_by_gid(figure).items() if gid]
    assert [dot.get_xdata()[0] for dot in dots] == pytest.approx([2, -1, 0.1])
    assert [dot.get_marker() for dot in dots] == ["o", "s", "o"]
    assert [dot.get_markerfacecolor() != "none" for dot in dots] == [True, True, False]
    texts = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert [text.replace("\n", " ") for text in texts] == [change.strip() for change in changes]
    assert texts[2].count("\n") == 3
    assert r"worse $\x$ $a$" in figures.figure_to_svg(figure)  # it is not parsed as a formula


def test_gain_plot_shows_the_seed_band_and_gains_of_other_seeds():
    def gain(extra, *changes):  # correct predictions of 1,000, minus the baseline's
        test = McNemarResult(500 + min(extra, 0), max(extra, 0), max(-extra, 0), 1000, 0.0)
        return AblationGain("run", changes, test, 0.0, None)

    seed = "seed: 0 → 1"
    gains = (gain(50, "a"), gain(70, "a", seed), gain(10, seed), gain(-5, "seed: 0 → 2"))
    figure = charts.plot_gains(RecipeAblation("base", 0.5, gains, ()))
    lines = lines_by_gid(figure)
    assert lines["gain-0"].get_xdata()[0] == pytest.approx(5)
    assert lines["again-0"].get_xdata()[0] == pytest.approx(6)  # minus the baseline of that seed
    assert "gain-1" not in lines
    (band,) = (patch for patch in figure.axes[0].patches if patch.get_gid() == "seeds")
    # The baseline's seeds reach 50, 51 and 49.5%; t with 2 degrees of freedom is 4.303.
    half_width = 4.303 * 2**0.5 * 0.7638
    assert band.get_x() == pytest.approx(-half_width, abs=1e-2)
    assert band.get_width() == pytest.approx(2 * half_width, abs=1e-2)


def test_faithfulness_plot_draws_every_curve_over_the_random_band():
    x = np.array([0.0, 50.0, 100.0])
    curves = [Curve(x, x[::-1], "#0a78c2"), Curve(x, x, "#8a98ac", dashed=True)]
    figure = charts.plot_faithfulness(curves, (x, x, x - 5, x + 5), "gone, %", "probability, %")
    lines = lines_by_gid(figure)
    assert lines["truth-0"].get_ydata().tolist() == [100, 50, 0]
    assert lines["truth-1"].get_linestyle() == "--"
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((-5, 105))


def test_distance_plot_contains_every_dot_and_line():
    heads = np.array([[0.1, 0.3, 0.2], [0.4, 0.5, 0.3]])
    (axes,) = charts.plot_attention_distance(heads, even=0.52, top=0.6).axes
    dots = [[1 + i, heads[i, j]] for i in range(2) for j in range(3)]
    assert axes.collections[0].get_offsets().tolist() == dots
    mean, even = axes.lines
    assert np.allclose(mean.get_ydata(), [0.2, 0.4]) and set(even.get_ydata()) == {0.52}
    assert axes.get_ylim() == (0, 0.6)
