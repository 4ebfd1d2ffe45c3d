"""Measure own photos on a static site and on the server's page, and the memory of the site.

    python app.py export-site SITE && python benchmarks/site_page.py SITE

The site and a page with the same single model take turns on this machine. The times are those of
benchmarks/page.py: "new image" ends when the predictions and the large map have changed, and
"pointing" when the map and all thumbnails are drawn. The memory is the resident set of Chromium's
renderer process (/proc), minus that of an empty page. The model changes after each photo, so that
the maximum number of sessions is open. No developer tools are connected while memory is measured.
"""

import argparse
import os
import queue
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.page import (  # noqa: E402
    JS_RECORD_ACTIONS,
    Stopwatch,
    time_new_image,
    time_pointing,
)
from tests.browser.actions import (  # noqa: E402
    JS_RECORD,
    wait_until_drawn,
)
from tests.support.file_server import QuietHandler, serve_files  # noqa: E402
from tests.support.serving import serve  # noqa: E402
from vitdemo import console  # noqa: E402

BROWSER_OPTIONS = ("--no-sandbox", "--disable-dev-shm-usage")
CHANGES = 30  # own photos and changes of the model while memory is measured
STEP_SECONDS = 120  # of a step at most
JS_REPORT = """<script type="module">
    window.report = (step) => fetch(`steps/${step}`, { method: "POST" });
    if (document.title === "empty") report("empty").then(() => report("end"));
</script>"""
JS_CHANGES = """<script type="module">
    const models = MODELS;
    let drawn = 0;
    document.addEventListener("vitdemo:drawn", () => { drawn += 1; });
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    async function waitFor(isMet) { while (!isMet()) await pause(50); await pause(1000); }
    async function drawNoise() {
        const small = new OffscreenCanvas(64, 64), large = new OffscreenCanvas(1024, 1024);
        const pixels = new ImageData(64, 64);
        crypto.getRandomValues(pixels.data);
        small.getContext("2d").putImageData(pixels, 0, 0);
        large.getContext("2d").drawImage(small, 0, 0, 1024, 1024);
        return new File([await large.convertToBlob()], "noise.png", { type: "image/png" });
    }
    async function change(element, values) {
        const before = drawn;
        Object.assign(element, values);
        element.dispatchEvent(new Event("change", { bubbles: true }));
        await waitFor(() => drawn > before);
    }
    await waitFor(() => drawn > 0);
    await report("start");
    for (let i = 0; i < COUNT; i += 1) {
        const files = new DataTransfer();
        files.items.add(await drawNoise());
        await change(document.querySelector("#picture input[type=file]"), { files: files.files });
        const select = document.querySelector("#model select");
        await change(select, { value: models[(i + 1) % models.length] });
        await report(`change-${i + 1}`);
    }
    await report("end");
</script>"""


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
            args=[*BROWSER_OPTIONS],
        )
        print("| model | page | action | median | fastest | slowest |\n|---|---|---|---|---|---|")
        for model in args.models:
            with tempfile.TemporaryDirectory() as runs:
                shutil.copytree(args.runs / model, Path(runs) / model)
                with serve("--runs", runs, "--no-download") as server:
                    compare_times(browser, {"site": site, "server": server}, model, args.count)
        browser.close()
    measure_memory(args.site, args.models)


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


def measure_memory(site: Path, models: list[str]) -> None:
    """Print the memory of the site's renderer after each own photo and change of the model.

    The page controls itself with `JS_CHANGES`, because a connection to developer tools keeps the
    responses of the page in the renderer.
    """
    executable = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    levels: list[float] = []
    for name in ("empty.html", "changes.html"):
        steps: queue.Queue[str] = queue.Queue()
        handler = type("Handler", (ChangesHandler,), {"models": models, "steps": steps})
        with serve_files(site, handler) as address, tempfile.TemporaryDirectory() as profile:
            options = [*BROWSER_OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={profile}"]
            command = [executable, *options, f"{address}{name}?model={models[0]}"]
            browser = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
            while (step := steps.get(timeout=STEP_SECONDS)) != "end":
                renderer = find_renderer(browser.pid)
                levels.append(read_memory(renderer, "VmRSS"))
                print(f"{name}: {step}", file=sys.stderr)
            highest = read_memory(renderer, "VmHWM")
            os.killpg(browser.pid, signal.SIGTERM)  # the command is a shell script on Debian
            browser.wait()
    baseline, *levels = levels
    print(f"\nEmpty page: {baseline:.0f} MB. Beyond it, after loading the site and after each own")
    print(f"photo: {', '.join(f'{each - baseline:.0f}' for each in levels)} MB.")
    print(f"Highest: {highest - baseline:.0f} MB.")


class ChangesHandler(QuietHandler):
    """Handler that adds `JS_CHANGES` to the site, and receives the names of finished steps."""

    models: list[str]
    steps: "queue.Queue[str]"

    def do_GET(self) -> None:
        """Send a file of the site, the empty page, or the page with its changes."""
        name = self.path.split("?")[0]
        if name not in ("/changes.html", "/empty.html"):
            return super().do_GET()
        text = "<title>empty</title>" + JS_REPORT
        if name == "/changes.html":
            text = (Path(self.directory) / "index.html").read_text() + JS_REPORT + JS_CHANGES
        content = text.replace("MODELS", str(self.models)).replace("COUNT", str(CHANGES)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Receive the name of a step, and answer when its memory has been read."""
        self.steps.put(self.path.rsplit("/", 1)[-1])
        while not self.steps.empty():
            time.sleep(0.05)
        time.sleep(0.5)  # the memory is read
        self.send_response(204)
        self.end_headers()


def find_renderer(browser: int) -> int:
    """Return the id of the browser's renderer process."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            is_renderer = b"--type=renderer" in file.read_bytes()
            if is_renderer and is_descendant(int(file.parent.name), browser):
                return int(file.parent.name)
    raise RuntimeError("Chromium has no renderer process.")


def is_descendant(process: int, ancestor: int) -> bool:
    """Return whether `process` was started by `ancestor` or one of its descendants."""
    while process > 1 and process != ancestor:
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return process == ancestor


def read_memory(process: int, field: str) -> float:
    """Return a field of /proc/PID/status in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 2**10


if __name__ == "__main__":
    main()
