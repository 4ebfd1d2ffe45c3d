"""The page waits for a server that does not respond, and recovers without being loaded again."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.actions import (
    JS_RECORD,
    choose_model,
    upload,
    wait_for_new_values,
    wait_until_drawn,
)
from tests.browser.conftest import TIMEOUT_MS
from tests.support.relay import Relay


@pytest.fixture
def relay(page_url):
    relay = Relay()
    relay.start(page_url)
    yield relay
    relay.stop()


@pytest.fixture
def lost_page(visitor):
    """Page whose console errors are allowed: the browser reports each failed request."""
    page = visitor.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.add_init_script(JS_RECORD)
    yield page
    page.close()


def test_page_recovers_after_a_restart_of_the_server(
    lost_page, relay, shown_runs, serve_runs, photo
):
    page, errors = lost_page, []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{relay.address}?layer=1&head=2&source=head")
    before = wait_until_drawn(page, run="timm")
    upload(page, photo)
    wait_for_new_values(page, before)
    page.evaluate("window.isSamePage = true")
    relay.stop()
    line = page.locator(".vd-waiting")
    expect(line).to_have_text("Connection lost, trying again.")  # before any action
    choose_model(page, "vit")
    expect(line).to_have_text("Connection lost, trying again.")
    relay.start(serve_runs(shown_runs))  # another process, which does not know the session
    wait_until_drawn(page, run="vit", layer=1, head=2, source="head")
    expect(line).to_be_hidden()
    expect(page.locator("#picture .about")).to_contain_text("Your photo.")
    expect(page.locator("[role=alert], .toast-body")).to_have_count(0)
    assert page.evaluate("isSamePage")
    expect(page).to_have_url(re.compile("head=2.*model=vit"))
    assert errors == []


def test_skeleton_names_the_data_that_it_waits_for(lost_page, relay, page_url):
    page = lost_page
    page.goto(relay.address)
    wait_until_drawn(page)
    relay.stop()
    page.locator("#sections").get_by_role("tab", name="Why this class?").click()
    skeleton = page.locator("#attribution-maps [data-empty]")
    expect(skeleton).to_have_attribute("data-waits", re.compile("Computing the attribution maps"))
    relay.start(page_url)
    expect(page.locator("#attribution-maps figure").first).to_be_visible()
    expect(skeleton).to_have_count(0)


def test_idle_page_sends_no_request(shared_page):
    sent = []
    shared_page.on("request", lambda request: sent.append(request.url))
    shared_page.wait_for_timeout(5000)  # more than two intervals of a lost page
    assert sent == []
