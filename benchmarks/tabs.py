"""Measure the time to open each tab, to show the next test images and to compute t-SNE.

    python benchmarks/tabs.py        # needs requirements-dev.txt, Chromium and the dataset

A new Chromium window opens the page, waits for the first maps and then opens one tab after another.
The time of a tab is from the click until all its parts are painted. The time of the first tab is
from loading the URL until predictions and maps are visible. The first window loads models and
evaluations into memory and is listed separately. docs/deployment.md has the results.
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

from tests.browser.actions import open_tab  # noqa: E402
from tests.support.serving import serve  # noqa: E402
from vitdemo import console  # noqa: E402

# Tab, or section of Results -> selectors of elements that must be visible in it. Results opens with
# the per-class metrics.
TAB_SELECTORS = {
    "Train": ["#plots svg", "#learning details"],
    "Results": ["#per-class .rows button", "#ranking figure"],
    "Confusion matrix": ["#confusion-matrix button"],
    "Errors": ["#errors-kinds [data-pick]", "#errors-pictures .thumb"],
    "Compare models": ["#model-scatter svg", "#gains figure"],
    "Data": ["#class-examples [data-pick]", "#classes figure"],
}
# Clicks `button` and waits until all `places` are painted and `gone` is removed. After 30 seconds,
# the script fails with an error that lists the missing elements.
JS_CLICK_AND_WAIT = """([button, places, gone]) => new Promise((done, fail) => {
    const shown = place =>
        [...document.querySelectorAll(place)].some(part => part.checkVisibility());
    const missing = () => places.filter(place => !shown(place))
        .concat(gone && document.querySelector(gone) ? ["not " + gone] : []);
    const started = performance.now();
    const seconds = () => (performance.now() - started) / 1000;
    const painted = () => requestAnimationFrame(() => requestAnimationFrame(() => done(seconds())));
    const late = () => fail(new Error("Not visible: " + missing().join(", ")));
    const look = () =>
        !missing().length ? painted() : seconds() > 30 ? late() : setTimeout(look, 2);
    button.click();
    look();
})"""


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=10, help="number of windows to measure")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    parser.add_argument(
        "--data", default=os.environ.get("VITDEMO_DATA", "data"), help="folder of CIFAR-10"
    )
    parser.add_argument(
        "--planes", nargs="*", metavar="RUN", help="runs for which t-SNE is also measured"
    )
    args = parser.parse_args()
    arguments = ("--runs", str(args.runs.resolve()), "--data", str(Path(args.data).resolve()))
    with serve(*arguments) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        windows = [measure_window(browser, address) for _ in range(args.windows + 1)]
        planes = time_tsne(browser, address, args.planes or [])
        browser.close()
    cold, warm = windows[0], windows[1:]
    print("| action | median, seconds | slowest | first window |\n|---|---|---|---|")
    for what, first in cold.items():
        seconds = [second for found in warm for second in found[what]]
        print(
            f"| {what} | {statistics.median(seconds):.2f} | {max(seconds):.2f} | {first[0]:.2f} |"
        )
    for what, seconds in planes.items():
        print(f"{what}: {seconds[0]:.1f} s, repeated: {seconds[1]:.1f} s")


def measure_window(browser: Browser, address: str) -> dict[str, list[float]]:
    """Open the page in a new window and return the seconds of each action."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    started = time.perf_counter()
    page.goto(address)
    page.locator("#attention [data-state=whole]").wait_for()
    found = {"page with predictions and maps": [time.perf_counter() - started]}
    page.wait_for_timeout(1000)
    for tab, places in TAB_SELECTORS.items():
        button = page.get_by_role("tab", name=tab, exact=True).element_handle()
        found[f"tab {tab}"] = [page.evaluate(JS_CLICK_AND_WAIT, [button, places, None])]
        page.wait_for_timeout(300)
    open_tab(page, "Errors")
    page.wait_for_timeout(700)
    found["next 48 test images"] = [time_next_page(page) for _ in range(4)]
    page.close()
    return found


def time_next_page(page: Page) -> float:
    page.wait_for_timeout(300)
    picture = page.locator("#errors-pictures [data-pick]").first.get_attribute("data-pick")
    button = page.get_by_role("button", name="Next images").element_handle()
    gone = f"#errors-pictures [data-pick='{picture}']"
    return page.evaluate(JS_CLICK_AND_WAIT, [button, ["#errors-pictures .thumb"], gone])


def time_tsne(browser: Browser, address: str, runs: list[str]) -> dict[str, list[float]]:
    """Return the seconds of t-SNE of 2,000 images, first and repeated in another window."""
    found = {}
    for run in [run for run in runs for _ in range(2)]:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        page.set_default_timeout(300_000)
        page.goto(address)
        open_tab(page, "Data", "Similar images")
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
