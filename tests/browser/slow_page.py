"""Option `--slow-page`: the browser tests on a slow machine with a slow network.

A test that expects a state which soon passes, or reads a value before the page has drawn it, fails
in this mode and passes on a fast machine.
"""

import functools
import inspect
import itertools
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import (
    CDPSession,
    LocatorAssertions,
    Page,
    PageAssertions,
)

SLOWDOWN = 4  # of the browser's processor
PAUSE_SECONDS = 0.6  # before each `expect`
MAX_DELAY_MS = 800  # of each response

# Delays responses by 0 to MAX ms, and keeps the order of those that arrive in gradio's stream.
# mulberry32 (Tommy Ettinger, public domain) repeats the same delays for the same seed.
JS_DELAY_RESPONSES = """((seed, max) => {
    const random = () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
    const wait = () => new Promise((done) => setTimeout(done, max * random()));
    const text = new TextDecoder();
    const delayed = () => new TransformStream({
        async transform(part, controller) {
            if (text.decode(part).includes("process_completed")) await wait();
            controller.enqueue(part);
        },
    });
    const send = window.fetch;
    window.fetch = async (input, init) => {
        const url = String(input.url ?? input);
        const response = await send(input, init);
        if (url.includes("/queue/join")) return response;
        if (!url.includes("/queue/data")) await wait();
        else if (response.body) {
            const { status, headers } = response;
            return new Response(response.body.pipeThrough(delayed()), { status, headers });
        }
        return response;
    };
})(SEED, MAX)"""


class SlowPages:
    """Pages that the current test uses; only these are throttled.

    The browser throttles by waiting actively, so each throttled page takes processor time.
    """

    def __init__(self, seed: int) -> None:
        self.seeds = itertools.count(seed)
        self.sessions: dict[Page, CDPSession] = {}
        self.throttled: list[Page] = []

    def use(self, page: Page) -> None:
        """Throttle the processor of `page`, and delay all responses that it receives."""
        if page in self.throttled:
            return
        self.throttled.append(page)
        if page not in self.sessions:
            script = JS_DELAY_RESPONSES.replace("SEED", str(next(self.seeds)))
            page.add_init_script(script.replace("MAX)", f"{MAX_DELAY_MS})"))
            self.sessions[page] = page.context.new_cdp_session(page)
        self.throttle(page, SLOWDOWN)

    def throttle(self, page: Page, rate: int) -> None:
        self.sessions[page].send("Emulation.setCPUThrottlingRate", {"rate": rate})

    def release(self) -> None:
        """End the throttling of all pages until their next use."""
        for page in self.throttled:
            if not page.is_closed():
                self.throttle(page, 1)
        self.throttled.clear()


def slow_down_all(patch: pytest.MonkeyPatch, seed: int) -> SlowPages:
    """Slow down each page from its first use in a test on, and pause before each `expect`."""
    pages = SlowPages(seed)
    for name, method in get_methods(Page):
        if name not in ("is_closed", "close", "on", "once", "remove_listener"):
            patch.setattr(Page, name, slow(method, pages))
    for kind in (LocatorAssertions, PageAssertions):
        for name, method in get_methods(kind):
            if name.startswith(("to_", "not_to_")):
                patch.setattr(kind, name, late(method))
    return pages


def get_methods(kind: type) -> list[tuple[str, Callable]]:
    """Public methods of a class with their names, without those of its base classes."""
    return [
        (name, value)
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]


def slow(method: Callable, pages: SlowPages) -> Callable:
    """Return `method` of a page that first slows down this page."""

    @functools.wraps(method)
    def use_slow_page(page: Page, *args, **options):
        pages.use(page)
        return method(page, *args, **options)

    return use_slow_page


def late(assertion: Callable) -> Callable:
    """Return `assertion` with a pause before it."""

    @functools.wraps(assertion)
    def assert_later(*args, **options):
        time.sleep(PAUSE_SECONDS)
        return assertion(*args, **options)

    return assert_later
