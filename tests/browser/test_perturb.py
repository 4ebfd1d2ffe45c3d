"""The section "Change the image" by mouse and by keyboard: all predictions follow."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    choose_model,
    download,
    fill_slider,
    fits_window,
    record_model_requests,
    upload,
    wait_until_idle,
)

NO_CHANGES = "Click a patch to remove it, and again to restore it."


def open_section(open_page, page_url, **options) -> Page:
    """Open the section "Change the image", with all sliders, by URL, since phones hide the tab."""
    page = open_page(page_url + "?section=hands&hands=sliders", **options)
    page.locator("#hands-maps figure").first.wait_for()
    return page


@pytest.fixture(scope="module")
def section(open_shared, page_url) -> Page:
    """Shared page; each test resets its changes of the image."""
    return open_section(open_shared, page_url)


def find_patch(page: Page, row: int, column: int):
    return page.get_by_role("button", name=f"Remove row {row}, column {column}", exact=True)


def find_removed_patches(page: Page):
    return page.locator("#changed-image [aria-pressed=true]")


def find_change_text(page: Page):
    return page.locator("#changed-image .words")


def get_image_url(page: Page) -> str:
    return page.locator("#changed-image img").get_attribute("src")


def find_preset(page: Page, name: str):
    return page.locator("#hands-presets").get_by_role("button", name=name)


def reset_changes(page: Page) -> None:
    find_preset(page, "Original").click()
    expect(find_removed_patches(page)).to_have_count(0)
    expect(find_change_text(page)).to_have_text(NO_CHANGES)
    expect(page.locator("#hands-answers .both")).to_have_count(0)


def test_patches_are_removed_by_mouse_keyboard_and_buttons(section):
    page = section
    expect(page.locator("#hands-maps figure")).to_have_count(2)
    expect(page.locator("#hands-answers section")).to_have_count(3)
    expect(page.locator("#changed-image .cells button")).to_have_count(64)
    expect(find_change_text(page)).to_have_text(NO_CHANGES)
    expect(page.locator("#hands-answers .bars").first).to_be_visible()
    expect(page.locator("#hands-answers .both")).to_have_count(0)  # one bar per class
    expect(page.locator("#answers")).to_be_hidden()  # predictions appear once
    # A removed patch is shown before the response and sends one request.
    wait_until_idle(page)
    before, requests = get_image_url(page), record_model_requests(page)
    button_state = page.evaluate("""() => {
        const button = document.querySelector("#changed-image .cells button");
        button.click();
        return [button.getAttribute("aria-pressed"), getComputedStyle(button).backgroundColor];
    }""")
    assert button_state[0] == "true" and button_state[1] not in ("", "rgba(0, 0, 0, 0)")
    expect(find_change_text(page)).to_have_text("Current changes: 1 of 64 patches removed.")
    expect(find_patch(page, 1, 1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#hands-maps figure")).to_have_count(4)  # original and changed image
    assert len(requests) == 1
    find_patch(page, 1, 1).click()  # another click restores it
    expect(find_change_text(page)).to_have_text(NO_CHANGES)
    assert get_image_url(page) == before
    for column in range(1, 7):  # no quick click is lost
        find_patch(page, 1, column).click()
    expect(find_removed_patches(page)).to_have_count(6)
    page.get_by_role("button", name="Restore all patches").click()
    expect(find_removed_patches(page)).to_have_count(0)
    find_patch(page, 1, 1).focus()
    for key in ("ArrowDown", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(find_patch(page, 2, 2)).to_have_attribute("aria-pressed", "true")
    expect(find_patch(page, 2, 2)).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(find_removed_patches(page)).to_have_count(2)
    reset_changes(page)
    expect(page.locator("#hands-count input[type=number]")).to_have_value("16")
    page.get_by_role("button", name="Remove most-attended patches").click()
    expect(find_removed_patches(page)).to_have_count(16)
    page.get_by_role("button", name="Remove random patches").click()
    expect(find_change_text(page)).to_have_text("Current changes: 16 of 64 patches removed.")
    pressed = page.locator("#changed-image .cells button").evaluate_all(
        "all => all.map(one => one.getAttribute('aria-pressed'))"
    )
    assert pressed.count("true") == 16
    page.get_by_role("button", name="Remove random patches").click()  # as many other patches
    page.wait_for_function(
        """before => {
          const buttons = [...document.querySelectorAll("#changed-image .cells button")];
          const now = buttons.map(one => one.getAttribute("aria-pressed"));
          return now.join() !== before.join() && now.filter(one => one === "true").length === 16;
        }""",
        arg=pressed,
    )
    reset_changes(page)
    page.evaluate("""() => {  // the second click waits for the ranking of the changed image
        const button = document.querySelector("#hands-most");
        button.click();
        button.click();
    }""")
    expect(find_removed_patches(page)).to_have_count(32)
    reset_changes(page)
    find_preset(page, "Remove half").click()
    expect(page.locator("#hands-note")).to_contain_text("Every second patch is removed")
    expect(find_change_text(page)).to_have_text("Current changes: 32 of 64 patches removed.")
    expect(page.locator("#hands-answers [role=status]")).to_have_text(
        re.compile(r"^[0-3] of 3 models keep their prediction\.$")
    )
    verdicts = page.locator("#hands-answers h3 b").filter(has_text=re.compile(r"^still \w|\w → \w"))
    expect(verdicts).to_have_count(3)
    for card in page.locator("#hands-answers section").all():
        expect(card.locator(".points").filter(has_not_text="±0.0").first).to_be_visible()
    page.get_by_role("button", name="Restore all patches").click()
    expect(page.locator("#hands-note")).not_to_contain_text("Every second patch")
    expect(find_preset(page, "Original")).to_have_attribute("aria-pressed", "true")


def test_sliders_and_presets_change_the_image_and_reset_restores_it(section, tmp_path):
    before = get_image_url(section)
    for name in ("rotate", "brightness", "blur", "noise", "jpeg"):
        slider = section.locator(f"#hands-{name} input[type=range]")
        slider.focus()
        slider.press("PageDown" if name == "jpeg" else "PageUp")
        expect(find_change_text(section)).not_to_have_text(NO_CHANGES)
        assert get_image_url(section) != before
        reset_changes(section)
        assert get_image_url(section) == before
    slider = section.locator("#hands-noise input[type=range]")
    slider.focus()
    for _ in range(12):  # only the last of many steps counts
        slider.press("ArrowRight")
    expect(find_change_text(section)).to_have_text("Current changes: noise 12 grey levels.")
    reset_changes(section)
    fill_slider(section, "#hands-blur", 3)
    expect(find_change_text(section)).to_have_text("Current changes: blur 3% of the side.")
    fill_slider(section, "#hands-blur", "")  # an empty field changes nothing
    expect(find_change_text(section)).to_have_text(NO_CHANGES)
    find_preset(section, "Shuffle patches").click()
    expect(section.locator("#hands-note")).to_contain_text("does not need this arrangement")
    expect(section.get_by_role("radio", name="8 × 8").last).to_be_checked()
    expect(find_change_text(section)).to_have_text("Current changes: 8 × 8 pieces shuffled.")
    first = get_image_url(section)
    section.get_by_role("button", name="New random seed").click()
    expect(section.locator("#changed-image img")).not_to_have_attribute("src", first)
    reset_changes(section)
    find_preset(section, "Darken").click()
    expect(find_change_text(section)).to_contain_text("noise 25")
    find_patch(section, 2, 1).click()
    file = download(section, section.get_by_role("button", name="Download PNG"))
    saved = Image.open(io.BytesIO(file.path().read_bytes()))
    assert (saved.format, saved.size) == ("PNG", (32, 32))
    assert np.asarray(saved.convert("RGBA"))[..., 3].min() == 255
    pixels = np.asarray(saved.convert("RGB"))
    assert pixels.mean() < 100  # darker than the photo
    removed, kept = (each.reshape(-1, 3) for each in (pixels[4:8, :4], pixels[8:12, :4]))
    assert len(np.unique(removed, axis=0)) == 1 < len(np.unique(kept, axis=0))
    reset_changes(section)
    presets = ("Remove half", "Block the centre", "Turn upside down", "Blur")
    for i, size in enumerate([(1, 1), (10_000, 1)]):  # one colour, extreme shapes
        first = get_image_url(section)
        Image.new("RGB", size, (90, 120, 20 * i)).save(tmp_path / f"{i}.png")
        upload(section, tmp_path / f"{i}.png")
        expect(section.locator("#changed-image img")).not_to_have_attribute("src", first)
        for name in presets[2 * i : 2 * i + 2]:
            find_preset(section, name).click()
            expect(find_change_text(section)).not_to_have_text(NO_CHANGES)
            reset_changes(section)
    expect(section.locator("#hands-answers section")).to_have_count(3)
    expect(section.locator(".toast-body.error")).to_have_count(0)


def test_each_model_shows_its_attention_to_the_changed_image(section):
    find_patch(section, 2, 2).click()
    expect(find_removed_patches(section)).to_have_count(1)
    choose_model(section, "vit")
    expect(section.locator("#hands-maps")).to_contain_text("Attention of vit to the current image")
    expect(find_removed_patches(section)).to_have_count(1)
    choose_model(section, "resnet")
    expect(section.locator("#hands-maps")).to_contain_text("not a Vision Transformer")
    section.get_by_role("button", name="Remove most-attended patches").click()
    message = section.get_by_text("is not a Vision Transformer and has no attention")
    expect(message.filter(visible=True)).to_have_count(2)  # instead of the maps and as a toast
    expect(find_removed_patches(section)).to_have_count(1)
    find_patch(section, 3, 3).click()
    expect(find_removed_patches(section)).to_have_count(2)
    choose_model(section, "timm")  # a new grid restores all patches
    section.get_by_role("radio", name="the model's own").check()
    expect(section.locator("#changed-image .cells button")).to_have_count(16)
    expect(section.locator("#changed-image .cells [tabindex='0']")).to_have_count(1)
    expect(find_removed_patches(section)).to_have_count(0)
    find_patch(section, 4, 4).click()
    expect(find_change_text(section)).to_have_text("Current changes: 1 of 16 patches removed.")
    reset_changes(section)
    section.get_by_role("radio", name="8 × 8").first.check()


def test_another_layer_is_drawn_without_a_request(section):
    choose_model(section, "vit")
    fill_slider(section, "#layer", 3)
    maps = section.locator("#hands-maps")
    expect(maps).to_contain_text("vit to the current image")
    expect(maps).to_contain_text("Rollout, layers 1 to 3")
    wait_until_idle(section)
    requests = record_model_requests(section)
    fill_slider(section, "#layer", 1)
    expect(maps).to_contain_text("Mean of the heads, layer 1")
    assert requests == []


def test_users_have_separate_patches_and_every_width_fits(open_page, page_url):
    first = open_section(open_page, page_url)
    second = open_section(open_page, page_url, width=390, scheme="dark")
    for width in (390, 800, 1280):
        second.set_viewport_size({"width": width, "height": 900})
        assert fits_window(second)
        image = second.locator("#changed-image img")
        image.scroll_into_view_if_needed()
        box = image.bounding_box()
        second.mouse.click(box["x"] + box["width"] * 6.5 / 8, box["y"] + box["height"] * 2.5 / 8)
        expect(find_patch(second, 3, 7)).to_have_attribute("aria-pressed", "true")
        expect(find_removed_patches(second)).to_have_count(1)
        find_patch(second, 3, 7).click()
        expect(find_removed_patches(second)).to_have_count(0)
    find_patch(first, 1, 1).click()
    find_patch(second, 8, 8).click()
    find_patch(first, 1, 2).click()
    expect(find_removed_patches(first)).to_have_count(2)
    expect(find_removed_patches(second)).to_have_count(1)
    expect(find_patch(second, 8, 8)).to_have_attribute("aria-pressed", "true")


def test_url_stores_and_restores_the_changes(open_page, page_url):
    query = "?section=hands&hands=sliders&pieces=4&seed=7&blur=2&rotate=-90&noise=x&jpeg=8"
    query += "&patches=4&removed=4.4.201"
    page = open_page(page_url + query)
    expect(find_change_text(page)).to_have_text(
        "Current changes: 4 × 4 pieces shuffled, rotation -90 degrees, blur 2% of the side, "
        "JPEG quality 8 of 100, 2 of 16 patches removed."
    )
    find_patch(page, 1, 3).click()
    expect(find_removed_patches(page)).to_have_count(3)
    page.wait_for_url(re.compile(r"removed=4\.4\.205"))
    page.get_by_role("button", name="Restore all patches").click()
    page.wait_for_url(lambda url: "removed" not in url)
    reset_changes(page)
    page.wait_for_url(lambda url: "pieces" not in url and "seed" not in url)
    page.evaluate(
        "vitdemo.store.open('?section=hands&patches=4&removed=4.4.1')"
    )  # as a lesson does
    expect(find_change_text(page)).to_have_text("Current changes: 1 of 16 patches removed.")
    page.evaluate("vitdemo.store.open('?section=hands')")
    expect(find_change_text(page)).to_have_text(NO_CHANGES)


def find_knockout_result(page: Page):
    return page.locator("#knockout-result")


def test_attention_knockout_updates_the_predictions_and_the_url(open_page, page_url):
    page = open_page(f"{page_url}?section=hands&model=vit&barred_first=2&barred_last=3")
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in layers 2 to 3")
    expect(find_knockout_result(page).locator("tbody tr").first).to_be_visible()
    fill_slider(page, "#barred-first", 1)
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in all 3 layers")
    page.wait_for_url(lambda url: "first_blocked" not in url and "last_blocked=3" in url)
    probabilities = find_knockout_result(page).locator("td:nth-last-child(2)").all_inner_texts()
    assert len(probabilities) >= 5
    find_patch(page, 1, 1).click()  # no image change affects the prediction now
    expect(page.locator("#hands-maps figure")).to_have_count(4)  # original and changed image
    assert (
        find_knockout_result(page).locator("td:nth-last-child(2)").all_inner_texts()
        == probabilities
    )
    fill_slider(page, "#barred-last", 0)
    expect(find_knockout_result(page)).to_contain_text("No layer is blocked")
    page.wait_for_url(lambda url: "last_blocked" not in url)
    fill_slider(page, "#barred-last", 3)
    choose_model(page, "timm")  # its two layers limit the slider
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in all 2 layers")
    expect(page.locator("#barred-last input[type=number]")).to_have_value("2")
    choose_model(page, "resnet")
    expect(find_knockout_result(page)).to_contain_text("no attention to block")
    expect(page.locator("#barred-last input[type=number]")).to_be_disabled()
    choose_model(page, "vit")
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in layers 1 to 2")
    fill_slider(page, "#barred-last", 0)
    expect(find_knockout_result(page)).to_contain_text("No layer is blocked")
    assert fits_window(page)


def test_image_stays_in_view_next_to_the_sliders(open_page, page_url):
    page = open_section(open_page, page_url)
    page.set_viewport_size({"width": 1366, "height": 768})
    page.locator("#hands-jpeg input[type=range]").scroll_into_view_if_needed()
    page.mouse.wheel(0, 300)
    page.wait_for_function("scrollY > 100")
    image = page.locator("#changed-image img").bounding_box()
    assert 0 <= image["y"] < image["y"] + image["height"] <= 768
    fold = page.get_by_role("button", name="More changes")
    expect(fold).to_have_attribute("aria-expanded", "true")
    fold.click()
    expect(page.locator("#hands-jpeg")).to_be_hidden()
    page.wait_for_url(lambda url: "hands=sliders" not in url)
    page.set_viewport_size({"width": 1366, "height": 768})
    page.evaluate("scrollTo(0, 0)")
    box = page.locator("#hands-answers").bounding_box()
    assert box["y"] + box["height"] < 768  # image, presets and predictions are on one screen
