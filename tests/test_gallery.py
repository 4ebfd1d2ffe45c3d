"""Gallery pages of test images, with and without a dataset."""

import numpy as np
import pytest
from PIL import Image

from tests.factories import make_context
from vitdemo.analyses.predictions import ImageQuery
from vitdemo.metrics.error_selection import Filters
from vitdemo.page.components.gallery import SHEET_COLUMNS, Gallery, load_gallery_page

ALL_IMAGES = ImageQuery("first", Filters("all", order="data_set"))


@pytest.fixture(scope="module")
def context(tested_runs):
    return make_context(tested_runs[0], data_root=tested_runs[1])


def test_gallery_page_start_is_clamped_to_the_available_images(context):
    pages = [load_gallery_page(context, ALL_IMAGES, start) for start in (-48, 0, 96, 144, 10_000)]
    assert [page.start for page in pages] == [0, 0, 96, 96, 96]  # 110 images
    assert [len(page.numbers) for page in pages] == [48, 48, 14, 14, 14]


def test_gallery_without_query_unknown_run_and_no_match(context):
    assert load_gallery_page(context, None) is None
    assert "There is no run" in load_gallery_page(context, ImageQuery("gone", Filters()))
    no_match = load_gallery_page(context, ImageQuery("first", Filters("errors", low=1.0)))
    assert Gallery().to_payload(no_match)["count"] == 0


def test_gallery_payload_contains_one_sheet_and_the_predictions(context):
    page = load_gallery_page(context, ALL_IMAGES, 96)
    value = Gallery().to_payload(page)
    assert (value["count"], value["start"], value["model"]) == (110, 96, "first")
    assert [item["number"] for item in value["pictures"]] == list(range(96, 110))
    last = value["pictures"][-1]
    assert last["true"] == "fly"
    assert [predicted for predicted, _ in last["answers"]] == ["bee", "<b>ant"]
    with Image.open(value["sheet"].path) as sheet:
        assert sheet.size == (SHEET_COLUMNS * 16, 2 * 16)
        assert np.array_equal(np.asarray(sheet)[16:, 80:96], page.images[13])
    missing = Gallery().to_payload(load_gallery_page(make_context(*context.roots), ALL_IMAGES, 96))
    assert missing["sheet"] is None and "--data" in missing["sentence"]
    assert missing["pictures"] == value["pictures"]
