"""Two pages behind nginx, as docs/nginx.conf sets it up: a browser stays with one of them."""

import re
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.actions import get_last_draw, upload, wait_for_new_values, wait_until_drawn
from tests.factories import make_history_record, make_run
from tests.serving import free_port, run_server, serve
from vitdemo import runs

NGINX_CONFIG = Path(__file__).parents[2] / "docs" / "nginx.conf"


@contextmanager
def run_nginx(folder: Path, ports: dict[str, str]):
    """The address of nginx with the ports of docs/nginx.conf exchanged for free ones."""
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("no nginx on this machine: `apt-get install nginx-light` to test with it")
    mine = str(free_port())
    text = NGINX_CONFIG.read_text().replace("/tmp/", f"{folder}/")
    text = re.sub("|".join([*ports, "8080"]), lambda m: (ports | {"8080": mine})[m[0]], text)
    (folder / "nginx.conf").write_text(text)
    command = [program, "-c", str(folder / "nginx.conf"), "-p", str(folder), "-g", "daemon off;"]
    with run_server(command, int(mine), folder, {}, 30) as address:
        yield address


def test_session_stays_with_its_server_when_the_other_ends(open_page, photo, tmp_path):
    growing = make_run(tmp_path / "runs" / "vit", epochs=2)
    options = ["--runs", str(growing.path.parent), "--data", str(tmp_path / "none")]
    with ExitStack() as outer, ExitStack() as first, ExitStack() as second:
        owners = {
            re.search(r":(\d+)/", stack.enter_context(serve(*options)))[1]: stack
            for stack in (first, second)
        }
        ports = dict(zip(("7861", "7862"), owners, strict=True))
        address = outer.enter_context(run_nginx(tmp_path, ports))
        pages, asked = [], {}
        for visitor in range(8):  # until both processes have one
            page = open_page("about:blank", stranger=True)
            seen = asked[page] = set()
            page.on("response", lambda r, seen=seen: seen.add(r.headers.get("x-page")))
            page.goto(address)
            wait_until_drawn(page)
            pages.append(page)
            if len({frozenset(seen) for seen in asked.values()}) == 2:
                break
            assert visitor < 7, "eight visitors, one process"
        stays, leaves = pages[-1], pages[0]
        before = get_last_draw(stays)
        upload(stays, photo)
        wait_for_new_values(stays, before)
        stays.get_by_role("tab", name="Training progress").click()
        expect(stays.locator("#learning")).to_contain_text("70.00")
        (upstream,) = asked[leaves] - {None}
        for page in pages[:-1]:  # or their browsers would report the loss
            page.close()
        owners[upstream.rpartition(":")[2]].close()  # the other process ends
        runs.append_record(growing.path, make_history_record(3))
        expect(stays.locator("#learning")).to_contain_text("80.00")
        assert len(asked[stays] - {None}) == 1
        again = open_page(address, stranger=True)
        wait_until_drawn(again)
        again.get_by_role(
            "button", name="More models"
        ).click()  # who comes through a proxy adds by no name
        expect(again.locator("#more-models")).to_contain_text("Only you can see an added model")
        expect(again.locator("#model-name")).to_be_hidden()
        for page in (stays, again):
            page.close()
