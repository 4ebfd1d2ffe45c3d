"""Side by side: several models under the same controls."""

import pytest
from playwright.sync_api import expect

from tests.browser.doing import sources, wait_for_change


@pytest.fixture
def side(page):
    page.get_by_role("tab", name="Side by side").click()
    page.locator("#side-by-side figure").nth(2).wait_for()
    return page


def test_one_of_each_family_stands_there(side):
    place = side.locator("#side-by-side")
    expect(place.locator("h4")).to_have_text(["timm", "vit", "resnet"])
    expect(place).to_contain_text("Attention, layer 2 of 2")
    expect(place).to_contain_text("Attention, layer 3 of 3")
    expect(place).to_contain_text("Grad-CAM for")


def test_one_slider_moves_all_that_have_layers(side):
    before = sources(side, "#side-by-side")
    slider = side.get_by_role("slider", name="Depth").last
    slider.focus()
    slider.press("Home")
    after = wait_for_change(side, "#side-by-side", before)
    kept = [a == b for a, b in zip(after, before, strict=True)]  # pictures, and maps over them
    assert kept == [True, False, True, False, True, True]
    expect(side.locator("#side-by-side")).to_contain_text("Attention, layer 1 of 3")


def test_a_model_can_be_taken_away_and_the_class_chosen(side):
    side.locator("#side-models").get_by_role("checkbox", name="timm").uncheck()
    place = side.locator("#side-by-side")
    expect(place.locator("h4")).to_have_text(["vit", "resnet"])
    side.get_by_role("radio", name="Relevance for a class").check()
    side.get_by_role("listbox", name="Class").or_(side.get_by_label("Class, for")).first.click()
    side.get_by_role("option", name="frog").click()
    expect(place).to_contain_text("Relevance for frog")
    expect(place).to_contain_text("Grad-CAM for frog")
    for name in ("vit", "resnet"):
        side.locator("#side-models").get_by_role("checkbox", name=name).uncheck()
    expect(place).to_contain_text("Choose a model above.")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_window(open_page, page_url, width):
    page = open_page(page_url + "?section=side", width)
    page.locator("#side-by-side figure").nth(2).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
