"""The matrix to keep: its cells, colours and words."""

import io

import numpy as np
import pytest
from PIL import Image

from vitdemo.figures.matrix import DPI, matrix_figure, png

COUNTS = np.array([[90, 10], [4, 6]])
NAMES = ["$cat$", "<b>"]  # folders' names are no markup


def draw(values=COUNTS, names=NAMES, **options):
    texts = [[str(value) for value in row] for row in values]
    return matrix_figure(values, texts, names, "a title", "pictures", **options)


def test_every_cell_has_its_number_and_every_class_its_name():
    axes = draw().axes[0]
    found = {text.get_position(): text.get_text() for text in axes.texts}
    assert found == {(0, 0): "90", (1, 0): "10", (0, 1): "4", (1, 1): "6"}
    assert [t.get_text() for t in axes.get_yticklabels()] == NAMES
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")
    many = draw(np.ones((30, 30), int), [str(i) for i in range(30)])
    assert not many.axes[0].texts  # there is no room for numbers


def test_colours_span_the_errors_and_of_a_difference_both_signs():
    image = draw().axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (0, 10)
    image = draw(np.array([[-3, 3], [-7, 7]]), signed=True).axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (-7, 7)
    red, _, blue, _ = image.cmap(1.0)
    assert red > blue  # orange is more


@pytest.mark.parametrize("values", [np.diag([3, 4]), np.array([[5]])])
def test_a_matrix_without_errors_is_drawn_with_twice_a_screens_pixels(values):
    figure = draw(values, NAMES[: len(values)])
    wanted = DPI * figure.get_size_inches()
    image = Image.open(io.BytesIO(png(figure)))
    assert image.format == "PNG"
    assert np.abs(wanted - image.size).max() <= 1  # matplotlib's versions round differently
