"""How long the page takes, in a real Chromium: to its first answer, and for each new picture.

    python benchmarks/page.py        # needs requirements-dev.txt and Chromium

A new picture counts from the moment the file is handed to the upload until the answers of all
models and the rollout of the chosen one have changed on the page. README states what it measured.
"""

import argparse
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.serving import serve  # noqa: E402

SIDE = 1024  # of each new picture, in pixels
CHANGED = """before => ["#answers", "#rollout"].every((place, i) => {
    const image = document.querySelector(place + " figure:last-of-type img");
    return image && image.src !== before[i];
})"""
SOURCES = """() => ["#answers", "#rollout"].map(
    place => document.querySelector(place + " figure:last-of-type img").src)"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=20)
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    args = parser.parse_args()
    started = time.perf_counter()
    with serve("--runs", str(args.runs.resolve())) as address, sync_playwright() as playwright:
        first = time.perf_counter() - started
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        page.locator("#rollout figure").nth(2).wait_for()
        page.wait_for_timeout(3000)  # the first models are loaded by now, and the page is at rest
        times = new_pictures(page, args.pictures)
        browser.close()
    print("| what | seconds |\n|---|---|")
    print(f"| `python app.py` to its first answer | {first:.1f} |")
    print(f"| a new picture on the page, median of {len(times)} | {statistics.median(times):.2f} |")
    print(f"| the slowest of them | {max(times):.2f} |")


def new_pictures(page: Page, count: int) -> list[float]:
    """Seconds of each of `count` uploads, every one another picture of SIDE x SIDE pixels."""
    random = np.random.default_rng(0)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            pixels = random.integers(0, 256, (SIDE // 16, SIDE // 16, 3), dtype=np.uint8)
            file = Path(folder) / f"{i}.png"
            Image.fromarray(pixels).resize((SIDE, SIDE)).save(file)
            clear = re.compile("clear|remove", re.IGNORECASE)
            page.locator("#upload").get_by_role("button", name=clear).first.click()
            upload = page.locator("#upload input[type=file]").first
            upload.wait_for(state="attached")
            before = page.evaluate(SOURCES)
            started = time.perf_counter()
            upload.set_input_files(file)
            page.wait_for_function(CHANGED, arg=before, polling=20)
            times.append(time.perf_counter() - started)
    return times


if __name__ == "__main__":
    main()
