"""Fixtures for tests of views on pages without gradio, which cost a fraction of the whole page.

Tests of gradio's controls, of events and of the real server need the whole page.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.actions import JS_RECORD, TIMEOUT_MS, close_folds, wait_until_idle
from tests.support.factories import make_context
from tests.support.view_server import ViewServer, serve_views

IDLE_FRAMES = 5  # a response and a change of the state each cause the next request within a frame


@pytest.fixture(scope="package")
def view_server() -> Iterator[ViewServer]:
    with serve_views() as server:
        yield server


@pytest.fixture(scope="package")
def kinds_views(view_server, context_of_kinds) -> str:
    """Address of the views over the models of `kinds`."""
    return view_server.add(context_of_kinds)


@pytest.fixture(scope="package")
def shown_views(view_server, shown) -> str:
    """Address of the views over `shown_runs`."""
    return view_server.add(shown)


@pytest.fixture
def view_runs(view_server, tmp_path) -> Callable[[], str]:
    """Return a function that serves the views of the test's folder `runs`, without a dataset."""
    return lambda: view_server.add(make_context(tmp_path / "runs"))


@pytest.fixture(scope="package")
def view_tab(visitor) -> Iterator[tuple[Page, list[str]]]:
    """Tab that all tests of views share, and the growing list of its errors."""
    page, faults = visitor.new_page(), []
    page.set_default_timeout(TIMEOUT_MS)
    page.add_init_script(JS_RECORD)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda each: faults.append(each.text) if each.type == "error" else None)
    yield page, faults
    page.close()


@pytest.fixture
def open_views(view_tab, caplog, request) -> Iterator[Callable[..., Page]]:
    """Return a function that shows elements of a site in the state of a query.

    The elements are given by their ids, as "answers+attention". The document is loaded if another
    one is open, or if it must be new. The tab keeps no data that the views save in the browser.
    """
    (page, faults), failed = view_tab, request.session.testsfailed
    faults.clear()

    def open_views(site: str, ids: str, query: str = "", *, is_new: bool = False) -> Page:
        address = f"{site}/{ids}/"
        page.mouse.move(0, 0)
        page.set_viewport_size({"width": 1280, "height": 900})
        if is_new or page.url.partition("?")[0] != address:
            page.goto(f"{address}?{query}")
        else:
            close_folds(page)
            page.evaluate("drawn.length = 0")
            page.evaluate("query => vitdemo.store.open(query)", f"?{query}")
        wait_until_idle(page, IDLE_FRAMES)
        return page

    yield open_views
    page.unroute_all()
    page.evaluate("localStorage.clear()")
    if request.session.testsfailed > failed:
        page.goto("about:blank")  # the next test loads its document again
    failures = [record.exc_text for record in caplog.get_records("call") if record.exc_info]
    assert not faults + failures, faults + failures
