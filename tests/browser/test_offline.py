"""The exported site without a network: stored files, updates, and browsers that store little."""

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.test_own_images import choose_own_photo
from tests.browser.test_static_site import wait_for_views
from tests.support.file_server import QuietHandler
from vitdemo.site import offline

QUERY = "?model=vit&source=mean"
NEW_TITLE = "new version"
COMPLETE = re.compile(r"^\s*Available offline: [\d.]+ MB\.\s*$")
MEGABYTES = 1_000_000
JS_SAVE_DATA = 'Object.defineProperty(navigator, "connection", { value: { saveData: true } });'
JS_STORED = """async () => {
  const [name] = await caches.keys();
  const requests = await (await caches.open(name)).keys();
  return requests.map(({ url }) => url);
}"""


class Server:
    """A file server on a fixed port, with the site below the path /a/b/."""

    def __init__(self, site: Path, root: Path):
        (root / "a").mkdir()
        self.folder = Path(shutil.copytree(site, root / "a" / "b"))
        self.handler, self.port, self.server = partial(QuietHandler, directory=str(root)), 0, None
        self.start()

    def start(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), self.handler)
        self.port = self.server.server_port
        Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/a/b/"

    def count_files(self) -> int:
        return len(json.loads((self.folder / "offline.json").read_bytes())["files"])


def update_site(folder: Path) -> None:
    """Change the title of the site, as a new export would."""
    document = folder / "index.html"
    text = document.read_text("utf-8").replace("<title>vitdemo", f"<title>{NEW_TITLE}")
    old = json.loads((folder / "offline.json").read_bytes())["version"]
    for name in ("offline.json", "service-worker.js"):
        (folder / name).unlink()
    version = offline.hash_site(folder, [text])
    document.write_text(text.replace(old, version), "utf-8")

    def write(parent: str, name: str, content: bytes) -> str:
        (folder / parent / name).write_bytes(content)
        return name

    offline.write_service_worker(folder, write, version, "vit")


@pytest.fixture
def server(exported_site, tmp_path) -> Iterator[Server]:
    server = Server(exported_site, tmp_path)
    yield server
    server.stop()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Browser context with a store of its own; script errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    faults: list[str] = []
    context.on("weberror", lambda error: faults.append(str(error.error)))
    yield context
    context.close()
    assert faults == []


def get_line(page: Page) -> Locator:
    return page.locator(".vd-offline")


def read_views(page: Page) -> list[str]:
    """Return the texts of the visible views, which show the first photo."""
    expect(page.locator("#picture .about")).to_contain_text("cat")
    expect(page.locator("#attention .title")).to_be_visible()
    wait_for_views(page)
    return page.locator("[data-view]:visible").all_inner_texts()


def test_the_site_works_without_a_network_after_the_first_visit(context, server):
    page = context.new_page()
    page.goto(f"{server.url}{QUERY}")
    expect(get_line(page)).to_have_text(COMPLETE)
    assert len(page.evaluate(JS_STORED)) == server.count_files() + 1  # and the list
    before = read_views(page)
    page.close()
    server.stop()
    page = context.new_page()
    page.goto(f"{server.url}{QUERY}")
    assert read_views(page) == before
    page.locator("#offers .tiles button").nth(1).click()
    expect(page.locator("#picture .about")).to_contain_text("bus")
    choose_own_photo(page)
    wait_for_views(page)
    page.locator("#tabs-results-tab").click()
    wait_for_views(page)
    expect(page.locator("#tabs-results-panel")).not_to_contain_text("could not be loaded")
    server.start()


def open_and_update(context: BrowserContext, server: Server) -> Page:
    """Open the site, then open its next version, which waits for the first one."""
    page = context.new_page()
    page.goto(f"{server.url}{QUERY}")
    expect(get_line(page)).to_contain_text("Available offline")
    update_site(server.folder)
    page.reload()
    expect(page).to_have_title("vitdemo")
    expect(get_line(page)).to_contain_text("A new version")
    return page


def test_a_new_version_replaces_the_stored_files_when_the_user_asks(context, server):
    page = open_and_update(context, server)
    page.get_by_role("button", name="Load it").click()
    expect(page).to_have_title(NEW_TITLE)
    wait_for_views(page)
    expect(get_line(page)).to_contain_text("Available offline")
    version = json.loads((server.folder / "offline.json").read_bytes())["version"]
    assert [name for name in page.evaluate("caches.keys()") if version not in name] == []


def test_a_new_version_is_shown_after_all_pages_were_closed(context, server):
    open_and_update(context, server).close()
    page = context.new_page()
    page.goto(server.url)
    expect(page).to_have_title(NEW_TITLE)


def test_files_of_another_version_are_not_stored(context, server):
    for file in (server.folder / "data" / "files").iterdir():
        file.write_bytes(b"another version")
    page = context.new_page()
    page.goto(f"{server.url}{QUERY}")
    expect(get_line(page)).to_contain_text(" of ")
    page.wait_for_function("navigator.locks.query().then(({ held }) => !held.length)")
    assert not [url for url in page.evaluate(JS_STORED) if "/data/files/" in url]


def test_only_visited_views_are_stored_to_save_data(context, server):
    page = context.new_page()
    page.add_init_script(JS_SAVE_DATA)
    page.goto(f"{server.url}{QUERY}")
    expect(get_line(page)).to_contain_text("Only visited views are stored")
    wait_for_views(page)
    before = read_views(page)
    page.locator("#offers .tiles button").nth(1).click()
    expect(page.locator("#picture .about")).to_contain_text("bus")
    wait_for_views(page)
    assert len(page.evaluate(JS_STORED)) < server.count_files() / 2
    page.close()
    server.stop()
    page = context.new_page()
    page.goto(f"{server.url}{QUERY}")
    assert read_views(page) == before
    server.start()


@pytest.mark.parametrize(("quota", "message"), [(4, "no space left"), (0.1, "could not store")])
def test_a_full_disk_is_named_and_the_page_works(context, server, quota, message):
    page = context.new_page()
    session = context.new_cdp_session(page)
    origin = server.url.removesuffix("/a/b/")
    settings = {"origin": origin, "quotaSize": quota * MEGABYTES}
    session.send("Storage.overrideQuotaForOrigin", settings)
    page.goto(f"{server.url}{QUERY}")
    expect(get_line(page)).to_contain_text(message)
    page.locator("#offers .tiles button").nth(1).click()
    expect(page.locator("#picture .about")).to_contain_text("bus")
    wait_for_views(page)
