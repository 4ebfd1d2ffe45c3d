"""Faults of plain gradio that scripts, styles and tests of the page work around.

A failing test means that gradio no longer has the fault: remove the workaround that it names.
"""

import pytest
from playwright.sync_api import expect

from tests.browser.actions import wait_for_frames, wait_until_drawn
from tests.support.serving import serve, serve_delayed

STREAM_DELAY = 1.0  # seconds
ATTEMPTS = 8  # to meet a moment that a busy machine may miss
# Counts the frames that scripts request.
JS_COUNT_FRAMES = """
window.requestedFrames = 0;
const request = window.requestAnimationFrame;
window.requestAnimationFrame = (callback) => {
  window.requestedFrames += 1;
  return request(callback);
};
"""
# Sends events while the first one waits for its response.
JS_ASK_QUICKLY = """async () => {
  for (const number of [1, 2, 3]) {
    ask({ number });
    await new Promise((done) => setTimeout(done, 50));
  }
}"""
# Clicks the fold's label as soon as it is on the page, before the click has a listener.
JS_CLICK_EARLY = """new MutationObserver((_, observer) => {
  const label = document.querySelector("#fold .label-wrap");
  if (!label) return;
  observer.disconnect();
  label.click();
}).observe(document, { childList: true, subtree: true })"""
# Opens the fold, changes its slider to 40 after `frames` frames, and returns the value at the end.
JS_CHANGE_EARLY = """async (frames) => {
  const find = () => document.querySelector("#slider input[type=number]");
  const found = new Promise((done) => {
    new MutationObserver((_, observer) => {
      if (!find()) return;
      observer.disconnect();
      done();
    }).observe(document, { childList: true, subtree: true });
  });
  document.querySelector("#fold .label-wrap").click();
  await found;
  for (let i = 0; i < frames; i++) await new Promise((done) => requestAnimationFrame(done));
  find().value = "40";
  find().dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise((done) => setTimeout(done, 500));
  return find().value;
}"""


@pytest.fixture(scope="module")
def address():
    with serve(program="tests.support.plain_page") as address:
        yield address


@pytest.fixture
def page(open_page, address):
    page = open_page(address)
    page.locator("#kind input").first.wait_for()
    wait_for_frames(page)
    return page


def test_tab_panels_and_groups_have_no_accessible_name(page):
    """Require `gradio/names.js`."""
    for selector in ("[role=tabpanel]", "fieldset"):
        element = page.locator(selector).first
        names = [element.get_attribute(name) for name in ("aria-label", "aria-labelledby")]
        assert names == [None, None] and element.locator("legend").count() == 0


def test_the_container_hides_its_overflow(page):
    """Require `overflow: clip` in `page.css` (gradio-app/gradio#7540)."""
    style = "getComputedStyle(document.querySelector('.gradio-container')).overflowY"
    assert page.evaluate(style) == "hidden"


def test_media_rules_outside_the_container_and_nested_dark_rules_are_changed(page):
    """Require `print.css` in the head, and the style sheets' rules without nested `.dark`."""
    colour = "selector => getComputedStyle(document.querySelector(selector)).color"
    assert page.evaluate(colour, "body") == "rgb(0, 0, 1)"  # of the rule without a media query
    sheets = "[...document.styleSheets].flatMap((s) => [...s.cssRules].map((r) => r.selectorText))"
    assert any(
        f"{text}".startswith(".dark ") and ".outer" in text for text in page.evaluate(sheets)
    )


def test_the_last_of_several_quick_events_has_the_data_of_the_first(page):
    """Require `newest` in `components/shared.js`."""
    received = page.locator("#received textarea")
    page.evaluate(JS_ASK_QUICKLY)
    expect(received).to_have_value("1 1")


def loses_second_response(page) -> bool:
    """Send a request while the stream of the first one closes; return whether it has no response.

    On a busy machine, the request may miss this moment.
    """
    page.locator("#one").click()
    with page.expect_response("**/queue/join**"):
        page.wait_for_timeout(1000 * STREAM_DELAY / 2)  # the server closes the stream
        page.locator("#two").click()
    expect(page.locator("#one-text textarea")).to_have_value("one arrived")
    page.wait_for_timeout(3000 * STREAM_DELAY)
    return page.locator("#two-text textarea").input_value() == ""


def test_a_request_sent_while_the_stream_closes_has_no_response(open_page, address):
    """Require `stream.js`."""
    with serve_delayed(address, STREAM_DELAY) as slow:
        assert any(loses_second_response(open_page(slow)) for _ in range(ATTEMPTS))


def test_a_click_on_a_new_accordion_is_lost(open_page, address):
    """Require the repeated clicks in `lessons/panel/spotlight.js`."""
    page = open_page(address, script=JS_CLICK_EARLY)
    page.locator("#kind input").first.wait_for()
    wait_for_frames(page)
    expect(page.locator("#slider")).to_have_count(0)


def test_an_update_of_hidden_content_undoes_the_first_change_of_the_user(page):
    """Require `pressed` in `gradio/controls.js`, and `wait_for_frames` in tests.

    A script can change new content within a frame. On a slow machine, a user can do so too.
    """
    page.locator("#update").click()
    wait_for_frames(page)
    assert page.evaluate(JS_CHANGE_EARLY, 0) == "20"


def test_a_change_after_three_frames_stays(page):
    page.locator("#update").click()
    wait_for_frames(page)
    assert page.evaluate(JS_CHANGE_EARLY, 3) == "40"


def count_frames(page) -> int:
    """Return the number of frames that the scripts of `page` request in half a second."""
    page.evaluate("requestedFrames = 0")
    page.wait_for_timeout(500)
    return page.evaluate("requestedFrames")


def test_an_idle_page_requests_frames(open_page, address, page_url):
    """Require `idle.js`, without which gradio's page draws all the time."""
    plain = open_page(address, script=JS_COUNT_FRAMES)
    plain.locator("#kind input").first.wait_for()
    page = open_page(page_url, script=JS_COUNT_FRAMES)
    wait_until_drawn(page)
    # Transitions of the first seconds end.
    assert any(count_frames(page) == 0 for _ in range(60))
    assert any(count_frames(plain) > 5 for _ in range(ATTEMPTS))
