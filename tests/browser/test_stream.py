"""No answer is lost where the stream of answers is slower than everything else."""

import pytest
from playwright.sync_api import expect

from tests.browser.doing import sources, wait_for_change
from tests.serving import slowed


@pytest.fixture(scope="module")
def slow_url(page_url):
    with slowed(page_url, 0.3) as address:
        yield address


def test_a_slow_stream_loses_no_answer(open_page, slow_url):
    for _ in range(3):  # each time is a race of ten questions against the stream's closing
        page = open_page(slow_url)
        page.locator("#asked figure").wait_for()
        expect(page.locator("#answers .vd-card").first).to_be_visible()
    before = sources(page, "#asked")
    page.locator("#wall [data-pick='1,3']").click()
    wait_for_change(page, "#asked", before)
    expect(page.locator("#asked h4")).to_contain_text("layer 1, head 3")


def test_there_is_never_a_pile_of_streams(open_page, page_url):
    """A browser has six connections to a page; a stream that is left behind would keep one."""
    page, streams = open_page("about:blank"), []
    page.on("request", lambda r: "/queue/data" in r.url and streams.append(r))
    for end in ("requestfinished", "requestfailed"):  # the client breaks off what has ended
        page.on(end, lambda r: r in streams and streams.remove(r))
    page.goto(page_url)
    page.locator("#asked figure").wait_for()
    for head in (3, 2, 1):
        page.locator(f"#wall [data-pick='1,{head}']").click()
        expect(page.locator("#asked h4")).to_contain_text(f"layer 1, head {head}")
        page.wait_for_timeout(500)
        assert len(streams) <= 1
