"""Images of users on the exported site, whose data the browser computes without Python."""

import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, Route, expect

from tests.browser.test_static_site import open_site as open_site
from tests.browser.test_static_site import site_url as site_url
from tests.browser.test_static_site import wait_for_views
from vitdemo.data.image_files import crop_and_resize, crop_visible_square
from vitdemo.explain.attributions import METHODS
from vitdemo.page import FEATURE, image_sources
from vitdemo.page.bridge import ImageFile, compute_view
from vitdemo.page.explore.perturbation import presets
from vitdemo.page.view_state import get_needs, parse_view_state
from vitdemo.site.record import Recorder

POSITION = 0.3  # of the square
# Returns the answer of a view for an image; each file is replaced by its content.
JS_ANSWER = """async ([name, model, picture, at, chosen]) => {
  const { ask, upload } = await import("vitdemo/site/recorded.js");
  const { STATE_KEYS } = await import("vitdemo/page/generated.js");
  const { description } = JSON.parse(document.querySelector("#site").textContent);
  const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const { path } = await upload(new File([decode(picture)], "own.png", { type: "image/png" }));
  const { state } = await import("vitdemo/page/store.js");
  const given = { image: { source: "own", path, at }, model, ...chosen };
  const known = (key) => given[key] ?? state[key] ?? STATE_KEYS[key].start;
  const values = description.needs[name].map(known);
  const views = { [name]: JSON.stringify([0, ...values]) };
  const { text } = await ask({ id: 1, state: { ...state, model }, views });
  async function read(value) {
    if (value?.url) {
      const bytes = new Uint8Array(await (await fetch(value.url)).arrayBuffer());
      return { file: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) };
    }
    if (!value || typeof value !== "object") return value;
    const entries = await Promise.all(
      Object.entries(value).map(async ([key, each]) => [key, await read(each)]));
    return Array.isArray(value) ? entries.map(([, each]) => each) : Object.fromEntries(entries);
  }
  const { key: _, ...answer } = JSON.parse(text).views[name];
  return read(answer);
}"""
# Runs a task for an image, cancels it when its second part begins, and runs it again.
# Returns the number of its messages, its last message, and the data of the view `name`.
JS_TASK = """async ([task, name, model, picture, at]) => {
  const { cancel, find, start, upload } = await import("vitdemo/site/recorded.js");
  const { description } = JSON.parse(document.querySelector("#site").textContent);
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  const { path } = await upload(new File([bytes], "own.png", { type: "image/png" }));
  const store = await import("vitdemo/page/store.js");
  const state = { ...store.state, image: { source: "own", path, at }, model };
  let isBegun = false;
  for await (const { text } of start({ id: 0, task, state })) {
    const { done } = JSON.parse(text);
    if (isBegun && done === 0) cancel({ id: 0 });
    isBegun ||= done > 0;
  }
  let [count, last] = [0, null];
  for await (const { text } of start({ id: 1, task, state })) {
    [count, last] = [count + 1, JSON.parse(text)];
  }
  const values = description.needs[name].map((key) => state[key] ?? store.keys[key].start);
  const { data } = await find(name, JSON.stringify([0, ...values]));
  return [count, last, data];
}"""
JS_CROP = """async ([text, width, height, at, size, crop, interpolation]) => {
  const { cropAndResize, findSquare, limitSquare } =
    await import("vitdemo/site/pixels.js");
  const data = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const { left, top, side } = findSquare(width, height, at);
  const square = new Uint8Array(3 * side * side);
  for (let row = 0; row < side; row++) {
    const start = 3 * ((row + top) * width + left);
    square.set(data.subarray(start, start + 3 * side), 3 * row * side);
  }
  const limited = limitSquare({ data: square, width: side, height: side });
  return [...cropAndResize(limited, size, crop, interpolation).data];
}"""

# Returns the names of predicted classes for images: each read at once, and all read at the end.
JS_NAMES = """async (pictures) => {
  const { find } = await import("vitdemo/site/recorded.js");
  const { keepImage } = await import("vitdemo/site/own_images.js");
  const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const list = ({ data }) => data.lens.named.names.join();
  const [before, answers] = [[], []];
  for (const picture of pictures) {
    const path = keepImage(new Blob([decode(picture)]), false);
    const image = { source: "own", path, at: 0.5 };
    answers.push(await find("layer_by_layer", JSON.stringify([0, image, "timm"])));
    before.push(list(answers.at(-1)));
  }
  return [before, answers.map(list)];
}"""

JS_FAILING_WORKER = """window.Worker = class {
  postMessage() { setTimeout(() => this.onerror(new Event("error"))); }
};"""


def make_picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Return an image of smooth random colours."""
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


def encode(image: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, **{"format": "PNG", **options})
    return buffer.getvalue()


def compute_answer(context, name: str, model: str, content: bytes, folder, chosen: dict) -> object:
    """Return the answer of Python's payload function, with the content of its files."""
    path = folder / "own.png"
    path.write_bytes(content)
    image = {"source": "own", "path": str(path), "at": POSITION}
    state = {"image": image, "model": model, **chosen}
    answer = json.loads(Recorder(context, folder).compute(FEATURE.payloads[name], state))

    def read(value: object) -> object:
        if isinstance(value, dict):
            if "url" in value:  # a small file
                return {"file": value["url"].partition("base64,")[2]}
            if "file#" in value:
                file = folder / answer["files"][value["file#"]]["url"]
                return {"file": base64.b64encode(file.read_bytes()).decode()}
            return {key: read(each) for key, each in value.items()}
        return [*map(read, value)] if isinstance(value, list) else value

    return read(json.loads(answer["text"]))


def assert_same(actual: object, expected: object, path: str = "") -> None:
    """Compare answers; numbers may differ by the rounding of float16."""
    if isinstance(expected, dict) and "file" in expected:
        return assert_same_files(*(base64.b64decode(each["file"]) for each in (actual, expected)))
    if isinstance(expected, dict):
        assert actual.keys() - {"offer"} == expected.keys(), path
        for key in expected:
            assert_same(actual[key], expected[key], f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), path
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            assert_same(*pair, f"{path}.{i}")
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, abs=6e-3), path
    else:
        assert actual == expected, path


def assert_same_files(actual: bytes, expected: bytes) -> None:
    if not expected.startswith((b"vdm1", b"vdf1")):
        pictures = [np.asarray(Image.open(io.BytesIO(each))) for each in (actual, expected)]
        return np.testing.assert_allclose(pictures[0][..., :3].astype(int), pictures[1], atol=1)
    assert actual[:20] == expected[:20]
    dtype = "<f2" if expected.startswith(b"vdm1") else "<f4"
    values = [np.frombuffer(each[20:], dtype).astype(float) for each in (actual, expected)]
    np.testing.assert_allclose(*values, atol=1e-3)


CHOSEN = {  # values of the inputs of graphs
    "fusion": "max",
    "discard": 0.55,
    "residual": False,
    "first_layer": 2,
    "head": 2,
    "pieces": 4,
    "rotate": 30,
    "brightness": 0.7,
    "blur": 3,
    "noise": 20,
    "removed": "8.8.ff00ff",
    "explained_class": "cat",
    "layer": 2,
    "heads_off": "1.1 2.2",
    "first_blocked": 2,
    "last_blocked": 3,
}


@pytest.mark.parametrize("name", [*FEATURE.graphs])
def test_data_of_an_own_image_are_those_of_the_payload_function(
    open_site, shown, monkeypatch, tmp_path, name
):
    needed = {key.name for key in get_needs(FEATURE.payloads[name]).watched}
    chosen = {key: value for key, value in CHOSEN.items() if key in needed}
    monkeypatch.setattr(image_sources, "are_uploads", lambda paths: True)
    monkeypatch.setattr(presets, "ImageFile", lambda pixels, **_: ImageFile(pixels))  # lossless
    content = encode(make_picture(150, 90))
    page = open_site()
    for model in ("vit", "timm", "resnet"):
        picture = base64.b64encode(content).decode()
        actual = page.evaluate(JS_ANSWER, [name, model, picture, POSITION, chosen])
        expected = compute_answer(shown, name, model, content, tmp_path, chosen)
        if graph_list := FEATURE.graphs[name].models:  # only models that were chosen before
            found = {each["run"] for each in actual["data"][graph_list]}
            assert model in found
            all_models = expected["data"][graph_list]
            expected["data"][graph_list] = [each for each in all_models if each["run"] in found]
        assert_same(actual, expected)


def run_in_python(context, task: str, name: str, model: str, content: bytes, folder):
    """Return the result of a task, and the data of the view `name` after it."""
    (folder / "own.png").write_bytes(content)
    image = {"source": "own", "path": str(folder / "own.png"), "at": POSITION}
    state = parse_view_state({"image": image, "model": model})
    result = FEATURE.tasks[task](context, state, lambda *progress: None)
    return result, compute_view(FEATURE.payloads[name], context, {"image": image, "model": model})


@pytest.mark.parametrize("model", ["vit", "timm", "resnet"])
def test_slow_maps_of_an_own_image_are_those_of_python(
    open_site, shown, monkeypatch, tmp_path, model
):
    monkeypatch.setattr(image_sources, "are_uploads", lambda paths: True)
    task, name, content = (
        "class_attribution.slow",
        "class_attribution",
        encode(make_picture(90, 90)),
    )
    picture = base64.b64encode(content).decode()
    page = open_site()
    wait_for_views(page)
    count, last, actual = page.evaluate(JS_TASK, [task, name, model, picture, POSITION])
    assert count > 1 and last == {"id": 1, "end": True, "data": None, "error": None}
    expected = run_in_python(shown, task, name, model, content, tmp_path)[1]["data"]
    names = [each["name"] for each in expected["maps"]]
    assert [each["name"] for each in actual["maps"]] == names
    assert {"occlusion", "integrated_gradients"} < {*names}
    for found, wanted in zip(actual["maps"], expected["maps"], strict=True):
        if METHODS[wanted["name"]].is_slow:
            np.testing.assert_allclose(found["values"], wanted["values"], atol=2e-4)
            assert {**found, "values": 0} == {**wanted, "values": 0}
    assert (actual["has_slow"], actual["is_untested"]) == (False, True)


@pytest.mark.parametrize("model", ["vit", "resnet"])
def test_the_search_for_an_own_image_finds_the_patches_of_python(
    open_site, shown, monkeypatch, tmp_path, model
):
    monkeypatch.setattr(image_sources, "are_uploads", lambda paths: True)
    task, name, content = "fewest_patches", "changed_predictions", encode(make_picture(90, 90))
    picture = base64.b64encode(content).decode()
    page = open_site()
    wait_for_views(page)
    _, last, _ = page.evaluate(JS_TASK, [task, name, model, picture, POSITION])
    expected, _ = run_in_python(shown, task, name, model, content, tmp_path)
    assert last["error"] is None
    # A rounded pixel may differ by one grey level.
    assert last["data"].pop("probability") == pytest.approx(expected.pop("probability"), abs=6e-3)
    assert last["data"] == expected


def test_tasks_of_an_own_photo_show_progress_and_results(open_site):
    page = open_site("model=vit&section=class-attribution")
    wait_for_views(page)
    choose_own_photo(page)
    maps = page.locator("#attribution-maps .small button")
    wait_for_views(page)
    count = maps.count()
    page.get_by_role("button", name="Compute slow maps").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Compute slow maps")).to_be_enabled()
    page.get_by_role("button", name="Compute slow maps").click()
    expect(maps).to_have_count(count + 2)
    expect(page.get_by_role("button", name="Compute slow maps")).to_be_hidden()
    page.get_by_role("tab", name="Fool the model").click()
    page.get_by_role("button", name="Find fewest").click()
    message = page.locator("#hands-answers .message")
    expect(message).to_contain_text(re.compile("ound in [0-9,]+ tested"))


def test_the_line_about_loading_disappears_after_shared_weights(open_site):
    """The second graph needs a small file and the weights of the first one."""
    page = open_site("model=vit")
    wait_for_views(page)
    choose_own_photo(page)
    wait_for_views(page)
    page.evaluate("vitdemo.store.set({ section: 'inside', inside: 'ablation' })")
    expect(page.locator("#part-ablation [data-view=head_ablation] button").first).to_be_visible()
    wait_for_views(page)
    # Without a further part, the line disappears after 20 seconds.
    expect(page.locator(".vd-loading")).to_have_count(0, timeout=10_000)


CROPS = [
    ((300, 200), 0.5, 64, 1.0, "bicubic"),
    ((1300, 1500), 0.3, 64, 0.9, "bicubic"),  # first reduced to 1024 pixels
    ((40, 57), 1.0, 64, 1.0, "bicubic"),
    ((64, 64), 0.5, 64, 1.0, "bicubic"),
    ((33, 35), 0.0, 112, 0.875, "bilinear"),
    ((350, 250), 0.77, 48, 0.95, "lanczos"),
]


@pytest.mark.parametrize("case", CROPS, ids=str)
def test_crop_in_the_browser_equals_the_crop_in_python(open_site, case):
    (width, height), position, size, fraction, interpolation = case
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    square = crop_visible_square(Image.fromarray(pixels), position=position)
    expected = np.asarray(crop_and_resize(square, size, fraction, interpolation))
    text = base64.b64encode(pixels.tobytes()).decode()
    arguments = [text, width, height, position, size, fraction, interpolation]
    actual = open_site().evaluate(JS_CROP, arguments)
    np.testing.assert_array_equal(np.reshape(actual, expected.shape), expected)


def choose_photo(
    page: Page, content: bytes, name: str = "own.png", kind: str = "image/png"
) -> None:
    page.locator("#picture input[type=file]").set_input_files(
        {"name": name, "mimeType": kind, "buffer": content}
    )


def choose_own_photo(page: Page) -> None:
    """Choose a photo of random colours, and wait until it is shown."""
    choose_photo(page, encode(make_picture(120, 80)))
    expect(page.locator("#picture .about")).to_contain_text("Your photo")


def test_an_own_photo_is_shown_with_prediction_and_attention(open_site):
    page = open_site("model=vit")
    wait_for_views(page)
    before = page.locator("#answers").inner_text()
    choose_own_photo(page)
    expect(page.locator("#picture .privacy")).to_be_visible()
    expect(page.locator("#answers .known").last).to_contain_text("Choose another model to load it")
    wait_for_views(page)
    assert page.locator("#answers").inner_text() != before
    expect(page.locator("#attention .title")).to_be_visible()
    page.locator("#model select").select_option("timm")
    expect(page.locator("#answers .card")).to_have_count(2)  # both loaded models
    page.locator("#picture .crop").focus()
    page.keyboard.press("ArrowRight")
    wait_for_views(page)
    page.get_by_role("tab", name="Why this class?").click()
    expect(page.locator("#attribution-maps .verdict")).to_contain_text(
        "not tested on this image yet"
    )
    page.locator("#attribution-details summary").click()
    expect(page.get_by_text("does not compute this result").first).to_be_visible()


def test_the_result_of_an_image_does_not_change_the_results_of_others(open_site):
    page = open_site("model=timm")
    wait_for_views(page)
    pictures = [encode(make_picture(64, 64, seed)) for seed in range(4)]
    encoded = [base64.b64encode(each).decode() for each in pictures]
    at_once, at_the_end = page.evaluate(JS_NAMES, encoded)
    assert len(set(at_once)) > 1
    assert at_the_end == at_once


def test_states_of_example_photos_that_are_not_recorded_are_computed(open_site):
    page = open_site("model=vit&section=class-attribution")
    wait_for_views(page)
    question = page.locator("#attribution-maps .intro")
    recorded = question.inner_text().split("?")[0].removeprefix("Why ")
    other = "frog" if recorded != "frog" else "ship"
    page.locator("#explained-class select").select_option(other)
    expect(question).to_contain_text(f"Why {other}?")
    expect(page.get_by_role("button", name="Test faithfulness")).to_be_hidden()  # needs Python
    maps = page.locator("#attribution-maps .small button")
    count = maps.count()
    page.get_by_role("button", name="Compute slow maps").click()
    expect(maps).to_have_count(count + 2)


def test_a_removed_patch_changes_the_predictions(open_site):
    page = open_site("model=vit&section=hands")
    wait_for_views(page)
    shares = page.locator("#hands-answers .pairs")
    before = shares.inner_text()
    page.locator("#changed-image .board").focus()
    for key in ("ArrowRight", "Enter", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#hands-answers .score")).to_contain_text("2 of 64")
    page.evaluate("vitdemo.store.set({ removed: '8.8.ffffffff' })")
    expect(shares).not_to_have_text(before, use_inner_text=True)


def test_a_file_that_is_no_image_keeps_the_photo(open_site):
    page = open_site("model=vit")
    wait_for_views(page)
    choose_photo(page, b"no image", "own.tiff", "image/tiff")
    expect(page.locator("#picture .say")).to_contain_text("Save it as PNG or JPEG")
    expect(page.locator("#picture .about")).to_contain_text("cat")
    wait_for_views(page)


# The text about the photo may appear before the layout of the photo is final.
JS_IS_UPRIGHT = """() => {
    const [crop, whole] = ["crop", "whole"].map((name) =>
        document.querySelector(`#picture .${name}`).getBoundingClientRect());
    return crop.height < whole.height && Math.abs(crop.width - whole.width) <= 4;
}"""


def test_an_upright_photo_is_read(open_site):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    page = open_site("model=vit")
    wait_for_views(page)
    choose_photo(
        page, encode(make_picture(120, 80), format="JPEG", exif=exif), "own.jpg", "image/jpeg"
    )
    expect(page.locator("#picture .about")).to_contain_text("Your photo")
    page.wait_for_function(JS_IS_UPRIGHT)


@pytest.mark.parametrize("fault", ["missing", "half"])
def test_weights_that_do_not_arrive_are_named_and_loaded_again(browser, site_url, fault):
    page = browser.new_page()

    def fail(route: Route) -> None:
        if fault == "missing":
            return route.abort()
        content = route.fetch().body()
        return route.fulfill(body=content[: len(content) // 2])

    page.goto(f"{site_url}?model=vit")
    wait_for_views(page)
    page.route("**/data/graphs/*.bin", fail)
    choose_photo(page, encode(make_picture(120, 80)))
    expect(page.locator("#attention")).to_contain_text("The model could not be loaded")
    page.unroute("**/data/graphs/*.bin")
    choose_photo(page, encode(make_picture(120, 80)))
    expect(page.locator("#attention .title")).to_be_visible()
    page.close()


def test_a_browser_without_workers_says_so(browser, site_url):
    page = browser.new_page()
    page.add_init_script(JS_FAILING_WORKER)
    page.goto(f"{site_url}?model=vit")
    wait_for_views(page)
    choose_photo(page, encode(make_picture(120, 80)))
    expect(page.locator("#picture .say")).to_contain_text("cannot")
    expect(page.locator("#attention .title")).to_be_visible()
    page.close()


def test_a_browser_without_simd_says_so(browser, site_url):
    def remove_simd(route: Route) -> None:
        script = f"{route.fetch().text()}\nWebAssembly.validate = () => false;"
        route.fulfill(body=script, content_type="text/javascript")

    page = browser.new_page()
    page.route("**/site/worker.js", remove_simd)
    page.goto(f"{site_url}?model=vit")
    wait_for_views(page)
    choose_photo(page, encode(make_picture(120, 80)))
    expect(page.locator("#attention")).to_contain_text("This browser cannot run the model")
    expect(page.locator("#picture .about")).to_contain_text("Your photo")
    page.locator("#tabs-results-tab").click()
    wait_for_views(page)
    page.close()
