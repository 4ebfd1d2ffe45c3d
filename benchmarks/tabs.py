"""How long each tab takes to open, a page of test pictures to turn, and t-SNE to be laid out.

    python benchmarks/tabs.py        # needs requirements-dev.txt, Chromium and the data set

In a real Chromium: each time a new window opens the page, waits for its first maps, and then goes
from tab to tab. A tab counts from the click until all of its places have been drawn and painted;
the first one from the address to the answers and maps. The server has seen one window before, so
that models and evaluations are in memory. docs/how-fast.md states what it measured.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.serving import serve  # noqa: E402
from vitdemo import console  # noqa: E402

PLACES = {  # tab -> what is to be seen in it
    "Training progress": ["#plots svg", "#learning table"],
    "Per-class metrics": ["#per-class table", "#ranking figure"],
    "Confusion matrix": ["#confusion-matrix button"],
    "Errors": ["#errors-kinds [data-pick]", "#errors-pictures .thumb"],
    "Calibration": ["#calibration figure"],
    "Compare models": ["#models table", "#gains table"],
    "Data": ["#classes figure"],
}
# Clicks `button`, and waits until all `places` are to be seen (and `gone` is not) and painted.
# What is not seen within half a minute is named.
CLICKED = """([button, places, gone]) => new Promise((done, fail) => {
    const shown = place =>
        [...document.querySelectorAll(place)].some(part => part.checkVisibility());
    const missing = () => places.filter(place => !shown(place))
        .concat(gone && document.querySelector(gone) ? ["not " + gone] : []);
    const started = performance.now();
    const seconds = () => (performance.now() - started) / 1000;
    const painted = () => requestAnimationFrame(() => requestAnimationFrame(() => done(seconds())));
    const late = () => fail(new Error("Not seen: " + missing().join(", ")));
    const look = () =>
        !missing().length ? painted() : seconds() > 30 ? late() : setTimeout(look, 2);
    button.click();
    look();
})"""


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=ROOT / "assets" / "runs")
    parser.add_argument("--data", default=os.environ.get("VITDEMO_DATA", "data"))
    parser.add_argument("--planes", nargs="*", metavar="RUN", help="runs to lay out by t-SNE")
    args = parser.parse_args()
    arguments = ("--runs", str(args.runs.resolve()), "--data", str(Path(args.data).resolve()))
    with serve(*arguments) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        windows = [window(browser, address) for _ in range(args.windows + 1)]
        planes = laid_out(browser, address, args.planes or [])
        browser.close()
    cold, warm = windows[0], windows[1:]
    print("| what | median, seconds | slowest | the first time |\n|---|---|---|---|")
    for what, first in cold.items():
        seconds = [second for found in warm for second in found[what]]
        print(
            f"| {what} | {statistics.median(seconds):.2f} | {max(seconds):.2f} | {first[0]:.2f} |"
        )
    for what, seconds in planes.items():
        print(f"{what}: {seconds[0]:.1f} s, again {seconds[1]:.1f} s")


def window(browser: Browser, address: str) -> dict[str, list[float]]:
    """Seconds of each thing in one window that opens the page."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    started = time.perf_counter()
    page.goto(address)
    page.locator("#attention [data-state=whole]").wait_for()
    found = {"the page, with its first answers and maps": [time.perf_counter() - started]}
    page.wait_for_timeout(1000)
    for tab, places in PLACES.items():
        button = page.get_by_role("tab", name=tab, exact=True).element_handle()
        found[f"the tab {tab}"] = [page.evaluate(CLICKED, [button, places, None])]
        page.wait_for_timeout(300)
    page.get_by_role("tab", name="Errors", exact=True).click()
    page.wait_for_timeout(700)
    found["a page of 48 test images"] = [next_page(page) for _ in range(4)]
    page.close()
    return found


def next_page(page: Page) -> float:
    page.wait_for_timeout(300)
    picture = page.locator("#errors-pictures [data-pick]").first.get_attribute("data-pick")
    button = page.get_by_role("button", name="Next images").element_handle()
    gone = f"#errors-pictures [data-pick='{picture}']"
    return page.evaluate(CLICKED, [button, ["#errors-pictures .thumb"], gone])


def laid_out(browser: Browser, address: str, runs: list[str]) -> dict[str, list[float]]:
    """Seconds of t-SNE of 2,000 pictures, for the first time and once more in another window."""
    found = {}
    for run in [run for run in runs for _ in range(2)]:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(300_000)
        page.goto(address)
        page.get_by_role("tab", name="Data", exact=True).click()
        page.get_by_role("tab", name="Similar images").click()
        page.locator("#similar-model select").select_option(run)
        page.wait_for_timeout(1000)
        started = time.perf_counter()
        page.locator("#lay-out").click()
        page.locator("#tsne [data-pick]").first.wait_for()
        seconds = time.perf_counter() - started
        found.setdefault(f"t-SNE of pixels and of {run}", []).append(seconds)
        page.close()
    return found


if __name__ == "__main__":
    main()
