"""Payloads and tasks of the tab Data, compared with the library."""

import json
import re
import shutil
import time

import numpy as np
import pytest
import torch

from tests.support.factories import make_context, make_run, write_noise_images
from vitdemo.analyses import class_statistics, feature_time, features
from vitdemo.analyses.tsne_file import write_planes
from vitdemo.data import MISSING_DATASET
from vitdemo.errors import DataError
from vitdemo.page.data import augmentation, classes, similar_images
from vitdemo.page.data.classes import examples
from vitdemo.page.data.download import DatasetDownload
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState
from vitdemo.training.recipes import RECIPES

COUNTS = {"train/<b>ant": 5, "train/bee": 2, "test/<b>ant": 9}
PHOTO = ImageRequest("photo:cat")


@pytest.fixture(scope="module")
def context(shown_runs, tmp_path_factory):
    """AppContext with a dataset of 14 images, of which nine are test images."""
    root = write_noise_images(tmp_path_factory.mktemp("data"), COUNTS)
    return make_context(shown_runs, data_root=root)


def make_state(image: ImageRequest | None = PHOTO, **options) -> ViewState:
    return ViewState(image, "", {f"data.{name}": value for name, value in options.items()})


def list_texts(blocks: list) -> list[str]:
    return [block.get("text", "") for block in blocks]


def test_without_a_dataset_the_examples_raise_an_error_and_there_is_no_document(shown):
    with pytest.raises(DataError, match=f"^{MISSING_DATASET}"):
        examples.payload(shown, make_state())
    assert classes.payload(shown, make_state()) == []


def test_folder_with_other_files_is_reported(tmp_path):
    (tmp_path / "notes.txt").write_text("not a dataset")
    foreign = make_context(data_root=tmp_path)
    assert DatasetDownload(foreign).describe()["state"] == "ready"  # nothing can be downloaded
    for payload in (examples.payload, classes.payload):
        with pytest.raises(DataError, match="contains neither"):
            payload(foreign, make_state())


def test_each_class_has_a_row_of_its_test_images(context):
    found = examples.payload(context, make_state())
    assert found["classes"] == ["<b>ant", "bee"]
    assert sorted(found["numbers"][0]) == list(range(9)) and found["numbers"][1] == []
    side, columns = class_statistics.STATISTICS_SIDE, found["columns"]
    assert found["sheet"].pixels.shape == (side, columns * side, 3)
    first = context.open_dataset().load_subset("test", torch.tensor(found["numbers"][0][:1]), side)
    expected = first.images[0].permute(1, 2, 0).numpy()
    assert np.array_equal(found["sheet"].pixels[:, :side], expected)
    assert examples.payload(context, make_state())["numbers"] == found["numbers"]


def test_at_most_ten_images_of_a_class_are_shown(shown_runs, tmp_path):
    counts = {"train/ant": 2, "train/bee": 2, "test/ant": 13, "test/bee": 12}
    many = make_context(shown_runs, data_root=write_noise_images(tmp_path / "many", counts))
    assert [len(row) for row in examples.payload(many, make_state())["numbers"]] == [10, 10]


def test_classes_have_their_counts_and_notes(context):
    blocks = classes.payload(context, make_state())
    assert "test/ has no folder for these classes: bee." in list_texts(blocks)
    rows = next(block for block in blocks if block["kind"] == "Table")["rows"]
    assert [row[0] for row in rows] == ["<b>ant", "bee"]
    assert [cell["value"] for cell in rows[0][1:]] == [5, 9]


def test_recipes_of_available_models_with_augmentation_come_first(tmp_path):
    augmented, plain = "vit-plain-cpu-augmented", "first-steps"
    assert (RECIPES[augmented].policy, RECIPES[plain].policy) == ("trivial", "none")
    available = [make_run(tmp_path / name) for name in (plain, augmented, "of-no-recipe")]
    assert augmentation.order_recipes(available)[:2] == [augmented, plain]
    assert sorted(augmentation.order_recipes(available)) == sorted(RECIPES)
    assert RECIPES[augmentation.order_recipes([])[0]].policy != "none"


def test_augmented_images_depend_on_the_seed_and_the_recipe(context):
    def draw(**options):
        found = augmentation.payload(context, make_state(**options))
        return found, [block["sheet"].pixels for block in found.data if block["kind"] == "ImageRow"]

    recipe = "vit-small-cpu"
    found, images = draw(recipe=recipe, seed=7)
    assert found.controls["data.recipe"]["value"] == recipe
    assert list_texts(found.data)[0] == f"{recipe}: {RECIPES[recipe].summary}."
    assert all(map(np.array_equal, images, draw(recipe=recipe, seed=7)[1]))
    assert not np.array_equal(images[-1], draw(recipe=recipe, seed=8)[1][-1])
    first = augmentation.order_recipes(context.trained_runs())[0]
    assert draw(recipe="gone", seed=None)[0].controls["data.recipe"]["value"] == first


def test_image_that_cannot_be_loaded_is_left_out_of_the_augmentation(context):
    rows = augmentation.payload(context, make_state(None)).data
    assert all(len(block["items"]) == 6 for block in rows if block["kind"] == "ImageRow")


@pytest.mark.parametrize("seed", [-1, 2**31, 0.5])
def test_invalid_seed_raises_an_error(context, seed):
    with pytest.raises(DataError, match=f"The seed is {seed}. Enter a whole number"):
        augmentation.payload(context, make_state(seed=seed))


def test_maps_are_shown_once_the_task_has_computed_them(context):
    state, reports = make_state(features="vit", images=200), []
    before = similar_images.maps_payload(context, state)
    assert {*before.data} == {"message", "is_measuring"}
    assert before.controls["data.features"]["value"] == "vit"
    similar_images.compute_maps(context, state, lambda *report: reports.append(report))
    assert (0, 100, "vit: features of 0 of 9 images") in reports
    assert (0, "vit: t-SNE") in {(total, text) for _, total, text in reports}
    found = similar_images.maps_payload(context, state).data
    planes = features.load_planes(context, context.find_run("vit"), 200)
    assert [plane["name"] for plane in found["planes"]] == ["Raw pixels", "vit"]
    for shown, plane in zip(found["planes"], planes, strict=True):
        np.testing.assert_allclose(shown["places"], plane.places, atol=1e-4)
    sample = planes[0].sample
    assert found["numbers"] == sample.indices.tolist()
    assert found["classes"] == ["<b>ant", "bee"]
    opening = {"source": "test:", "model": "vit", "unavailable": "", "section": "heads"}
    assert found["open"] == opening and not found["sheet"].exact
    json.dumps({**found, "sheet": None})
    other = similar_images.maps_payload(context, make_state(features="vit", images=300))
    assert {*other.data} == {*before.data}


def test_stored_maps_are_shown_without_a_task(shown_runs, tmp_path):
    folder = shutil.copytree(shown_runs, tmp_path / "runs")
    data_root = write_noise_images(tmp_path / "data", COUNTS)
    before = make_context(folder, data_root=data_root)
    run = before.find_run("vit")
    planes = features.load_planes(before, run, features.MAX_SAMPLE_SIZE)
    write_planes(run, planes)
    context = make_context(folder, data_root=data_root)
    found = similar_images.maps_payload(context, make_state(features="vit")).data
    for shown, plane in zip(found["planes"], planes, strict=True):
        np.testing.assert_allclose(shown["places"], plane.places, atol=6e-4)
    assert str(plane.dimension) in str(found["separation"])
    for other in ({"features": "vit", "images": 300}, {"features": "timm"}):
        assert "message" in similar_images.maps_payload(context, make_state(**other)).data


def test_the_time_of_the_maps_is_measured_before_the_start(context, monkeypatch):
    monkeypatch.setattr(feature_time, "PROBE_POINTS", 40)
    state, deadline = make_state(features="resnet", images=400), time.monotonic() + 60
    assert similar_images.maps_payload(context, state).data == {
        "message": similar_images.MEASURING_MESSAGE,
        "is_measuring": True,
    }
    while (data := similar_images.maps_payload(context, state).data)["is_measuring"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert re.search(r"takes? about \d+ (s|min) on this machine", data["message"])


def test_the_time_of_a_map_grows_like_n_log_n():
    speed = feature_time.FeatureSpeed(feature_seconds=0.01, tsne_seconds=0.4)
    work = 2000 * np.log(2000) / (300 * np.log(300)) * 1000 / 250  # more points and iterations
    assert speed.estimate_seconds(2000) == pytest.approx(0.01 * 2000 + 0.4 * work)


def test_neighbours_are_shown_once_the_features_are_computed(context):
    test_image = make_state(ImageRequest("test:3"), features="resnet")
    assert similar_images.neighbours_payload(context, test_image) == {"blocks": []}
    similar_images.compute_neighbours(context, test_image, lambda *report: None)
    found = similar_images.neighbours_payload(context, test_image)
    row = found["blocks"][-1]
    assert row["items"][0]["pick"] == "3"
    assert len(row["items"]) == 8
    assert (found["open"]["model"], found["open"]["section"]) == ("resnet", "class-attribution")


def test_without_a_dataset_payloads_and_tasks_raise_an_error(shown):
    for payload in similar_images.FEATURE.payloads.values():
        with pytest.raises(DataError, match=MISSING_DATASET):
            payload(shown, make_state())
    for task in similar_images.FEATURE.tasks.values():
        with pytest.raises(DataError, match=r"train\.py download"):
            task(shown, make_state(), lambda *report: None)


def test_without_models_the_features_are_raw_pixels(context):
    pixels = make_context(data_root=context.data_root)
    state = make_state(features="", images=200)
    similar_images.compute_maps(pixels, state, lambda *report: None)
    found = similar_images.maps_payload(pixels, state)
    assert [plane["name"] for plane in found.data["planes"]] == ["Raw pixels"]
    assert found.controls["data.features"]["value"] == ""
    assert found.data["open"]["model"] is None
