"""The user's test set in the Results tab: upload, menu, and the payloads of all sections."""

import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.factories import make_context, make_run, noise
from vitdemo.errors import DataError, RunError, Stopped
from vitdemo.page import results
from vitdemo.page.bridge import load_square
from vitdemo.page.feature import ViewData
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.results import test_set
from vitdemo.page.results.models import SAME_MODEL
from vitdemo.page.results.test_set import TestSetSession, make_feature
from vitdemo.page.view_state import ViewState
from vitdemo.test_sets.evaluation import compare_test_sets

CLASS_COUNTS = {"cat": 4, "dog": 3}


@pytest.fixture
def archive(tmp_path):
    """Zip file of noise images, and a text file that is skipped."""
    path = tmp_path / "group.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, count in CLASS_COUNTS.items():
            for i in range(count):
                image = tmp_path / "image.png"
                noise(10 * len(file.namelist()) + i).save(image)
                file.write(image, f"group/{name}/{i}.png")
        file.writestr("group/cat/notes.txt", "none")
    return path


@pytest.fixture
def page(tmp_path, archive, monkeypatch):
    """Functions of the page for the runs "one" and "two", and for uploads of the current user."""
    monkeypatch.setattr(test_set, "are_uploads", lambda paths: True)
    for seed, name in enumerate(("one", "two")):
        make_run(tmp_path / "runs" / name, seed=seed)
    context = make_context(tmp_path / "runs")
    session = TestSetSession()
    own = make_feature(lambda: session, for_all=True)
    payloads = {**results.FEATURE.payloads, **own.payloads}

    def read(view: str, **options) -> ViewData | dict | list:
        options = {"results.tests": "Group 2", "results.model": "one"} | {
            key.replace("__", "."): value for key, value in options.items()
        }
        return payloads[view](context, ViewState(None, "one", options))

    def add(**fields):
        return own.actions["tests.add"](context, ViewState(None, "one"), fields)

    def evaluate(report=lambda *step: None):
        state = ViewState(None, "one", {"results.tests": "Group 2"})
        own.tasks["tests.evaluate"](context, state, report)

    return SimpleNamespace(
        context=context, session=session, own=own, read=read, add=add, evaluate=evaluate
    )


@pytest.fixture
def tested(page, archive):
    page.add(paths=[str(archive)], name="Group 2")
    page.evaluate()
    return page


def test_an_upload_is_chosen_and_its_models_wait_for_evaluation(page, archive):
    assert page.add(paths=[str(archive)], name="  Group  2 ") == ["test_set"]
    found = page.read("test_set", results__tests="")
    assert found.controls["results.tests"]["value"] == "Group 2"
    assert found.data["summary"] == "7 images of 2 classes: cat, dog."
    assert found.data["pending"] == 2
    assert found.data["problems"] == [
        "Skipped 1 file without an image suffix: group/cat/notes.txt."
    ]
    with pytest.raises(RunError, match="No model has been evaluated on 'Group 2' yet"):
        page.read("class_metrics")
    assert page.read("test_set", results__tests="").controls["results.tests"]["value"] == ""


def test_all_sections_show_the_chosen_test_set(tested):
    assert "of 7 test images" in tested.read("class_metrics").data["summary"][0]["text"]
    matrix = tested.read("confusion_matrix").data
    assert np.array(matrix["values"]).sum() == 7
    images = tested.read("errors_images", errors__kind="all")
    assert images["count"] == 7
    assert images["sheet"].pixels.shape[1] == 8 * 96
    (tests,) = tested.context.test_sets.list()
    source = images["pictures"][0]["image"]["source"]
    assert source == f"set:{tests.id}:{images['pictures'][0]['number']}"
    square = load_square(tested.context, ImageRequest(source))
    assert square.info["true class"] in CLASS_COUNTS
    kinds = tested.read("errors_kinds").data
    assert [chip["count"] for chip in kinds["chips"] if chip["pick"] == "all"] == [7]
    assert "one (original test set)" in str(tested.read("calibration"))
    scatter = tested.read("model_scatter")
    assert {model["name"] for model in [*scatter["models"], *scatter["failed"]]} == {"one", "two"}
    accuracy = compare_test_sets(tested.context, tests)[0].accuracy
    assert f"{100 * accuracy:.2f}" in str(tested.read("models_table"))
    (table,) = tested.read("test_set").data["comparison"]  # both accuracies
    assert "85.7" in str(table)  # 75% of the cats and all dogs are correct: (4 * 75 + 3 * 100) / 7
    other_model = tested.read("paired_test", results__other="two")
    assert other_model[0]["text"] == "one and two on the same images"
    assert tested.read("class_metrics", results__tests="").data["summary"][0]["text"].count("200")


def test_one_model_is_compared_on_both_test_sets(tested):
    compared = {"results__other": SAME_MODEL}
    metrics = tested.read("class_metrics", **compared)
    assert metrics.data["plot"]["models"] == ["one", "one (original test set)"]
    other = metrics.controls["results.other"]
    assert (other["value"], other["props"]["groups"][0]) == (
        SAME_MODEL,
        ("This model", [SAME_MODEL]),
    )
    blocks = tested.read("paired_test", **compared)
    assert blocks[0]["text"] == "one on Group 2 and on the original test set"
    expected = "(7 images) and 85.7% on the original test images of the same classes (40 images, "
    assert expected in blocks[1]["text"]
    matrix = tested.read("confusion_matrix", **compared).data
    values = np.array(matrix["values"])
    assert (values[0] == 0).all()  # no airplanes were photographed
    assert matrix["texts"][0][0] == "–"
    assert np.allclose(values.sum(1), 0)
    assert matrix["notes"][1] == (
        "The test sets have different sizes, so the cells are differences of percentages."
    )
    cell = tested.read("confusion_cell", **compared, confusion__cell="cat,cat")
    assert cell["images"]["compared"] == []
    # Without a test set, this comparison does not exist.
    original = tested.read("class_metrics", **compared, results__tests="")
    assert original.controls["results.other"]["value"] == ""


def test_cancelling_keeps_finished_models(page, archive):
    page.add(paths=[str(archive)], name="Group 2")

    def cancel(done, total, text):
        if done > 7:
            raise Stopped

    with pytest.raises(Stopped):
        page.evaluate(cancel)
    assert page.read("test_set").data["pending"] == 1


def test_a_removed_test_set_leaves_the_menu(tested):
    state = ViewState(None, "one", {"results.tests": "Group 2"})
    assert tested.own.actions["tests.remove"](tested.context, state, {}) == ["test_set"]
    found = tested.read("test_set")
    assert found.data["name"] == found.controls["results.tests"]["value"] == ""
    assert found.controls["results.tests"]["props"] == {"groups": [], "warning": ""}
    with pytest.raises(RunError, match="'Group 2' no longer exists"):
        tested.read("class_metrics")


def test_an_unknown_test_set_is_reported(tested):
    tested.read("test_set")  # chooses the new test set
    state = ViewState(None, "one", {"results.tests": "Group 3"})
    found = tested.own.payloads["test_set"](tested.context, state)
    assert found.controls["results.tests"]["value"] == ""
    warning = found.controls["results.tests"]["props"]["warning"]
    assert warning == "There is no test set 'Group 3', so the original test set is shown."


def test_equal_names_get_numbers(page, archive):
    for _ in range(2):
        page.add(paths=[str(archive)], name="Group 2")
    page.add(paths=[str(archive)], name="\x00")
    names = [tests.name for tests in page.context.test_sets.list()]
    assert names == ["Group 2", "Group 2 (2)", "My test set"]


def test_invalid_uploads_are_refused_with_a_reason(page, tmp_path, archive, monkeypatch):
    wrong = tmp_path / "wrong.zip"
    with zipfile.ZipFile(wrong, "w") as file:
        file.write(tmp_path / "image.png", "pens/0.png")
    text = tmp_path / "text.zip"
    text.write_text("no zip")
    for fields, message in (
        ({"paths": [str(wrong)]}, "does not have pens"),
        ({"paths": [str(text)]}, "zip file cannot be read"),
        ({"paths": []}, "already deleted"),
        ({"paths": [1]}, "already deleted"),
        ({"paths": [str(archive)], "folders": []}, "number of folders"),
        ({"paths": [str(archive)], "folders": ["cat"]}, "No image was found"),
    ):
        with pytest.raises(DataError, match=message):
            page.add(**fields)
    monkeypatch.setattr(test_set, "MAX_TEST_SETS", 0)
    with pytest.raises(DataError, match="The limit is 0 test sets"):
        page.add(paths=[str(archive)])


def test_a_folder_is_a_test_set_too(page, tmp_path):
    folder = tmp_path / "pets" / "cat"
    folder.mkdir(parents=True)
    noise(5).save(folder / "a.png")
    page.add(paths=[str(folder / "a.png")], folders=["pets/cat"], name="Pets")
    (tests,) = page.context.test_sets.list()
    assert (len(tests), tests.tested_classes) == (1, ["cat"])
