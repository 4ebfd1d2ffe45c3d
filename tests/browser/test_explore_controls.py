"""Controls of Explore: the layer, sections that are opened early, and stopped tasks."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.actions import (
    JS_HOLD_RESPONSES,
    choose_model,
    fill_slider,
    open_tab,
    release_responses,
    reset_page,
    wait_until_drawn,
    wait_until_idle,
)

LAYER = "#layer input[type=number]"


def test_entered_layer_is_an_integer_of_the_model_in_box_and_url(shared_page):
    page = reset_page(shared_page, "?model=vit", run="vit")
    page.evaluate("vitdemo.store.open('?model=vit&section=inside&inside=one_head')")
    for entered, layer in (("99", 3), ("-3", 1), ("2.4", 2), ("0", 1), ("1.6", 2)):
        fill_slider(page, "#layer", entered)
        expect(page.locator(LAYER)).to_have_value(str(layer))
        page.wait_for_url(re.compile(rf"layer={layer}(&|$)"))


# A layer below 1 is not a choice.
@pytest.mark.parametrize(
    ("written", "layer"), [("99", 3), ("-3", 3), ("0", 3), ("1.6", 2), ("2.4", 2)]
)
def test_layer_of_the_url_is_an_integer_of_the_model(open_views, shown_views, written, layer):
    query = f"picture=photo:cat&model=vit&layer={written}"
    page = open_views(shown_views, "layer+attention", query, is_new=True)
    wait_until_drawn(page, run="vit", layer=layer)
    expect(page.locator(LAYER)).to_have_value(str(layer))
    page.wait_for_url(re.compile(rf"layer={layer}(&|$)"))


def test_layer_is_shown_only_where_a_view_depends_on_it(shared_page):
    page = shared_page
    layer = page.locator(LAYER)
    for section, is_used in (
        ("Attention", False),  # the path through the layers
        ("Why this class?", False),
        ("Fool the model", True),
    ):
        open_tab(page, section)
        expect(layer).to_be_visible() if is_used else expect(layer).to_be_hidden()
    page.evaluate("vitdemo.store.open('?section=inside&inside=one_head')")
    expect(layer).to_be_visible()
    page.evaluate("vitdemo.store.open('?section=inside&inside=diagram')")
    expect(layer).to_be_hidden()
    page.evaluate("vitdemo.store.open('?section=inside&inside=one_head')")
    choose_model(page, "resnet")
    expect(layer).to_be_disabled()


def test_early_click_on_a_section_stays_after_the_first_response(open_page, page_url):
    page = open_page("about:blank", script=JS_HOLD_RESPONSES)
    page.goto(page_url, wait_until="commit")
    section = page.get_by_role("tab", name="Fool the model")
    section.click()
    release_responses(page)
    expect(page.locator("#hands-answers .pairs")).to_be_visible()
    wait_until_idle(page)
    expect(section).to_have_attribute("aria-selected", "true")
    page.wait_for_url(re.compile("section=hands"))
