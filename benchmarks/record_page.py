"""Record the screenshot and the animation of README from the real page.

    python benchmarks/record_page.py        # needs requirements-dev.txt and Chromium

The animation shows two actions: moving through the layers, as *Play* does, and pointing at patches
of the large map. The screenshot shows the architecture. Both files are written into `assets/`.
"""

import argparse
import io
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.actions import JS_RECORD, wait_until_drawn, wait_until_idle  # noqa: E402
from tests.support.serving import serve  # noqa: E402

VIEWPORT = {"width": 1366, "height": 768}
WIDTH = 1024  # pixels of the animation
MAX_BYTES = 3_000_000
# Positions of the pointer as fractions of the large map: from one eye to the other, and the nose.
PATH = ((0.15, 0.95), (0.35, 0.5), (0.3, 0.45), (0.82, 0.5), (0.8, 0.6), (0.62, 0.85), (0.5, 0.1))
STEPS = 5  # frames from one position to the next
MOVE_MS, LAYER_MS, REST_MS = 160, 420, 1200
CURSOR = ((0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12))
BROWSERS = ("chromium-headless-shell", "chromium")
Frame = tuple[Image.Image, int]  # image and milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "assets", help="folder of both files")
    parser.add_argument("--photo", default="photo:cat", help="image, as in a link to the page")
    args = parser.parse_args()
    # An empty dataset folder, because images of a dataset must not be published.
    with tempfile.TemporaryDirectory() as empty, serve("--data", empty, "--no-download") as address:
        screenshot, frames = record_page(f"{address}?picture={args.photo}")
    screenshot.save(args.out / "screenshot.png", optimize=True)
    save_animation(frames, args.out / "explore.webp")


def record_page(address: str) -> tuple[Image.Image, list[Frame]]:
    """Return a screenshot of the architecture, and the frames of the animation."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=next(filter(None, map(shutil.which, BROWSERS)), None),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        page = browser.new_page(viewport=VIEWPORT, reduced_motion="reduce")
        page.add_init_script(JS_RECORD)
        page.goto(address)
        wait_until_drawn(page)
        wait_until_idle(page)
        frames = [*record_layers(page), *record_pointing(page)]
        page.goto(f"{address}&section=inside&inside=diagram")
        page.locator("#diagram .flow").wait_for()
        wait_until_idle(page)
        screenshot = take_frame(page)
        browser.close()
    return screenshot, frames


def record_pointing(page: Page) -> Iterator[Frame]:
    """Yield frames in which the pointer moves over the large map."""
    box = page.locator("#attention .large").bounding_box()
    for start, end in itertools.pairwise(PATH):
        for step in range(STEPS + 1):
            part = step / STEPS
            fractions = [(1 - part) * a + part * b for a, b in zip(start, end, strict=True)]
            x, y = box["x"] + fractions[0] * box["width"], box["y"] + fractions[1] * box["height"]
            page.mouse.move(x, y)
            page.wait_for_timeout(60)  # the map is drawn in the next animation frame
            yield take_frame(page, (x, y)), REST_MS if step == STEPS else MOVE_MS
    page.mouse.move(0, 0)


def record_layers(page: Page) -> Iterator[Frame]:
    """Yield one frame per layer, from the first layer to the last."""
    count = int(page.locator("#attention .layers").get_attribute("aria-valuemax"))
    for layer in range(1, count + 1):
        page.evaluate("layer => vitdemo.store.set({ layer })", layer)
        wait_until_drawn(page, layer=layer)
        yield take_frame(page), REST_MS if layer == count else LAYER_MS


def take_frame(page: Page, pointer: tuple[float, float] | None = None) -> Image.Image:
    """Return the visible page; screenshots have no pointer, so one is drawn."""
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    if pointer:
        outline = [(x + pointer[0], y + pointer[1]) for x, y in CURSOR]
        ImageDraw.Draw(image).polygon(outline, fill="black", outline="white")
    return image


def save_animation(frames: list[Frame], path: Path) -> None:
    """Write an endless WebP animation; raises `ValueError` if the file is too large."""
    size = (WIDTH, round(WIDTH * VIEWPORT["height"] / VIEWPORT["width"]))
    first, *others = [image.resize(size, Image.Resampling.LANCZOS) for image, _ in frames]
    durations = [milliseconds for _, milliseconds in frames]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, quality=70)
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; the limit is {MAX_BYTES}")


if __name__ == "__main__":
    main()
