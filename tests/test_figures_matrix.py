"""The matrix to keep: its cells, colours and words."""

import io

import numpy as np
import pytest
from PIL import Image

from vitdemo.figures.matrix import DPI, matrix_figure, png

COUNTS = np.array([[90, 10], [4, 6]])
NAMES = ["$cat$", "<b>"]  # folders' names are no markup


def texts(values):
    return [[str(value) for value in row] for row in values]


def draw(values=COUNTS, names=NAMES, **options):
    return matrix_figure(values, texts(values), names, "a title", "pictures", **options)


def test_every_cell_has_its_number_and_every_class_its_name():
    axes = draw().axes[0]
    assert {t.get_position(): t.get_text() for t in axes.texts} == {
        (0, 0): "90", (1, 0): "10", (0, 1): "4", (1, 1): "6"
    }  # fmt: skip
    assert [t.get_text() for t in axes.get_yticklabels()] == NAMES
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")


def test_colours_span_the_errors():
    image = draw().axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (0, 10)


def test_a_difference_is_symmetric_around_zero():
    image = draw(np.array([[-3, 3], [-7, 7]]), signed=True).axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (-7, 7)
    red, _, blue, _ = image.cmap(1.0)
    assert red > blue  # orange is more


@pytest.mark.parametrize("values", [np.diag([3, 4]), np.zeros((2, 2)), np.array([[5]])])
def test_a_matrix_without_errors_is_drawn(values):
    assert png(draw(values, NAMES[: len(values)]))[:4] == b"\x89PNG"


def test_the_picture_has_twice_a_screens_pixels():
    figure = draw()
    wanted = DPI * figure.get_size_inches()
    size = Image.open(io.BytesIO(png(figure))).size
    assert np.abs(wanted - size).max() <= 1  # matplotlib's versions round differently


def test_many_classes_have_no_numbers():
    values = np.ones((30, 30), int)
    assert not draw(values, [str(i) for i in range(30)]).axes[0].texts
