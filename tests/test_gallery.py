"""Pages of test pictures, with and without the pictures themselves."""

import numpy as np
import pytest
from PIL import Image

from tests.making import bench
from vitdemo.metrics.errors import Filters
from vitdemo.page.components.gallery import COLUMNS, Gallery, page_of
from vitdemo.predictions import Query

ALL = Query("first", Filters("all", order="data_set"))


@pytest.fixture(scope="module")
def workbench(tested_runs):
    return bench(tested_runs[0], data_root=tested_runs[1])


def test_turning_stays_within_what_there_is(workbench):
    pages = [page_of(workbench, ALL, start) for start in (-48, 0, 96, 144, 10_000)]
    assert [page.start for page in pages] == [0, 0, 96, 96, 96]  # of 110
    assert [len(page.numbers) for page in pages] == [48, 48, 14, 14, 14]


def test_nothing_and_a_run_that_is_gone(workbench):
    assert page_of(workbench, None) is None
    assert "There is no run" in page_of(workbench, Query("gone", Filters()))
    nobody = page_of(workbench, Query("first", Filters("errors", low=1.0)))
    assert Gallery().drawn(nobody)["count"] == 0


def test_the_browser_gets_one_sheet_and_what_the_models_answered(workbench):
    page = page_of(workbench, ALL, 96)
    value = Gallery().drawn(page)
    assert (value["count"], value["start"], value["model"]) == (110, 96, "first")
    assert [picture["number"] for picture in value["pictures"]] == list(range(96, 110))
    last = value["pictures"][-1]
    assert last["true"] == "fly"
    assert [predicted for predicted, _ in last["answers"]] == ["bee", "<b>ant"]
    with Image.open(value["sheet"].path) as sheet:
        assert sheet.size == (COLUMNS * 16, 2 * 16)
        assert np.array_equal(np.asarray(sheet)[16:, 80:96], page.pictures[13])
    missing = Gallery().drawn(page_of(bench(*workbench.roots), ALL, 96))
    assert missing["sheet"] is None and "--data" in missing["sentence"]
    assert missing["pictures"] == value["pictures"]
