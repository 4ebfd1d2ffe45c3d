"""The site of one HTML file, opened from the disk."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_own_images import (
    JS_ANSWER,
    POSITION,
    choose_own_photo,
    choose_photo,
    encode,
    make_picture,
)
from tests.browser.test_static_site import open_site as open_site
from tests.browser.test_static_site import site_url as site_url
from tests.browser.test_static_site import wait_for_views
from tests.support.sites import pack_site

JS_REFUSED_WORKER = """window.Worker = class {
  constructor() { throw new DOMException("refused", "SecurityError"); }
};"""


@pytest.fixture(scope="module")
def single_file(exported_site, tmp_path_factory) -> Path:
    """Write the exported site as one HTML file."""
    folder = tmp_path_factory.mktemp("single")
    pack_site(exported_site, folder / "a site.html", folder / "data")
    return folder / "a site.html"


@pytest.fixture
def open_file(browser: Browser) -> Iterator:
    """Return a function that opens a file with a query; script errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    faults: list[str] = []

    def open_file(file: Path, query: str = "", script: str = "") -> Page:
        page = context.new_page()
        page.add_init_script(script)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("requestfailed", lambda request: faults.append(request.url))
        page.goto(f"{file.as_uri()}{query}")
        return page

    yield open_file
    context.close()
    assert faults == []


def test_results_of_an_own_photo_are_those_of_the_site(open_file, open_site, single_file):
    picture = base64.b64encode(encode(make_picture(150, 90))).decode()
    site, page = open_site("model=vit"), open_file(single_file, "?model=vit")
    for name in ("predictions", "attention"):
        arguments = [name, "vit", picture, POSITION]
        found = page.evaluate(JS_ANSWER, arguments)
        assert found["data"] and found == site.evaluate(JS_ANSWER, arguments)


def test_an_own_photo_and_the_recorded_views_are_shown(open_file, single_file):
    page = open_file(single_file, "?model=vit&picture=photo:bus")
    expect(page.locator("#picture .about")).to_contain_text("bus")
    wait_for_views(page)
    assert page.locator("#picture .whole").evaluate("image => image.naturalWidth") > 0
    assert page.locator(".vd-offline").count() == 0
    before = page.locator("#answers").inner_text()
    choose_own_photo(page)
    wait_for_views(page)
    assert page.locator("#answers").inner_text() != before
    page.locator("#picture .crop").focus()
    page.keyboard.press("ArrowRight")
    wait_for_views(page)
    page.locator("#tabs-lessons-tab").click()
    wait_for_views(page)
    expect(page.locator("#tabs-lessons-panel")).to_contain_text("Is the map faithful?")


def test_an_unknown_model_in_the_address_is_named(open_file, single_file):
    page = open_file(single_file, "?model=missing")
    expect(page.locator("#picture .about")).to_contain_text("There is no model 'missing'")
    wait_for_views(page)


def test_a_refused_worker_is_named(open_file, single_file):
    page = open_file(single_file, "?model=vit", JS_REFUSED_WORKER)
    wait_for_views(page)
    choose_photo(page, encode(make_picture(120, 80)))
    expect(page.locator("#picture .say")).to_contain_text("This browser cannot run models")
    expect(page.locator("#attention .title")).to_be_visible()


@pytest.mark.parametrize("part", ["modules", "data"])
def test_half_of_a_file_is_named(open_file, single_file, tmp_path, part):
    text = single_file.read_text("utf-8")
    end = text.index("data:text/javascript") + 1000
    if part == "data":
        end = text.index('id="data/answers/') + 1000
    half = tmp_path / "half.html"
    half.write_text(text[:end], "utf-8")
    expect(open_file(half).locator("body")).to_contain_text("This file is incomplete")
