"""Option `--slow-page`: the browser tests on a slow machine with a slow network.

A test that expects a state which soon passes, or reads a value before the page has drawn it, fails
in this mode and passes on a fast machine.
"""

import functools
import itertools
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
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


def slow_down(page: Page, seed: int) -> None:
    """Throttle the processor of `page`, and delay all responses that it receives."""
    script = JS_DELAY_RESPONSES.replace("SEED", str(seed)).replace("MAX)", f"{MAX_DELAY_MS})")
    page.add_init_script(script)
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})


def slow_down_all(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Slow down all pages that are opened from now on, and pause before each `expect`."""
    for opener in (Browser, BrowserContext):
        patch.setattr(opener, "new_page", slow_opener(opener.new_page, seed))
    for kind in (LocatorAssertions, PageAssertions):
        for name, assertion in [*vars(kind).items()]:
            if name.startswith(("to_", "not_to_")):
                patch.setattr(kind, name, late(assertion))


def slow_opener(open_page: Callable[..., Page], seed: int) -> Callable[..., Page]:
    """Return `open_page` with slow pages, each with delays of its own."""
    seeds = itertools.count(seed)

    @functools.wraps(open_page)
    def open_slow_page(*args, **options) -> Page:
        page = open_page(*args, **options)
        slow_down(page, next(seeds))
        return page

    return open_slow_page


def late(assertion: Callable) -> Callable:
    """Return `assertion` with a pause before it."""

    @functools.wraps(assertion)
    def assert_later(*args, **options):
        time.sleep(PAUSE_SECONDS)
        return assertion(*args, **options)

    return assert_later
