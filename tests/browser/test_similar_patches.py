"""The part "Similar patches" in a real Chromium: with the mouse, the keyboard and an address."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    fits_window,
    record_requests,
    set_model,
    upload,
    wait_until_idle,
)
from tests.support.factories import make_context, make_run, write_noise_images

IDS = "picture+patch-colours+similar-patches"
QUERY = "picture=photo:cat&model=vit&section=inside&inside=similar_patches"
JS_PIXELS = """(canvas) => [...canvas.getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height).data].filter((_, i) => i % 4 < 3)"""

# The tabs of the page, which a page of views does not have, receive the focus.
JS_ADD_TAB = """() => document.body.insertAdjacentHTML(
    "beforeend", "<div id='tabs'><button role='tab'>Explore</button></div>")"""


@pytest.fixture(scope="module")
def dataset_views(view_server, tmp_path_factory) -> str:
    """Address of the views of a ViT and a ResNet with 30 test images."""
    root = tmp_path_factory.mktemp("similar")
    run = make_run(root / "runs" / "vit")
    counts = {f"{part}/{name}": 3 for part in ("train", "test") for name in run.classes}
    data = write_noise_images(root / "data", counts)
    return view_server.add(make_context(root / "runs", data_root=data))


@pytest.fixture
def open_patches(open_views, dataset_views):
    def open_patches(query: str = "") -> Page:
        return open_views(dataset_views, IDS, f"{QUERY}&{query}", is_new=True)

    return open_patches


def find_board(page: Page):
    return page.locator("#patch-colours .board").first


def find_results(page: Page):
    return page.locator("#similar-patches .found button")


def test_a_click_finds_similar_patches_and_opens_their_image(open_patches):
    page = open_patches("layer=2")
    expect(page.locator("#similar-patches")).to_contain_text("Click a patch")
    expect(page.get_by_role("button", name="Find similar patches")).to_be_hidden()
    side = find_board(page).bounding_box()["width"] / 4
    find_board(page).click(position={"x": 2.5 * side, "y": 1.5 * side})
    page.wait_for_function("vitdemo.store.state['similar_patches.patch'] === '2,3'")
    expect(find_results(page)).to_have_count(10)  # the browser starts the task
    expect(page.locator("#patch-colours .ring.chosen")).to_have_count(2)
    expect(page.locator("#similar-patches")).to_contain_text(
        "the patch in row 2, column 3 among 30 test images, after layer 2 of vit"
    )
    mark, image = (
        find_results(page).first.locator("i").bounding_box(),
        find_results(page).first.bounding_box(),
    )
    assert mark["width"] == pytest.approx(image["width"] / 4, abs=1)
    label = find_results(page).first.get_attribute("aria-label")
    row, column = map(int, re.search(r"row (\d), column (\d)", label).groups())
    assert mark["x"] - image["x"] == pytest.approx((column - 1) * image["width"] / 4, abs=1)
    assert mark["y"] - image["y"] == pytest.approx((row - 1) * image["height"] / 4, abs=1)
    number = find_results(page).first.get_attribute("data-pick")
    page.evaluate(JS_ADD_TAB)
    find_results(page).first.click()
    page.wait_for_function(f"vitdemo.store.state.image.source === 'test:{number}'")


def test_patches_and_layers_are_chosen_with_the_keyboard(open_patches):
    page = open_patches("layer=1")
    find_board(page).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#patch-colours .read")).to_have_text("Row 4, column 2")
    page.wait_for_function("vitdemo.store.state['similar_patches.patch'] === '4,2'")
    expect(find_results(page)).to_have_count(10)
    find_results(page).first.focus()
    page.keyboard.press("ArrowRight")
    expect(find_results(page).nth(1)).to_be_focused()
    layers = page.locator("#patch-colours .layers button")
    layers.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(layers.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#similar-patches .vd-said").first).to_contain_text("after layer 2")
    expect(find_results(page)).to_have_count(10)
    find_board(page).focus()
    page.keyboard.press("Enter")  # the cursor is hidden, so nothing changes
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function("vitdemo.store.state['similar_patches.patch'] === ''")


def test_another_layer_needs_no_request(open_views, dataset_views):
    page = open_views(dataset_views, "patch-colours", f"{QUERY}&layer=1", is_new=True)
    large = page.locator("#patch-colours .board canvas")
    before = large.evaluate(JS_PIXELS)
    assert before == page.locator("#patch-colours .photos canvas").first.evaluate(JS_PIXELS)
    assert len(before) == 16 * 3 and len({*before}) > 12  # the image is the first photo
    requests = record_requests(page)
    page.locator("#patch-colours .layers button").nth(2).click()
    expect(page.locator("#patch-colours")).to_contain_text("Colours after layer 3")
    wait_until_idle(page)
    assert not requests
    assert large.evaluate(JS_PIXELS) != before


def test_a_link_opens_layer_and_patch(open_patches):
    page = open_patches("layer=3&similar_patches.patch=1,4")
    expect(page.locator("#patch-colours .ring.chosen").first).to_be_visible()
    expect(page.locator("#similar-patches")).to_contain_text("row 1, column 4")
    page = open_patches("layer=99&similar_patches.patch=9,9")
    expect(page.locator("#patch-colours")).to_contain_text("Colours after layer 3")
    expect(page.locator("#patch-colours .ring.chosen").first).to_be_hidden()
    expect(page.locator("#similar-patches")).to_contain_text("Click a patch")


def test_own_photos_have_colours(open_views, dataset_views, photo):
    page = open_views(dataset_views, IDS, QUERY, is_new=True)
    source = page.locator("#patch-colours .board img")
    before = source.get_attribute("src")
    upload(page, photo)
    expect(source).not_to_have_attribute("src", before)


def test_without_a_dataset_the_download_is_offered(open_views, shown_views):
    page = open_views(shown_views, IDS, QUERY, is_new=True)
    expect(page.locator("#similar-patches")).to_contain_text("Download CIFAR-10")
    expect(page.locator("#patch-colours .board canvas")).to_be_visible()
    set_model(page, "resnet")
    expect(page.locator("#patch-colours .vd-notice")).to_contain_text("no attention")
    expect(page.locator("#similar-patches")).to_be_hidden()


@pytest.mark.parametrize("name", ["distilled", "registers", "average-pooled"])
def test_models_of_all_kinds_have_colours(open_views, kinds_views, name):
    page = open_views(kinds_views, IDS, f"picture=photo:cat&model={name}", is_new=True)
    expect(page.locator("#patch-colours .layers canvas")).to_have_count(2)
    page.set_viewport_size({"width": 390, "height": 844})
    assert fits_window(page)
