"""Measure own photos on a static site and on the server's page, and the memory of the site.

    python app.py export-site SITE && python benchmarks/site_page.py SITE

The site and a page with the same single model take turns on this machine. The times are those of
benchmarks/page.py: "new image" ends when the predictions and the large map have changed, and
"pointing" when the map and all thumbnails are drawn. The memory is the resident set of Chromium's
renderer process (/proc), minus that of an empty page. The model changes after each photo, so that
the maximum number of sessions is open. Playwright keeps the responses of the page in the renderer,
so the memory is an upper bound.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.page import (  # noqa: E402
    JS_RECORD_ACTIONS,
    Stopwatch,
    time_new_image,
    time_pointing,
    write_noise,
)
from tests.browser.actions import (  # noqa: E402
    JS_RECORD,
    choose_model,
    upload,
    wait_until_drawn,
)
from tests.support.file_server import serve_files  # noqa: E402
from tests.support.serving import serve  # noqa: E402
from vitdemo import console  # noqa: E402

CHANGES = 12  # changes of the model while memory is measured


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="exported site with graphs of the models")
    parser.add_argument("--count", type=int, default=20, help="number of photos per model")
    parser.add_argument("--models", nargs="+", default=["vit-scratch", "finetune-deit-tiny"])
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    args = parser.parse_args()
    with serve_files(args.site) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        print("| model | page | action | median | fastest | slowest |\n|---|---|---|---|---|---|")
        for model in args.models:
            with tempfile.TemporaryDirectory() as runs:
                shutil.copytree(args.runs / model, Path(runs) / model)
                with serve("--runs", runs, "--no-download") as server:
                    compare_times(browser, {"site": site, "server": server}, model, args.count)
        measure_memory(browser, site, args.models)
        browser.close()


def open_page(browser: Browser, address: str, model: str) -> Page:
    page = browser.new_page(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")
    page.add_init_script(JS_RECORD)
    page.add_init_script(JS_RECORD_ACTIONS)
    page.goto(f"{address}?model={model}")
    wait_until_drawn(page)
    return page


def compare_times(browser: Browser, addresses: dict[str, str], model: str, count: int) -> None:
    """Print the times of own photos and of pointing, on pages that take turns."""
    pages = {name: open_page(browser, address, model) for name, address in addresses.items()}
    watches = {name: Stopwatch(page) for name, page in pages.items()}
    for name, page in pages.items():  # the first photo loads the model
        time_new_image(page, watches[name], count)
        watches[name].seconds = {"first image": watches[name].seconds["new image"]}
    for number in range(count):
        for name, page in pages.items():
            time_new_image(page, watches[name], number)
    for name, page in pages.items():
        time_pointing(page, watches[name], [model])
        for action, seconds in watches[name].seconds.items():
            found = [statistics.median(seconds), min(seconds), max(seconds)]
            cells = " | ".join(f"{1000 * each:.1f} ms" for each in found)
            print(f"| {model} | {name} | {action} | {cells} |", flush=True)
        page.close()


def measure_memory(browser: Browser, site: str, models: list[str]) -> None:
    """Print the memory of the site's renderer after each own photo and change of the model."""
    client = browser.new_browser_cdp_session()
    known = list_renderers(client)
    empty = browser.new_page()
    (renderer,) = list_renderers(client) - known
    baseline = read_memory(renderer, "VmRSS")
    empty.close()
    known = list_renderers(client)
    page = open_page(browser, site, models[0])
    (renderer,) = list_renderers(client) - known
    levels = [read_memory(renderer, "VmRSS") - baseline]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(CHANGES):
            model = models[number % len(models)]
            count = page.evaluate("drawn.length")
            upload(page, write_noise(Path(folder), number))
            page.wait_for_function("count => drawn.length > count", arg=count)
            choose_model(page, model)
            wait_until_drawn(page, run=model)
            time.sleep(1)
            levels.append(read_memory(renderer, "VmRSS") - baseline)
    print(f"\nEmpty page: {baseline:.0f} MB. Beyond it, after loading the site and after each own")
    print(f"photo: {', '.join(f'{each:.0f}' for each in levels)} MB.")
    print(f"Highest: {read_memory(renderer, 'VmHWM') - baseline:.0f} MB.")


def list_renderers(client: CDPSession) -> set[int]:
    """Return the ids of the renderer processes."""
    found = client.send("SystemInfo.getProcessInfo")["processInfo"]
    return {each["id"] for each in found if each["type"] == "renderer"}


def read_memory(process: int, field: str) -> float:
    """Return a field of /proc/PID/status in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 2**10


if __name__ == "__main__":
    main()
