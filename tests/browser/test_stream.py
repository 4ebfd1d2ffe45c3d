"""No response is lost if the response stream is slow."""

import pytest
from playwright.sync_api import expect

from tests.browser.actions import choose_model, wait_until_drawn
from tests.support.serving import serve_delayed


@pytest.fixture(scope="module")
def slow_url(page_url):
    with serve_delayed(page_url, 0.3) as address:
        yield address


def test_a_slow_stream_loses_no_response(open_page, slow_url):
    for _ in range(3):  # each page races its requests against the closing stream
        page = open_page(slow_url)
        wait_until_drawn(page)
        expect(page.locator("#answers .card").first).to_be_visible()
    choose_model(page, "vit")
    wait_until_drawn(page, run="vit")


def test_a_model_chosen_while_a_section_opens_is_drawn(open_page, slow_url):
    page = open_page(f"{slow_url}?inside=layers")
    wait_until_drawn(page)
    page.locator("#sections").get_by_role("tab", name="Inside the model").click()
    choose_model(page, "resnet")
    expect(page.locator("#layer-by-layer .vd-notice")).to_contain_text(
        "'resnet' is not a Vision Transformer"
    )


def test_there_is_at_most_one_stream(open_page, page_url):
    """Browsers allow six connections to a server, and an abandoned stream would hold one."""
    page, streams = open_page("about:blank"), []
    page.on("request", lambda r: "/queue/data" in r.url and streams.append(r))
    for end in ("requestfinished", "requestfailed"):  # the client aborts finished streams
        page.on(end, lambda r: r in streams and streams.remove(r))
    page.goto(page_url)
    wait_until_drawn(page)
    for name in ("vit", "timm", "vit"):
        choose_model(page, name)
        wait_until_drawn(page, run=name)
        page.wait_for_timeout(500)
        assert len(streams) <= 1


def test_waiting_requests_show_their_queue_position(page):
    dispatch = "detail => document.dispatchEvent(new CustomEvent('vitdemo:queue', { detail }))"
    estimation = {"msg": "estimation", "event_id": "one", "rank": 3, "rank_eta": 4.2}
    page.evaluate(dispatch, estimation)
    message = page.locator(".vd-waiting")
    expect(message).to_have_count(0)  # only after one second
    expect(message).to_have_text("The server is busy: 3 requests are ahead of yours (about 5 s).")
    page.evaluate(dispatch, estimation | {"rank": 0, "rank_eta": None})
    expect(message).to_have_text("The server is busy: your request is next.")
    page.evaluate(dispatch, {"msg": "process_starts", "event_id": "one"})
    expect(message).to_be_hidden()
    page.evaluate("window.told = []; document.addEventListener('vitdemo:queue', e => told.push(e))")
    for name in ("vit", "timm"):  # the first may already be selected
        choose_model(page, name)
        wait_until_drawn(page, run=name)
    kinds = ["estimation", "process_starts", "process_completed"]
    received = "kinds => kinds.every((kind) => told.some((event) => event.detail.msg === kind))"
    page.wait_for_function(received, arg=kinds)
