"""Servers behind nginx with docs/nginx.conf: sessions, and a path prefix."""

import re
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    get_last_draw,
    unfold,
    upload,
    wait_for_new_values,
    wait_until_drawn,
)
from tests.support.factories import make_history_record, make_run
from tests.support.serving import free_port, run_server, serve
from vitdemo import runs
from vitdemo.page.modules import MODULES, URL

NGINX_CONFIG = Path(__file__).parents[2] / "docs" / "nginx.conf"


@contextmanager
def run_nginx(folder: Path, ports: dict[str, str], prefix: str = "/"):
    """Yield the address of nginx, with free ports instead of the ports in docs/nginx.conf.

    With a path `prefix`, nginx passes requests on without the prefix.
    """
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("no nginx on this machine: `apt-get install nginx-light` to test with it")
    own_port = str(free_port())
    text = NGINX_CONFIG.read_text().replace("/tmp/", f"{folder}/")
    text = re.sub("|".join([*ports, "8080"]), lambda m: (ports | {"8080": own_port})[m[0]], text)
    if prefix != "/":
        root = "location = / { return 204; }"  # the response for which `run_server` waits
        text = text.replace("location / {", f"{root}\n        location {prefix} {{")
        text = text.replace("proxy_pass http://pages;", "proxy_pass http://pages/;")
    (folder / "nginx.conf").write_text(text)
    command = [program, "-c", str(folder / "nginx.conf"), "-p", str(folder), "-g", "daemon off;"]
    with run_server(command, int(own_port), folder, {}, 30) as address:
        yield address


def open_on_both_servers(open_page, address: str) -> dict[str, Page]:
    """Return {server: empty page} for two visitors whose cookies lead to different servers."""
    pages = {}
    for _ in range(30):  # half of the visitors get the second server
        page = open_page("about:blank", stranger=True)
        server = page.context.request.get(address).headers["x-page"]  # sets the visitor's cookie
        pages.setdefault(server, page)
        if len(pages) == 2:
            return pages
    raise AssertionError("30 visitors, one server")


def open_and_record_servers(page: Page, address: str) -> set[str]:
    """Open the address and return the growing set of servers that respond."""
    servers = set()
    page.on("response", lambda r: servers.update({r.headers.get("x-page")} - {None}))
    page.goto(address)
    wait_until_drawn(page)
    return servers


def test_session_stays_with_its_server_when_the_other_ends(open_page, photo, tmp_path):
    run = make_run(tmp_path / "runs" / "vit", epochs=2)
    (run.path / runs.EVALUATION_FILE).unlink()  # the page updates only unfinished runs
    options = ["--runs", str(run.path.parent), "--data", str(tmp_path / "none")]
    with ExitStack() as outer, ExitStack() as first, ExitStack() as second:
        owners = {
            re.search(r":(\d+)/", stack.enter_context(serve(*options)))[1]: stack
            for stack in (first, second)
        }
        ports = dict(zip(("7861", "7862"), owners, strict=True))
        address = outer.enter_context(run_nginx(tmp_path, ports))
        (ended, lost_page), (kept, page) = open_on_both_servers(open_page, address).items()
        servers = open_and_record_servers(page, address)
        before = get_last_draw(page)
        upload(page, photo)
        wait_for_new_values(page, before)
        page.get_by_role("tab", name="Train", exact=True).click()
        page.locator("#learning summary").click()
        unfold(page.locator("#learning .article"))
        expect(page.locator("#learning")).to_contain_text("70.00")
        owners[ended.rpartition(":")[2]].close()  # the other server ends
        runs.append_record(run.path, make_history_record(3))
        expect(page.locator("#learning")).to_contain_text("80.00")
        assert servers == {kept}
        # The visitor of the other server gets this one.
        found = open_and_record_servers(lost_page, address)
        assert all(each.endswith(kept) for each in found)  # nginx also names a server that failed
        # Users behind a proxy cannot add a model by name.
        lost_page.get_by_role("button", name="More models").click()
        expect(lost_page.locator("#more-models")).to_contain_text("Only you can see an added model")
        expect(lost_page.locator("#model-name")).to_be_hidden()
        for each in (page, lost_page):
            each.close()


def test_page_works_below_a_path_prefix(open_page, photo, tmp_path):
    run = make_run(tmp_path / "runs" / "vit")
    options = ["--runs", str(run.path.parent), "--data", str(tmp_path / "none")]
    with ExitStack() as servers:
        variables = {"GRADIO_ROOT_PATH": "/demo"}
        upstream = servers.enter_context(serve(*options, variables=variables))
        port = re.search(r":(\d+)/", upstream)[1]
        ports = {"7861": port, "7862": port}
        address = servers.enter_context(run_nginx(tmp_path, ports, prefix="/demo/"))
        page = open_page("about:blank")
        responses = []
        page.on("response", lambda response: responses.append(response))
        page.goto(f"{address}demo/?layer=1")
        before = wait_until_drawn(page)
        modules = {r.url.partition(f"/demo/{URL}/")[2] for r in responses if "/modules/" in r.url}
        assert modules == set(MODULES)
        assert all(response.status < 400 for response in responses)
        upload(page, photo)
        wait_for_new_values(page, before)
        page.get_by_role("tab", name="Results", exact=True).click()
        page.locator("#results-model").get_by_text("vit").first.wait_for(state="attached")
        page.close()
