"""Cells of the confusion matrix: texts, colours and labels."""

import numpy as np
import pytest

from tests.factories import make_context
from vitdemo.analyses.predictions import comparable_predictions
from vitdemo.page import confusion as drawing
from vitdemo.page.confusion import COUNTS, PREDICTED_PERCENTAGES, TRUE_PERCENTAGES

# first: 60 10 0 / 5 25 0 / 4 6 0; second: 66 4 0 / 9 21 0 / 10 0 0


@pytest.fixture(scope="module")
def read(tested_runs):
    group = comparable_predictions(make_context(tested_runs[0], data_root=tested_runs[1]), "first")

    def read_group(unit, other=None, errors_only=False):
        return drawing.read_matrix(group, "first", other, unit, errors_only)

    return read_group


def test_cell_texts_of_counts_percentages_and_differences(read):
    assert drawing.cell_texts(read(COUNTS)) == [
        ["60", "10", "0"],
        ["5", "25", "0"],
        ["4", "6", "0"],
    ]
    assert drawing.cell_texts(read(TRUE_PERCENTAGES))[2] == ["40.0%", "60.0%", "0.0%"]
    assert drawing.cell_texts(read(PREDICTED_PERCENTAGES))[0] == ["87.0%", "24.4%", "–"]
    differences = [["−6", "+6", "0"], ["−4", "+4", "0"], ["−6", "+6", "0"]]
    assert drawing.cell_texts(read(COUNTS, "second")) == differences
    assert drawing.cell_texts(read(TRUE_PERCENTAGES, "second"))[2] == ["−60.0%", "+60.0%", "0.0%"]
    assert drawing.cell_texts(read(COUNTS, errors_only=True))[1] == ["5", "", "0"]


def test_most_frequent_error_has_the_strongest_colour(read):
    strengths = drawing.colour_strengths(read(COUNTS))
    errors = np.where(np.eye(3), 0, strengths)
    assert errors.max() == errors[2, 1] == 1  # 60% of the class fly
    assert strengths[0, 0] == pytest.approx(60 / 70)
    assert drawing.colour_strengths(read(COUNTS, errors_only=True)).diagonal().tolist() == [0, 0, 0]
    difference = read(COUNTS, "second")
    strengths = drawing.colour_strengths(difference)
    assert (np.sign(strengths) == np.sign(difference.values)).all()
    assert np.abs(strengths).max() == 1


def test_cell_labels_for_screen_readers(read):
    assert drawing.cell_label(read(PREDICTED_PERCENTAGES), 0, 1) == (
        "true class <b>ant, predicted class bee: 10 images, 24.4% of all images predicted as bee"
    )
    assert drawing.cell_label(read(PREDICTED_PERCENTAGES), 0, 2) == (
        "true class <b>ant, predicted class fly: 0 images"
    )
    assert drawing.cell_label(read(COUNTS, "second"), 1, 1) == (
        "true class bee, predicted class bee: 25 images for first, 21 for second"
    )
    assert drawing.plural_class_name("cat") == "cats"


def test_chosen_cell_and_pairs_use_the_same_keys(read):
    payload = drawing.confusion_payload(read(COUNTS), ("<b>ant", "bee"))
    assert payload.cell == (0, 1)
    assert list(payload.pairs) == ["0-1", "2-1", "1-0", "2-0"]
