"""Measure response times of the page in Chromium, and the number of requests per action.

    python benchmarks/page.py        # needs requirements-dev.txt and Chromium

The measured times are:

- new image: from the event of the chosen file until all predictions and the large map have changed
- other model: from the event of its choice until its map is drawn
- removed patch ("Fool the model"): from the click until all predictions have changed
- pointing: from a pointer movement until the large map and all thumbnails are drawn
- empty event: an event of gradio whose handler does nothing, from the request to its response

The floor of an action is the time of the computations that it cannot do without, in this process:
decoding and cropping of a new image, and a plain forward pass of each model whose prediction
changes.

docs/deployment.md has the results.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.actions import (  # noqa: E402
    JS_RECORD,
    JS_TIME_DRAWS,
    choose_model,
    upload,
    wait_until_drawn,
)
from tests.support.serving import serve  # noqa: E402
from vitdemo import console  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.data.image_files import crop_visible_square, load_image  # noqa: E402

UPLOAD_SIDE = 1024  # pixels
PAUSE_MS = 500  # ms between actions, so that late events of one action do not affect the next
# Time of the user's last event. Playwright itself needs up to 60 ms before the event, which a user
# does not wait for.
JS_RECORD_ACTIONS = """for (const type of ["change", "click"])
    document.addEventListener(type, () => { window.lastAction = performance.now(); }, true);"""
# Milliseconds since the user's last event when `isDone(argument)` becomes true, else null.
JS_MILLISECONDS = "argument => (IS_DONE)(argument) ? performance.now() - window.lastAction : null"
# The predictions and the map differ from those before the action.
JS_PREDICTIONS_CHANGED = """([cards, draws]) =>
    document.querySelector("#answers .cards").innerText !== cards && drawn.length > draws"""
JS_MODEL_DRAWN = "name => drawn.at(-1).run === name"
PREDICTIONS = "#hands-answers .pairs ul"
JS_TEXT_CHANGED = f"text => document.querySelector('{PREDICTIONS}').innerText !== text"

# Milliseconds of an event in a new session whose handler does nothing: it cancels an unknown task.
JS_EMPTY_EVENT = """async () => {
    const isCancel = ({ targets }) => targets.some(([, name]) => name === "cancel");
    const event = {
        data: [],
        fn_index: window.gradio_config.dependencies.find(isCancel).id,
        event_data: { id: 0 },
        session_hash: Math.random().toString(36).slice(2),
    };
    const headers = { "Content-Type": "application/json" };
    const begun = performance.now();
    await fetch("gradio_api/queue/join", { method: "POST", headers, body: JSON.stringify(event) });
    await (await fetch(`gradio_api/queue/data?session_hash=${event.session_hash}`)).text();
    return performance.now() - begun;
}"""


class Stopwatch:
    """Seconds and number of requests of each action, by kind of action."""

    def __init__(self, page: Page):
        self.page, self.request_urls = page, []
        self.seconds: dict[str, list[float]] = {}
        self.requests: dict[str, list[int]] = {}
        page.on("request", lambda request: self.request_urls.append(request.url))

    def measure_action(
        self, what: str, act: Callable[[], None], is_done: str, argument: object
    ) -> None:
        """Measure the time from the event of `act` until the script `is_done` returns true."""
        self.page.wait_for_timeout(PAUSE_MS)
        self.request_urls.clear()
        act()
        script = JS_MILLISECONDS.replace("IS_DONE", is_done)
        found = self.page.wait_for_function(script, arg=argument, polling="raf").json_value()
        self.seconds.setdefault(what, []).append(found / 1000)
        self.page.wait_for_timeout(PAUSE_MS)
        self.requests.setdefault(what, []).append(len(self.request_urls))


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="number of repetitions per action")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    args = parser.parse_args()
    started = time.perf_counter()
    with serve("--runs", str(args.runs.resolve())) as address, sync_playwright() as playwright:
        served = time.perf_counter() - started
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        page = browser.new_page(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")
        page.add_init_script(JS_RECORD)
        page.add_init_script(JS_RECORD_ACTIONS)
        page.goto(address)
        wait_until_drawn(page)
        first = time.perf_counter() - started
        watch, empty = Stopwatch(page), []
        models = page.locator("#model option").evaluate_all("all => all.map(o => o.value)")
        for number in range(args.count):
            time_new_image(page, watch, number)
            time_model_change(page, watch, models[number % 2])
            empty.append(page.evaluate(JS_EMPTY_EVENT) / 1000)
        time_pointing(page, watch, models[:2])
        page.get_by_role("tab", name="Fool the model").click()
        page.locator(PREDICTIONS).wait_for()
        for number in range(args.count):
            time_patch_removal(page, watch, 3 * number)
        browser.close()
    print(f"Time from `python app.py` to the page: {served:.1f} s, to the first map: {first:.1f} s")
    floors = measure_floors(args.runs, models[:2], args.count)
    event, pass_ = statistics.median(empty), floors["other model"]
    events = (statistics.median(watch.seconds["other model"]) - pass_) / event
    print(
        f"Empty event: {1000 * event:.1f} ms. Other model: its pass and {events:.1f} empty events."
    )
    print(f"\n| action | median of {args.count} | slowest | requests | floor | times the floor |")
    print("|---|---|---|---|---|---|")
    for what, seconds in watch.seconds.items():
        requests = max(watch.requests[what])
        median, slowest = statistics.median(seconds), max(seconds)
        floor = floors.get(what)
        ratio = f"{1000 * floor:.1f} ms | {median / floor:.1f}" if floor else "– | –"
        print(
            f"| {what} | {1000 * median:.1f} ms | {1000 * slowest:.1f} ms | {requests} | {ratio} |"
        )


def measure_floors(folder: Path, changed: list[str], count: int) -> dict[str, float]:
    """Return the median floor of each action in seconds.

    The action "other model" switches between the models `changed`.
    """
    context = AppContext([folder], None, torch.device("cpu"))
    runs = context.classifier_runs()

    def predict(image: Image.Image, names: list[str]) -> None:
        for run in runs:
            if run.name in names:
                _, pixels = context.prepare_input(run.preprocessing, image)
                with torch.inference_mode():
                    context.load_model(run)(pixels)

    names = [run.name for run in runs]
    times: dict[str, list[float]] = {"new image": [], "other model": [], "removed patch": []}
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(count + 1):
            file = write_noise(Path(temporary), number)
            started = time.perf_counter()
            image = crop_visible_square(load_image(file))
            decoded = time.perf_counter()
            predict(image, names)
            predicted = time.perf_counter()
            predict(image, [changed[number % 2]])
            changed_model = time.perf_counter()
            times["new image"].append(predicted - started)
            times["removed patch"].append(predicted - decoded)
            times["other model"].append(changed_model - predicted)
    # The first pass of a model is slower, since it allocates memory.
    return {what: statistics.median(seconds[1:]) for what, seconds in times.items()}


def write_noise(folder: Path, number: int) -> Path:
    """Write a random image of `UPLOAD_SIDE` x `UPLOAD_SIDE` pixels."""
    random = np.random.default_rng(number)
    pixels = random.integers(0, 256, (UPLOAD_SIDE // 16, UPLOAD_SIDE // 16, 3), dtype=np.uint8)
    file = folder / f"{number}.png"
    Image.fromarray(pixels).resize((UPLOAD_SIDE, UPLOAD_SIDE)).save(file)
    return file


def time_new_image(page: Page, watch: Stopwatch, number: int) -> None:
    """Upload a new random image and measure the time."""
    before = page.evaluate("[document.querySelector('#answers .cards').innerText, drawn.length]")
    with tempfile.TemporaryDirectory() as folder:
        file = write_noise(Path(folder), number)
        watch.measure_action(
            "new image",
            lambda: upload(page, file),
            JS_PREDICTIONS_CHANGED,
            before,
        )


def time_model_change(page: Page, watch: Stopwatch, name: str) -> None:
    if page.locator("#model select").input_value() != name:
        watch.measure_action(
            "other model",
            lambda: choose_model(page, name),
            JS_MODEL_DRAWN,
            name,
        )


def time_pointing(page: Page, watch: Stopwatch, models: list[str]) -> None:
    """Measure 40 pointer movements over the large map of each model."""
    for name in models:
        choose_model(page, name)
        wait_until_drawn(page, run=name)
        page.locator("#attention [data-state=whole]").wait_for()
        page.wait_for_timeout(PAUSE_MS)
        watch.request_urls.clear()
        side = round(len(page.evaluate("Array.from(drawn.at(-1).values)")) ** 0.5)
        what = f"pointing, {name}"
        watch.seconds[what] = page.evaluate(JS_TIME_DRAWS, [40, side])
        watch.requests[what] = [len(watch.request_urls)]


def time_patch_removal(page: Page, watch: Stopwatch, cell: int) -> None:
    """Remove one more patch and measure the time until the predictions change."""
    board, (row, column) = page.locator("#changed-image .board"), divmod(cell, 8)
    side = board.bounding_box()["width"] / 8  # of a patch
    place = {"x": (column + 0.5) * side, "y": (row + 0.5) * side}
    watch.measure_action(
        "removed patch",
        lambda: board.click(position=place),
        JS_TEXT_CHANGED,
        page.locator(PREDICTIONS).inner_text(),
    )


if __name__ == "__main__":
    main()
