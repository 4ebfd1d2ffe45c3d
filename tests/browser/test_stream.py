"""No answer is lost where the stream of answers is slower than everything else."""

import pytest
from playwright.sync_api import expect

from tests.browser.doing import choose_model, wait_until_drawn
from tests.serving import slowed


@pytest.fixture(scope="module")
def slow_url(page_url):
    with slowed(page_url, 0.3) as address:
        yield address


def test_a_slow_stream_loses_no_answer(open_page, slow_url):
    for _ in range(3):  # each time is a race of the questions against the stream's closing
        page = open_page(slow_url)
        wait_until_drawn(page)
        expect(page.locator("#answers .card").first).to_be_visible()
    choose_model(page, "vit")
    wait_until_drawn(page, run="vit")


def test_there_is_never_a_pile_of_streams(open_page, page_url):
    """A browser has six connections to a page; a stream that is left behind would keep one."""
    page, streams = open_page("about:blank"), []
    page.on("request", lambda r: "/queue/data" in r.url and streams.append(r))
    for end in ("requestfinished", "requestfailed"):  # the client breaks off what has ended
        page.on(end, lambda r: r in streams and streams.remove(r))
    page.goto(page_url)
    wait_until_drawn(page)
    for name in ("vit", "timm", "vit"):
        choose_model(page, name)
        wait_until_drawn(page, run=name)
        page.wait_for_timeout(500)
        assert len(streams) <= 1
