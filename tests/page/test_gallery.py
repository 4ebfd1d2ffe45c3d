"""Gallery pages of test images, with and without a dataset."""

import numpy as np
import pytest

from tests.support.factories import make_context, make_run
from vitdemo.analyses.predictions import ImageQuery, load_test_images
from vitdemo.errors import RunError
from vitdemo.metrics.error_selection import Filters
from vitdemo.page.explore.tab import describe_opening
from vitdemo.page.gallery import SHEET_COLUMNS, gallery_payload
from vitdemo.runs import WEIGHTS_FILE

ALL_IMAGES = ImageQuery("first", Filters("all", order="data_set"))


def test_gallery_page_is_clamped_to_the_available_images(tested):
    payloads = [gallery_payload(tested, ALL_IMAGES, page) for page in (1, 3, 4, 10_000)]
    assert [payload["start"] for payload in payloads] == [0, 96, 96, 96]  # 110 images
    assert [len(payload["pictures"]) for payload in payloads] == [48, 14, 14, 14]


def test_gallery_of_unknown_run_and_no_match(tested):
    with pytest.raises(RunError, match="There is no run"):
        gallery_payload(tested, ImageQuery("gone", Filters()))
    no_match = gallery_payload(tested, ImageQuery("first", Filters("errors", low=1.0)))
    assert (no_match["count"], no_match["pictures"], no_match["sheet"]) == (0, [], None)


def test_gallery_payload_contains_one_sheet_and_the_predictions(tested):
    value = gallery_payload(tested, ALL_IMAGES, 3)
    assert (value["count"], value["start"], value["model"]) == (110, 96, "first")
    assert [item["number"] for item in value["pictures"]] == list(range(96, 110))
    last = value["pictures"][-1]
    assert last["true"] == "fly"
    assert [predicted for predicted, _ in last["answers"]] == ["bee", "<b>ant"]
    sheet = value["sheet"]
    assert sheet.exact and sheet.pixels.shape == (2 * 16, SHEET_COLUMNS * 16, 3)
    last_image = load_test_images(tested, tested.find_run("first"), [109])[0]
    assert np.array_equal(sheet.pixels[16:, 80:96], last_image)
    missing = gallery_payload(make_context(*tested.roots), ALL_IMAGES, 3)
    assert missing["sheet"] is None and "--data" in missing["sentence"]
    assert missing["pictures"] == value["pictures"]


def test_images_open_in_the_section_that_suits_the_model(shown, tmp_path):
    (make_run(tmp_path / "gone").path / WEIGHTS_FILE).unlink()
    cases = {
        "vit": {"model": "vit", "unavailable": "", "section": "heads"},
        "resnet": {"model": "resnet", "unavailable": "", "section": "class-attribution"},
        "gone": {"model": None, "unavailable": "gone", "section": "heads"},
    }
    for name, opening in cases.items():
        context = make_context(tmp_path) if name == "gone" else shown
        assert describe_opening(context, name) == opening
