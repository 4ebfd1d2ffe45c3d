"""Compare own photos on a static site with Python, for 54 variants of the example photos.

    python app.py export-site SITE && python benchmarks/site_photos.py SITE

The variants differ in size, shape, EXIF orientation and file format. Each one is decoded by
Chromium and by Python. The table lists the largest difference of the decoded square, of the model's
crop, and of the probabilities in percentage points. "Logits" compares the browser's logits with
those of Python for the browser's own crop, so the decoder has no influence. Logits are known up to
a constant, for classes with a probability above `MIN_PROBABILITY`.
"""

import argparse
import base64
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageCms
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.file_server import serve_files  # noqa: E402
from vitdemo import console  # noqa: E402
from vitdemo.context import AppContext  # noqa: E402
from vitdemo.data.image_files import crop_visible_square, load_image  # noqa: E402
from vitdemo.data.photos import example_files  # noqa: E402
from vitdemo.errors import ImageError  # noqa: E402
from vitdemo.runs import Run  # noqa: E402

MIN_PROBABILITY = 1e-3
MAX_LOGIT_DIFFERENCE = 0.02
POSITION = 0.3  # of the square along the longer side
ORIENTATION = 0x0112
# Returns {error}, or the image's size, the decoded square as PNG, and the data of both views.
JS_COMPUTE = """async ([url, at, models]) => {
  const load = (path) => import(new URL(path, document.baseURI));
  const { find, upload, description } = await load("files/site/recorded.js");
  const { findSquare } = await load("files/site/pixels.js");
  const { keys } = await load("files/page/store.js");
  const file = new File([await (await fetch(url)).blob()], "own");
  const { path } = await upload(file);
  const ask = (name, model) => {
    const given = { image: { source: "own", path, at }, model };
    const state = description.needs[name].map((key) => given[key] ?? keys[key].start);
    return find(name, JSON.stringify([0, ...state]));
  };
  const opened = await ask("image_input", models[0]);
  if (opened.error) return opened;
  const encode = async (blob) => {
    const reader = new FileReader();
    await new Promise((done) => { reader.onload = done; reader.readAsDataURL(blob); });
    return reader.result.split(",")[1];
  };
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" });
  const { left, top, side } = findSquare(bitmap.width, bitmap.height, at);
  const canvas = new OffscreenCanvas(side, side);
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, side, side);
  context.drawImage(bitmap, left, top, side, side, 0, 0, side, side);
  const found = { size: opened.data.size, square: await encode(await canvas.convertToBlob()) };
  for (const model of models) {
    const predictions = (await ask("predictions", model)).data.models;
    const attention = (await ask("attention", model)).data;
    const { classes, probabilities } = predictions.find(({ run }) => run === model);
    const crop = await encode(await (await fetch(attention.seen.url)).blob());
    found[model] = { classes, probabilities, crop };
  }
  return found;
}"""


def main() -> None:
    console.escape_unprintable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="exported site with graphs of the models")
    parser.add_argument("--models", nargs="+", default=["vit-scratch", "finetune-deit-tiny"])
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "assets" / "runs", help="folder that contains the runs"
    )
    args = parser.parse_args()
    context = AppContext([args.runs], None, torch.device("cpu"))
    runs = [context.find_run(name) for name in args.models]
    with (
        tempfile.TemporaryDirectory() as temporary,
        serve_files(args.site) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        page = browser.new_page()
        page.goto(f"{address}?model={runs[0].name}")
        page.locator("#attention .title").wait_for()
        print("| variant | size | decoded square | crop | probability | logits |")
        print("|---|---|---|---|---|---|")
        for name, content in list_variants():
            file = Path(temporary) / name
            file.write_bytes(content)
            print(f"| {name} | {compare_file(page, file, context, runs)} |", flush=True)
        browser.close()


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def list_variants() -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files."""
    photos = [load_image(file) for file in example_files()]
    yield from list_sizes(photos)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        small = photos[orientation % len(photos)].resize((300, 200))
        yield f"orientation-{orientation}.jpg", encode(small, "JPEG", exif=exif)
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    for kind in ("PNG", "WEBP"):
        options = {"lossless": True} if kind == "WEBP" else {}
        content = encode(photos[0].resize((300, 200)), kind, exif=exif, **options)
        yield f"orientation-6.{kind.lower()}", content
    yield from list_png(photos)
    yield from list_lossy(photos)
    yield "photo.tiff", encode(photos[0], "TIFF")
    yield "photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + bytes(200)
    yield "text.png", b"no image"


def list_sizes(photos: list[Image.Image]) -> Iterator[tuple[str, bytes]]:
    sizes = [(20, 20), (21, 33), (64, 64), (97, 80), (500, 375), (1024, 1024), (1025, 1500)]
    for i, size in enumerate(sizes):
        name = f"size-{size[0]}x{size[1]}.png"
        yield name, encode(photos[i % len(photos)].resize(size), "PNG")
    for i, size in enumerate([(2000, 3000), (4000, 3000), (6000, 4000), (6000, 400), (300, 6000)]):
        name = f"size-{size[0]}x{size[1]}.jpg"
        yield name, encode(photos[i % len(photos)].resize(size), "JPEG", quality=92)


def list_png(photos: list[Image.Image]) -> Iterator[tuple[str, bytes]]:
    """Yield lossless files of several modes."""
    small = photos[1].resize((400, 300))
    grey = np.asarray(small.convert("L"))
    alpha = Image.fromarray(np.tile(np.linspace(0, 255, 400).astype(np.uint8), (300, 1)))
    with_alpha = small.copy()
    with_alpha.putalpha(alpha)
    hole = small.convert("P", palette=Image.Palette.ADAPTIVE)
    wide = grey.astype(np.uint16) * 257 + 40  # not a multiple of 257
    yield "alpha.png", encode(with_alpha, "PNG")
    yield "palette.png", encode(small.convert("P", palette=Image.Palette.ADAPTIVE), "PNG")
    yield "palette-transparent.png", encode(hole, "PNG", transparency=0)
    yield "grey.png", encode(Image.fromarray(grey), "PNG")
    yield "grey-alpha.png", encode(with_alpha.convert("LA"), "PNG")
    yield "grey-16-bit.png", encode(Image.fromarray(np.minimum(wide, 65535)), "PNG")
    yield "one-bit.png", encode(small.convert("1"), "PNG")
    yield "picture.gif", encode(small, "GIF")
    yield "picture.bmp", encode(small, "BMP")
    yield "lossless.webp", encode(small, "WEBP", lossless=True)
    yield "alpha-lossless.webp", encode(with_alpha, "WEBP", lossless=True, exact=True)
    yield "profile.png", encode(small, "PNG", icc_profile=make_profile())


def list_lossy(photos: list[Image.Image]) -> Iterator[tuple[str, bytes]]:
    for i, quality in enumerate((10, 50, 75, 90, 100)):
        for sampling in ("4:4:4", "4:2:0"):
            name = f"quality-{quality}-{sampling.replace(':', '')}.jpg"
            options = {"quality": quality, "subsampling": sampling}
            yield name, encode(photos[i % len(photos)].resize((640, 480)), "JPEG", **options)
    small = photos[2].resize((501, 377))
    yield "422.jpg", encode(small, "JPEG", subsampling="4:2:2")
    yield "progressive.jpg", encode(small, "JPEG", progressive=True)
    yield "grey.jpg", encode(small.convert("L"), "JPEG")
    yield "cmyk.jpg", encode(small.convert("CMYK"), "JPEG")
    yield "profile.jpg", encode(small, "JPEG", icc_profile=make_profile())
    yield "lossy.webp", encode(small, "WEBP", quality=80)
    yield "lossy.avif", encode(small, "AVIF", quality=80)


def make_profile() -> bytes:
    """Return an ICC profile in which red and blue are exchanged, so that its use is visible."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exchanged = {b"rXYZ": b"bXYZ", b"bXYZ": b"rXYZ"}  # signatures of the tag table
    return re.sub(rb"[rb]XYZ(?=.{8})", lambda found: exchanged[found[0]], profile, flags=re.DOTALL)


def compare_file(page: Page, file: Path, context: AppContext, runs: list[Run]) -> str:
    """Return the cells of the table for a file."""
    page.route("**/variant/*", lambda route: route.fulfill(path=file))
    names = [run.name for run in runs]
    found = page.evaluate(JS_COMPUTE, [f"variant/{file.name}", POSITION, names])
    page.unroute("**/variant/*")
    if "error" in found:
        try:
            load_image(file)
        except ImageError as error:
            return f"refused: {found['error']} Python: {error}"
        return f"refused: {found['error']} Python reads the file."
    image = load_image(file)
    square = crop_visible_square(image, position=POSITION)
    whole = crop_visible_square(image, max_side=max(image.size), position=POSITION)
    cells = [f"{image.width} x {image.height}", describe_levels(found["square"], whole)]
    if found["size"] != [*image.size]:
        cells[0] += f", browser: {found['size']}"
    crops, probabilities, logits = [], [], []
    for run in runs:
        data = found[run.name]
        crop, pixels = context.prepare_input(run.preprocessing, square)
        crops.append(describe_levels(data["crop"], Image.fromarray(crop)))
        _, of_file = compare_predictions(context, run, pixels, data)
        probabilities.append(of_file)
        seen = np.asarray(decode(data["crop"])).transpose(2, 0, 1).copy()
        given = run.preprocessing(torch.from_numpy(seen)[None])
        logits.append(compare_predictions(context, run, given, data)[0])
    cells += [", ".join(crops), f"{100 * max(probabilities):.2f}", f"{max(logits):.5f}"]
    if max(logits) > MAX_LOGIT_DIFFERENCE:
        raise ValueError(f"{file.name}: logits differ by {max(logits):.3f}")
    return " | ".join(cells)


def decode(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")


def describe_levels(text: str, expected: Image.Image) -> str:
    """Return the largest and the mean difference in grey levels, or both sizes."""
    actual = decode(text)
    if actual.size != expected.size:
        return f"{actual.size} instead of {expected.size}"
    difference = np.abs(np.asarray(actual, int) - np.asarray(expected, int))
    return f"{difference.max()} ({difference.mean():.2f})" if difference.any() else "0"


def compare_predictions(
    context: AppContext, run: Run, pixels: torch.Tensor, data: dict
) -> tuple[float, float]:
    """Return the largest differences of logits and of probabilities from the browser's `data`."""
    with torch.inference_mode():
        logits = context.load_model(run)(pixels)[0]
    indices = [run.classes.index(name) for name in data["classes"]]
    actual = np.array(data["probabilities"])
    expected = logits.softmax(0)[indices].numpy().astype(float)
    is_known = (actual > MIN_PROBABILITY) & (expected > MIN_PROBABILITY)
    difference = np.log(actual[is_known]) - logits[indices].numpy()[is_known]
    return float(np.ptp(difference)), float(np.abs(actual - expected).max())


if __name__ == "__main__":
    main()
