"""Measure nginx that sends the files of a static site to 100 users within a minute.

    python app.py export-site SITE && python benchmarks/site_load.py SITE

Chromium opens the site once and computes an own photo, and the script records its requests. Then
simulated users, evenly spread over the time, load the files that the first map needs, with six
connections each, as browsers do. nginx counts requests by method, and their bytes.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.page import write_noise  # noqa: E402
from tests.browser.actions import JS_RECORD, upload, wait_until_drawn  # noqa: E402
from tests.support.serving import free_port, run_server  # noqa: E402
from vitdemo import console  # noqa: E402

CONNECTIONS = 6  # of a browser to a server


CONFIGURATION = """daemon off; pid {folder}/pid; error_log {folder}/errors; worker_processes 1;
events {{ worker_connections 4096; }}
http {{ include /etc/nginx/mime.types; client_body_temp_path {folder}/body; gzip off;
  log_format counted '$request_method $status $body_bytes_sent'; access_log {folder}/log counted;
  server {{ listen 127.0.0.1:{port}; root "{site}"; }} }}"""


@contextmanager
def serve_with_nginx(site: Path, folder: Path) -> Iterator[str]:
    """Serve `site` until the block ends, and yield the address. `folder` contains the log."""
    port = free_port()
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, site=site.resolve()))
    with run_server(["nginx", "-c", str(file)], port, folder, {}, 10) as address:
        yield address


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="exported site")
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60, help="time in which the users arrive")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        with serve_with_nginx(args.site, folder) as address:
            measure_load(address, folder / "log", args.users, args.seconds)


def measure_load(address: str, log: Path, users: int, seconds: float) -> None:
    """Print requests, bytes and times of `users` that arrive within `seconds`."""
    first, all_urls, methods = record_requests(address)
    print(f"Requests of Chromium by method: {dict(methods)}; {len(first)} until the first map.")
    others = [url for url in all_urls if not url.startswith((address, "blob:", "data:"))]
    print(f"Requests to other servers: {len(others)}")
    log.write_text("")
    started = time.monotonic()
    times = asyncio.run(load_site(first, users, seconds))
    took = time.monotonic() - started
    lines = [line.split() for line in log.read_text().splitlines()]
    median, late, slowest = np.percentile(times, [50, 95, 100])
    print(
        f"{len(times)} users in {took:.0f} s, requests: {Counter(' '.join(x[:2]) for x in lines)}"
    )
    print(f"{sum(int(size) for *_, size in lines) / 1e6 / users:.2f} MB per user")
    print(f"Median {median:.2f} s, p95 {late:.2f} s, slowest {slowest:.2f} s")


def record_requests(address: str) -> tuple[list[str], list[str], Counter]:
    """Return the URLs until the first map, all URLs with an own photo, and the methods."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        page, urls, methods = browser.new_page(), [], Counter()
        page.context.on("request", lambda each: urls.append(each.url))
        page.context.on("request", lambda each: methods.update([each.method]))
        page.add_init_script(JS_RECORD)
        page.goto(address)
        wait_until_drawn(page)
        first = [url for url in urls if url.startswith(address)]
        with tempfile.TemporaryDirectory() as folder:
            upload(page, write_noise(Path(folder), 0))
            page.wait_for_function("count => drawn.length > count", arg=1)
        browser.close()
    return first, urls, methods


async def load_site(urls: list[str], users: int, seconds: float) -> list[float]:
    """Load the files `urls` for each user, and return the seconds of each user."""

    async def visit(number: int) -> float:
        await asyncio.sleep(seconds * number / users)
        limits = httpx.Limits(max_connections=CONNECTIONS)
        started = time.monotonic()
        waiting = iter(urls)
        async with httpx.AsyncClient(limits=limits, timeout=60, verify=False) as client:

            async def load() -> None:
                for url in waiting:
                    (await client.get(url)).raise_for_status()

            await asyncio.gather(*(load() for _ in range(CONNECTIONS)))
        return time.monotonic() - started

    return await asyncio.gather(*map(visit, range(users)))


if __name__ == "__main__":
    main()
