"""Activation patching in a real Chromium: with the mouse, the keyboard and from an address."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    fits_window,
    record_requests,
    set_model,
    set_state,
    upload,
    wait_until_idle,
)
from tests.support import held_tasks
from tests.support.factories import make_run

IDS = "patching-images+patching-prediction+patching-maps"
QUERY = "picture=photo:cat&model=timm&section=inside&inside=patching"


@pytest.fixture
def open_patching(open_views, shown_views):
    """Return a function that shows the three views of a model without the page around them."""

    def open_patching(query: str = "") -> Page:
        return open_views(shown_views, IDS, f"{QUERY}&{query}", is_new=True)

    return open_patching


def find_board(page: Page):
    return page.locator("#patching-images .board").first


def find_text(page: Page):
    return page.locator("#patching-prediction p[role=status]")


def find_marks(page: Page):
    return find_board(page).locator(".patch")


def wait_for_maps(page: Page):
    """Return the buttons of the layers after the task that the browser starts by itself."""
    buttons = page.locator("#patching-maps .layers button")
    expect(buttons.locator("canvas")).to_have_count(buttons.count())
    return buttons


def test_patches_are_replaced_with_the_mouse_in_both_images(open_patching):
    page = open_patching()
    expect(find_text(page)).to_contain_text("No token is replaced")
    wait_for_maps(page)
    board, second = find_board(page), page.locator("#patching-images .board").nth(1)
    side = board.bounding_box()["width"] / 4
    board.click(position={"x": 1.5 * side, "y": 0.5 * side})  # row 1, column 2
    expect(find_marks(page)).to_have_count(1)
    page.wait_for_function("vitdemo.store.state['patching.tokens'] === '1,2'")
    title = page.locator("#patching-prediction h3")
    expect(title).to_have_text("Image 1 with 1 patch of image 2, before layer 1")
    expect(find_text(page)).to_contain_text(re.compile(r"One random patch instead: .* 8 draws"))
    box = second.bounding_box()
    page.mouse.move(box["x"] + 0.5 * side, box["y"] + 2.5 * side)
    page.mouse.down()
    page.mouse.move(box["x"] + 2.5 * side, box["y"] + 2.5 * side, steps=8)
    page.mouse.up()
    expect(find_marks(page)).to_have_count(4)
    page.wait_for_function("vitdemo.store.state['patching.tokens'] === '1,2 3,1 3,2 3,3'")
    expect(title).to_have_text("Image 1 with 4 patches of image 2, before layer 1")
    board.click(position={"x": 1.5 * side, "y": 0.5 * side})
    expect(find_marks(page)).to_have_count(3)
    page.get_by_role("button", name="Restore all").click()
    expect(find_marks(page)).to_have_count(0)
    expect(find_text(page)).to_contain_text("No token is replaced")


def test_patches_and_layers_are_chosen_with_the_keyboard(open_patching):
    page = open_patching()
    buttons = wait_for_maps(page)
    find_board(page).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#patching-images .read")).to_have_text("Row 4, column 2")
    expect(find_marks(page)).to_have_count(1)
    page.wait_for_function("vitdemo.store.state['patching.tokens'] === '4,2'")
    slider = page.locator("#patching-layer")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "after layer 1")
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    buttons.nth(1).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(buttons.nth(2)).to_have_attribute("aria-pressed", "true")
    expect(slider).to_have_value("2")
    # After the last layer, the classifier does not read the patch.
    expect(find_text(page)).to_contain_text("timm still predicts")
    expect(find_text(page)).to_contain_text("Share of the change to image 2: 0.00")


def test_buttons_replace_whole_sets_of_tokens(open_patching):
    page = open_patching("patching.layer=2")
    names = page.locator("#patching-images figcaption").all_inner_texts()
    other = re.match(r"Image 2: (\w+)", names[1])[1]
    token = page.get_by_role("button", name="Class token")
    token.click()
    expect(token).to_have_attribute("aria-pressed", "true")
    expect(find_text(page)).to_contain_text(re.compile(f"(now|still) predicts {other}"))
    expect(find_text(page)).to_contain_text("Share of the change to image 2: +1.00")
    token.click()
    page.get_by_role("button", name="All patches").click()
    page.wait_for_function("vitdemo.store.state['patching.tokens'] === 'patches'")
    expect(find_marks(page)).to_have_count(16)
    set_state(page, "patching.layer", 0)
    expect(find_text(page)).to_contain_text("Share of the change to image 2: +1.00")
    expect(find_text(page)).not_to_contain_text("random")


def test_choices_need_one_request_and_do_not_compute_the_maps_again(open_patching):
    page = open_patching("patching.tokens=t0")
    buttons = wait_for_maps(page)
    wait_until_idle(page)
    requests = record_requests(page)
    buttons.nth(1).click()
    expect(page.locator("#patching-prediction h3")).to_contain_text("after layer 1")
    wait_until_idle(page)
    assert len(requests) == 1
    before = page.locator("#patching-maps svg").inner_html()
    page.get_by_role("button", name="All patches").click()
    expect(page.locator("#patching-prediction h3")).to_contain_text("all 16 patches")
    assert page.locator("#patching-maps svg").inner_html() == before
    expect(page.get_by_role("button", name="Compute maps")).to_be_hidden()


def test_address_restores_the_choices_and_replaces_invalid_values(open_patching):
    page = open_patching(
        "patching.image=photo:lion&patching.layer=99&patching.tokens=t0+t7+2,2+9,9"
    )
    select = page.get_by_label("Image 2", exact=True)
    expect(select).to_have_value("photo:lion")
    expect(page.locator("#patching-layer")).to_have_value("2")
    expect(find_marks(page)).to_have_count(1)
    title = page.locator("#patching-prediction h3")
    expect(title).to_have_text("Image 1 with the class token and 1 patch of image 2, after layer 2")
    select.select_option("tower")
    page.wait_for_url(re.compile("patching.image=photo:tower"))
    wait_for_maps(page)
    select.select_option("cat")
    note = page.locator("#patching-images .vd-said")
    expect(note).to_contain_text("Both images give the same logits")
    expect(find_text(page)).to_contain_text("Share of the change to image 2: 0.00")
    page = open_patching("patching.image=photo:none")
    expect(page.locator("#patching-images .board")).to_have_count(2)
    assert select.input_value() != "photo:none"


def test_own_photos_can_be_image_1(open_views, shown_views, photo):
    page = open_views(shown_views, f"picture+{IDS}", QUERY, is_new=True)
    wait_for_maps(page)
    source = page.locator("#patching-images img").first
    before = source.get_attribute("src")
    upload(page, photo)
    expect(source).not_to_have_attribute("src", before)
    wait_for_maps(page)
    page.get_by_role("button", name="Class token").click()
    expect(page.locator("#patching-prediction h3")).to_contain_text("the class token of image 2")


@pytest.mark.parametrize(
    ("name", "buttons", "curves"),
    [
        ("distilled", 3, ["class token", "special tokens", "all patches"]),
        ("registers", 3, ["class token", "special tokens", "all patches"]),
        ("average-pooled", 1, ["all patches"]),
    ],
)
def test_models_offer_the_tokens_that_they_have(open_views, kinds_views, name, buttons, curves):
    page = open_views(kinds_views, IDS, f"picture=photo:cat&model={name}", is_new=True)
    wait_for_maps(page)
    expect(page.locator("#patching-images [aria-pressed]")).to_have_count(buttons)
    legend = page.locator("#patching-maps .vd-layer-legend span")
    expect(legend).to_have_text([*curves, "random half of the patches"])
    page.locator("#patching-maps summary", has_text="Share by layer").click()
    rows = page.locator("#patching-maps .vd-numbers tbody tr")
    expect(rows).to_have_count(3)
    cells = rows.first.locator("td").all_inner_texts()
    assert "1.000" in cells  # all patches before the first layer


def test_models_without_attention_are_named_once(open_patching):
    page = open_patching()
    wait_for_maps(page)
    set_model(page, "resnet")
    expect(page.locator("#patching-images .vd-notice")).to_contain_text("has no attention")
    expect(page.locator(".vd-notice").locator("visible=true")).to_have_count(1)
    set_model(page, "vit")
    expect(page.locator("#patching-images .vd-notice")).to_have_count(0)
    expect(wait_for_maps(page)).to_have_count(4)


def test_maps_are_cancelled_and_computed_again(open_page, serve_runs, tmp_path):
    make_run(tmp_path / "runs" / "vit")
    hold = tmp_path / "runs" / held_tasks.HOLD_FILE
    hold.touch()
    page = open_page(f"{serve_runs(program=held_tasks.PROGRAM)}?section=inside&inside=patching")
    maps, cancel = page.locator("#patching-maps"), page.get_by_role("button", name="Cancel")
    compute = page.get_by_role("button", name="Compute maps")
    expect(maps).to_contain_text("Replacing tokens")  # the browser starts the task
    page.get_by_role("button", name="Class token").click()
    set_state(page, "patching.layer", 2)
    expect(page.locator("#patching-prediction h3")).to_contain_text("after layer 2")
    expect(cancel).to_be_visible()  # these choices do not stop the task
    cancel.click()
    expect(cancel).to_have_count(0)
    expect(compute).to_be_enabled()
    wait_until_idle(page)
    expect(maps.locator("canvas")).to_have_count(0)
    hold.unlink()
    compute.click()
    expect(maps.locator("canvas")).to_have_count(4)
    expect(compute).to_be_hidden()
    hold.touch()
    page.get_by_label("Image 2", exact=True).select_option("tower")
    expect(maps).to_contain_text("Replacing tokens")
    page.get_by_label("Image 2", exact=True).select_option("lion")  # stops the task for the tower
    hold.unlink()
    wait_for_maps(page)
    assert fits_window(page)
