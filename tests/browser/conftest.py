"""Fixtures for tests of the page in a real Chromium; any console error fails the test.

Fixtures with the scope of the package end before the other tests: idle servers would slow them.
"""

import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    expect,
    sync_playwright,
)
from safetensors.torch import load_file

from tests.browser.actions import JS_RECORD, TIMEOUT_MS, open_and_wait, reset_page
from tests.browser.slow_page import SLOWDOWN, SlowPages, slow_down_all
from tests.browser.view_pages import (  # noqa: F401
    kinds_views,
    open_views,
    shown_views,
    view_runs,
    view_server,
    view_tab,
)
from tests.support.factories import RESNET, TIMM_KINDS, make_run, timm_spec
from tests.support.serving import ROOT, serve
from vitdemo import runs
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.lessons import DEFAULT_LANGUAGE, LESSONS_FOLDER, Lesson, fill_facts, read_lessons

# The headless shell renders on the CPU at a third of the cost of the full browser.
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
# A page that is not from a server has no storage.
JS_CLEAR_STORAGE = "if (location.protocol.startsWith('http')) localStorage.clear()"
expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield this machine's browser; raises `FileNotFoundError` if there is none."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise FileNotFoundError("no Chromium on this machine: `apt-get install chromium`")
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="package", autouse=True)
def _slow_pages(request) -> Iterator[SlowPages | None]:
    """Slow pages, if the option `--slow-page` is given."""
    with pytest.MonkeyPatch.context() as patch:
        seed = zlib.crc32(request.config.getoption("seed").encode())
        yield slow_down_all(patch, seed) if request.config.getoption("slow_page") else None


@pytest.fixture(autouse=True)
def _release_slow_pages(_slow_pages) -> Iterator[None]:
    """Throttle only the pages that the current test uses."""
    yield
    if _slow_pages:
        _slow_pages.release()


@pytest.fixture
def slowdown(request) -> int:
    """Factor by which the browser's processor is slower: limits of times are multiplied by it."""
    return SLOWDOWN if request.config.getoption("slow_page") else 1


@pytest.fixture(scope="package")
def page_url(shown_runs):
    """Address of a page over `shown_runs`, without a dataset."""
    with serve("--runs", str(shown_runs), "--data", str(shown_runs / "none")) as address:
        yield address


@pytest.fixture(scope="package")
def browser():
    try:
        with chromium() as browser:
            yield browser
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def visitor(browser):
    """Browser context that all pages share, so that scripts are compiled once."""
    # A headless browser cannot ask for these permissions.
    # Without reduced motion, the path through the layers plays at the first visit.
    return browser.new_context(
        permissions=["clipboard-read", "clipboard-write"], reduced_motion="reduce"
    )


@pytest.fixture(scope="package")
def idle_tabs() -> list[Page]:
    """Empty tabs of `visitor` for reuse: a new tab adds almost half of the cost of a page load."""
    return []


def leave_tab(tab: Page) -> None:
    """Leave the page, so that no script runs, and reset the tab to the state of a new one."""

    def accept(dialog: Dialog) -> None:
        dialog.accept()

    tab.evaluate(JS_CLEAR_STORAGE)
    tab.on("dialog", accept)  # a page with unsaved images asks first
    tab.goto("about:blank")
    tab.remove_listener("dialog", accept)
    tab.mouse.move(-1, -1)
    tab.unroute_all()
    tab.set_extra_http_headers({})
    tab.emulate_media(media="null")


# Functions that load the pages again which the tests of the current module share.
RELOADS: list[Callable[[], None]] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Load shared pages again after a failure, so that the other tests of the module can pass."""
    report = yield
    if report.when == "call" and report.failed:
        for reload in RELOADS:
            with suppress(Error):  # of a page that the test closed; the next tests report it
                reload()
    return report


@contextmanager
def opener(browser, visitor, idle_tabs, *, is_kept: bool = False):
    """Yield a function that opens a page, and then assert that no page reported an error.

    `script` runs before the page's own scripts; `stranger` opens a page in a context of its own.
    Pages without these options reuse idle tabs, but each page is loaded again. What a page has
    saved in the browser is removed with its tab. Pages that are kept for several tests are loaded
    again after a failed test.
    """
    opened, faults = [], []

    def note_error(error: Error) -> None:
        faults.append(str(error))

    def note_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            faults.append(message.text)

    def open_page(
        address: str,
        width: int = 1280,
        scheme: str = "light",
        script: str = "",
        height: int = 900,
        stranger: bool = False,
    ) -> Page:
        is_shared = not (script or stranger)
        if is_shared and idle_tabs:
            page = idle_tabs.pop()
        else:
            page = (
                browser.new_context(reduced_motion="reduce") if stranger else visitor
            ).new_page()
            page.set_default_timeout(TIMEOUT_MS)
            page.add_init_script(JS_RECORD)
            page.add_init_script(script)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.on("pageerror", note_error)
        page.on("console", note_message)
        page.goto(address)
        opened.append((page, is_shared))
        if is_kept:
            RELOADS.append(partial(reload, page, address))
        return page

    def reload(page: Page, address: str) -> None:
        known = len(faults)  # gradio reports the requests that end with the page
        page.unroute_all(behavior="ignoreErrors")
        page.emulate_media(color_scheme="light")
        page.goto(address)
        page.wait_for_function("window.vitdemo?.store?.state.models")
        del faults[known:]

    yield open_page
    if is_kept:
        RELOADS.clear()
    for page, is_shared in opened:
        if page.is_closed():
            continue
        if is_shared:
            page.remove_listener("pageerror", note_error)
            page.remove_listener("console", note_message)
            leave_tab(page)
            idle_tabs.append(page)
        elif page.context is visitor:
            page.evaluate(JS_CLEAR_STORAGE)
            page.close()
        else:
            page.context.close()
    assert faults == []


@pytest.fixture
def serve_runs(tmp_path):
    """Return a function that serves run and image folders and returns the page's address."""
    with ExitStack() as servers:

        def serve_runs(
            runs=tmp_path / "runs", data=tmp_path / "none", *arguments: str, **options
        ) -> str:
            folders = "--runs", str(runs), "--data", str(data)
            return servers.enter_context(serve(*folders, *arguments, **options))

        yield serve_runs


@pytest.fixture
def open_page(browser, visitor, idle_tabs, serve_runs):
    with opener(browser, visitor, idle_tabs) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def open_shared(browser, visitor, idle_tabs):
    """Variant of `open_page` for a page that a module's tests share and restore."""
    with opener(browser, visitor, idle_tabs, is_kept=True) as open_page:
        yield open_page


@pytest.fixture
def page(open_page, page_url) -> Page:
    return open_and_wait(open_page, page_url)


@pytest.fixture(scope="module")
def kept_page(open_shared, page_url) -> Page:
    """Page over `page_url` that stays open for all tests of a module."""
    return open_and_wait(open_shared, page_url)


@pytest.fixture
def shared_page(kept_page) -> Page:
    """Variant of `page` that the tests of a module share; it is reset, but not loaded again."""
    return reset_page(kept_page, "?picture=photo:cat", run="timm")


@pytest.fixture(scope="package")
def kinds(tmp_path_factory):
    """Run folder with all kinds of models, among them "sinks", which attends to few patches."""
    root = tmp_path_factory.mktemp("kinds")
    specs = {name.replace(" ", "-"): spec for name, spec in TIMM_KINDS.items()}
    specs |= {"fourteen": timm_spec(image_size=112), "resnet": RESNET}
    specs |= {"crowded": timm_spec(reg_tokens=90, no_embed_class=True)}
    specs |= {"sinks": timm_spec(image_size=112)}
    for seed, (name, spec) in enumerate(specs.items()):
        make_run(root / name, spec, seed=seed)
    weights = load_file(root / "sinks" / runs.WEIGHTS_FILE)
    weights["blocks.0.attn.qkv.weight"] *= 8
    runs.write_weights(root / "sinks", weights)
    return root


@pytest.fixture(scope="package")
def kinds_url(kinds):
    """Address of a page over the models of `kinds`."""
    with serve("--runs", str(kinds), "--data", str(kinds / "none")) as address:
        yield address


@pytest.fixture(scope="package")
def context_of_kinds(kinds):
    return AppContext([kinds], kinds / "none", torch.device("cpu"))


@pytest.fixture(scope="package")
def look_of(context_of_kinds):
    """Return a function from a run name and an image file to the trace in Python."""
    context = context_of_kinds
    return lambda name, file: context.trace_image(
        context.find_run(name), crop_visible_square(load_image(file), position=0.5)
    )


@pytest.fixture
def photo(tmp_path):
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:32], pixels[32:, :32] = (230, 40, 40), (40, 200, 60)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


INCLUDED_RUNS = ROOT / "assets" / "runs"


@pytest.fixture(scope="module")
def included_lessons(shipped) -> dict[str, Lesson]:
    """Included lessons by name, with the facts of the included runs."""
    loaded, problems = read_lessons(LESSONS_FOLDER / DEFAULT_LANGUAGE)
    assert not problems
    return {lesson.name: fill_facts(lesson, shipped) for lesson in loaded}


@pytest.fixture(scope="package")
def included_url(tmp_path_factory) -> Iterator[str]:
    """Address of a page over the included runs, without a dataset."""
    empty = tmp_path_factory.mktemp("none")
    options = ("--runs", str(INCLUDED_RUNS), "--runs", str(empty), "--data", str(empty))
    with serve(*options) as address:
        yield address
