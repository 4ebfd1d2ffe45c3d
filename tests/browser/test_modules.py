"""The page's modules in the browser: errors with file and line, slow networks, failed requests."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.actions import JS_RECORD, wait_until_drawn
from vitdemo.page.modules import MODULES, NOT_LOADED_MESSAGE, URL


@pytest.fixture
def new_page(visitor):
    """Page whose console errors do not fail the test."""
    page = visitor.new_page()
    page.add_init_script(JS_RECORD)
    yield page
    page.close()


def test_error_in_a_view_names_its_file_and_line(new_page, page_url):
    view = "explore/predictions/view.js"
    lines = MODULES[view].decode().splitlines()
    (at,) = [i for i, line in enumerate(lines) if line.startswith("function drawChosenCard(")]
    lines.insert(at + 1, 'throw new Error("broken");')
    answer = {"body": "\n".join(lines), "content_type": "text/javascript"}
    new_page.route(f"**/{view}", lambda route: route.fulfill(**answer))
    with new_page.expect_event("pageerror") as found:
        new_page.goto(page_url)
    assert "broken" in found.value.message
    assert re.search(rf"/{view}:{at + 2}:\d+", found.value.stack)


def test_page_works_if_gradio_is_faster_than_the_modules(new_page, page_url):
    errors, held = [], []
    new_page.on("pageerror", lambda error: errors.append(error))
    new_page.route("**/store.js", lambda route: held.append(route))
    new_page.goto(page_url, wait_until="commit")
    new_page.locator("#sections [role=tab]").first.wait_for(state="attached")  # drawn by gradio
    new_page.wait_for_timeout(500)
    for route in held:
        route.continue_()
    wait_until_drawn(new_page)
    assert held and not errors


def test_state_can_change_before_the_page_is_connected(new_page, page_url):
    """The views of a store without a connection need no state keys."""
    new_page.goto(page_url)
    wait_until_drawn(new_page)
    read = "async (url) => (await import(url)).listNeeds(['similar_images'])"
    assert new_page.evaluate(read, f"./{URL}/store/views.js?unconnected") == []
    assert len(new_page.evaluate(read, f"./{URL}/store/views.js")) > 1


def test_missing_modules_are_reported(new_page, page_url):
    new_page.route("**/store.js", lambda route: route.abort())
    new_page.goto(page_url)
    expect(new_page.get_by_role("alert").first).to_have_text(NOT_LOADED_MESSAGE)
