"""Pages of test pictures as HTML, with and without the pictures themselves."""

import base64
import io
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from vitdemo.metrics.errors import Filters
from vitdemo.page import gallery, html
from vitdemo.predictions import Query, find, pictures
from vitdemo.workbench import Workbench

ALL = Query("first", Filters("all", order="data_set"))


@pytest.fixture(scope="module")
def workbench(tested_runs):
    return Workbench([tested_runs[0]], tested_runs[1], torch.device("cpu"))


@pytest.fixture(scope="module")
def place(workbench):
    """A gallery without a page: what it draws does not depend on its components."""
    functions = partial(find, workbench), partial(pictures, workbench)
    return gallery.Gallery(*functions, *[None] * 7)


def decoded(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


@pytest.mark.parametrize(
    ("count", "start", "words"),
    [
        (0, 0, "No picture"),
        (1, 0, "1 picture"),
        (48, 0, "48 pictures"),
        (49, 48, "49 pictures, 49 to 49 shown"),
        (10_000, 48, "10,000 pictures, 49 to 96 shown"),
    ],
)
def test_the_head_says_how_many(count, start, words):
    assert f">{words}<" in gallery.head_html(count, start)


def test_turning_stays_within_what_there_is(place):
    starts = [place.turn(ALL, start, False)[0] for start in (-48, 0, 96, 144, 10_000)]
    assert starts == [0, 0, 96, 96, 96]  # of 110


def test_one_page_needs_no_buttons(place):
    few = Query("first", Filters("errors"))
    assert [update["visible"] for update in place.turn(few, 0, False)[3:]] == [False, False]


def test_a_run_that_is_gone_is_told(place):
    _, head, view, *_ = place.turn(Query("gone", Filters()), 0, False)
    assert "There is no run" in head
    assert view == ""


def test_names_from_folders_are_escaped(place):
    view = place.turn(ALL, 0, True)[2]
    assert "&lt;b&gt;ant" in view
    assert "<b>ant" not in view


def test_small_pictures_are_exact_and_large_ones_small():
    random = np.random.default_rng(0)
    small = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(decoded(html.thumbnail_uri(small))), small)
    ramp = np.linspace(0, 255, 96).astype(np.uint8)
    large = np.repeat(np.repeat(ramp[None, :, None], 96, 0), 3, 2)
    uri = html.thumbnail_uri(large)
    assert uri.startswith("data:image/jpeg")
    assert np.abs(np.asarray(decoded(uri)).astype(int) - large).max() < 12


def test_answers_of_a_missing_data_set_are_a_table(tested_runs, tmp_path):
    workbench = Workbench([tested_runs[0]], tmp_path / "none", torch.device("cpu"))
    place = gallery.Gallery(partial(find, workbench), partial(pictures, workbench), *[None] * 7)
    view = place.turn(ALL, 96, False)[2]
    assert view.count("<tr>") == 1 + 14
    assert '<th scope="row">109</th><td>fly</td><td>bee ' in view
    assert "--data" in view
