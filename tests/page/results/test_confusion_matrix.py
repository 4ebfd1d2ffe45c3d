"""Cells of the confusion matrix: texts, colours and labels."""

import numpy as np
import pytest

from vitdemo.analyses.predictions import comparable_predictions
from vitdemo.page.results import confusion_matrix as drawing
from vitdemo.page.view_state import ViewState
from vitdemo.report.confusion import (
    COUNTS,
    PREDICTED_PERCENTAGES,
    TRUE_PERCENTAGES,
    cell_texts,
    compute_cells,
)

# first: 60 10 0 / 5 25 0 / 4 6 0; second: 66 4 0 / 9 21 0 / 10 0 0


@pytest.fixture(scope="module")
def read(tested):
    group = comparable_predictions(tested, "first")

    def read_group(unit, other=None, errors_only=False):
        return compute_cells(group, "first", other, unit, errors_only)

    return read_group


def test_cell_texts_of_counts_percentages_and_differences(read):
    assert cell_texts(read(COUNTS)) == [["60", "10", "0"], ["5", "25", "0"], ["4", "6", "0"]]
    assert cell_texts(read(TRUE_PERCENTAGES))[2] == ["40.0%", "60.0%", "0.0%"]
    assert cell_texts(read(PREDICTED_PERCENTAGES))[0] == ["87.0%", "24.4%", "–"]
    differences = [["−6", "+6", "0"], ["−4", "+4", "0"], ["−6", "+6", "0"]]
    assert cell_texts(read(COUNTS, "second")) == differences
    assert cell_texts(read(TRUE_PERCENTAGES, "second"))[2] == ["−60.0%", "+60.0%", "0.0%"]
    assert cell_texts(read(COUNTS, errors_only=True))[1] == ["5", "", "0"]


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


def make_state(**options) -> ViewState:
    tab = {"model": "results", "other": "results"}  # all other options belong to the section
    named = {f"{tab.get(name, 'confusion')}.{name}": each for name, each in options.items()}
    return ViewState(None, "", named)


def test_matrix_of_a_model_and_the_difference_to_another(tested):
    found = drawing.matrix_payload(tested, make_state(model="first"))
    assert found.data["texts"][0] == ["60", "10", "0"]
    *found_menus, unit = found.controls.values()
    assert unit["value"] == "count" and len(unit["choices"]) == 3
    menus = [(menu["value"], menu["props"]["groups"]) for menu in found_menus]
    assert menus == [("first", [("Models", ["first", "second"])]), ("", [("Models", ["second"])])]
    both = make_state(model="first", other="second", unit="true", errors_only=True)
    found = drawing.matrix_payload(tested, both)
    assert found.data["texts"][2] == ["−60.0%", "+60.0%", ""]
    assert found.controls["results.other"]["value"] == "second"


def test_invalid_values_are_replaced_by_defaults(tested):
    wanted = drawing.matrix_payload(tested, make_state(model="first"))
    invalid = make_state(model="gone", other="first", unit=3, errors_only="yes")
    found = drawing.matrix_payload(tested, invalid)
    assert found.data == wanted.data
    assert found.controls["results.model"]["value"] == "first"
    assert found.controls["results.other"] == wanted.controls["results.other"]


def test_menus_warn_of_unknown_models(tested):
    def read_warnings(model: str, explored: str, other: str) -> list[str]:
        state = ViewState(None, explored, {"results.model": model, "results.other": other})
        menus = drawing.matrix_payload(tested, state).controls
        return [menus[name]["props"]["warning"] for name in ("results.model", "results.other")]

    assert read_warnings("", "first", "second") == ["", ""]
    # A model is not compared with itself.
    assert read_warnings("first", "gone", "first") == ["", ""]
    gone = "There are no test results of 'gone'."
    assert read_warnings("", "gone", "gone") == [gone, gone]


def test_images_of_a_cell(tested):
    chosen = drawing.cell_payload(tested, make_state(model="first", cell="<b>ant,bee"))
    title = chosen["title"][0]["text"]
    assert title.startswith("True class <b>ant, predicted class bee: 10 images")
    assert chosen["images"]["count"] == 10
    for cell in ("", "bee", "bee,", "bee,wasp"):
        found = drawing.cell_payload(tested, make_state(model="first", cell=cell))
        pairs = [pair["pick"] for pair in found["pairs"]]
        assert pairs == ["pair-0-1", "pair-2-1", "pair-1-0", "pair-2-0"]
    assert found["pairs"][0]["cell"] == "<b>ant,bee"


def test_class_names_of_a_cell_may_contain_commas():
    classes = ("a", "b, c", "c")
    assert drawing.find_cell(classes, "a,b, c") == (0, 1)
    assert drawing.find_cell(classes, "b, c,a") == (1, 0)
    assert drawing.find_cell(classes, "c,c") == (2, 2)
