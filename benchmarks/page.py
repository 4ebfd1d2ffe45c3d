"""How long the page takes, in a real Chromium: to its first answer, a new picture, and a click.

    python benchmarks/page.py        # needs requirements-dev.txt and Chromium

A new picture counts from the moment the file is handed to the upload until the answers of all
models and the head wall and large map of the chosen one have changed on the page. A click counts
until what it asks for has been drawn: the wall of another model after a new picture (so that no
pass is kept from before), a thumbnail large, the map of another patch, a step of the rollout, all
models' answers to the picture without one more patch.
README states what it measured.
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
CHANGED = """before => ["#answers", "#wall", "#asked"].every((place, i) => {
    const image = document.querySelector(place + " figure:last-of-type img");
    return image && image.src !== before[i];
})"""
SOURCES = """() => ["#answers", "#wall", "#asked"].map(
    place => document.querySelector(place + " figure:last-of-type img").src)"""
# Clicks inside the page, and waits until `place` shows what it did not show and has painted it.
CLICKED = """([selector, place]) => new Promise(done => {
    const shown = () => document.querySelector(place + " img")?.alt;
    const before = shown(), started = performance.now();
    const look = () => shown() && shown() !== before
        ? requestAnimationFrame(() => done((performance.now() - started) / 1000))
        : setTimeout(look, 2);
    document.querySelector(selector).click();
    look();
})"""


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
        page.locator("#asked figure").wait_for()
        page.wait_for_timeout(3000)  # the first models are loaded by now, and the page is at rest
        times = {"a new picture": new_pictures(page, args.pictures)}
        times |= clicks(page, args.pictures)
        browser.close()
    print(f"`python app.py` to its first answer: {first:.1f} s\n")
    print(f"| what | median of {args.pictures}, seconds | slowest |\n|---|---|---|")
    for what, seconds in times.items():
        print(f"| {what} | {statistics.median(seconds):.2f} | {max(seconds):.2f} |")


def clicks(page: Page, count: int) -> dict[str, list[float]]:
    """Seconds of each click, by what it asks for."""
    random, found = np.random.default_rng(1), {}

    def click(what: str, selector: str, place: str) -> None:
        page.wait_for_timeout(400)  # what the click before set in motion has come to rest
        found.setdefault(what, []).append(page.evaluate(CLICKED, [selector, place]))

    def other(place: str) -> str:
        """A button of `place` that is not chosen."""
        free = f"{place} button[aria-pressed=false]"
        number = random.integers(page.locator(free).count())
        pick = page.locator(free).nth(number).get_attribute("data-pick")
        return f'{place} [data-pick="{pick}"]'

    for i in range(count):
        new_pictures(page, 1, seed=100 + i)
        click("another model's head wall", "#model input:not(:checked)", "#wall")
        click("a thumbnail of the wall large", other("#wall"), "#asked")
        click("the map of another patch", other("#asked .vd-cells"), "#asked")
    page.get_by_role("tab", name="Rollout").click()
    page.locator("#strip img").wait_for()
    for _ in range(count):
        click("a step of the rollout large", other("#strip"), "#rollout")
    page.get_by_role("tab", name="Hands on").click()
    page.locator("#hands-picture img").wait_for()
    for _ in range(count):
        what = "all models' answers without one patch more"
        click(what, other("#hands-picture"), "#hands-picture")
    return found


def new_pictures(page: Page, count: int, seed: int = 0) -> list[float]:
    """Seconds of each of `count` uploads, every one another picture of SIDE x SIDE pixels."""
    random = np.random.default_rng(seed)
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
