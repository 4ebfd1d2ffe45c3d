"""The section "Fool the model" by mouse and by keyboard: all predictions follow."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.browser.actions import (
    choose_model,
    download,
    fits_window,
    record_model_requests,
    set_model,
    set_state,
    upload,
    wait_until_idle,
)
from tests.support.factories import RESNET, make_run
from tests.support.held_tasks import HOLD_FILE, PROGRAM
from tests.support.serving import serve

GAME = "changed-image+hands-answers+hands-order+hands-presets"
PHOTO = "picture=photo:cat&section=hands"


def open_section(open_page, page_url, **options) -> Page:
    """Open the section "Fool the model", with all sliders, by URL, since phones hide the tab."""
    page = open_page(page_url + "?section=hands&hands=sliders", **options)
    page.locator("#hands-answers .pairs").wait_for()
    return page


@pytest.fixture(scope="module")
def section(open_shared, page_url) -> Page:
    """Shared page; each test resets its changes of the image."""
    return open_section(open_shared, page_url)


@pytest.fixture
def game(open_views, shown_views) -> Page:
    """Page with the views of the section, without gradio."""
    page = open_views(shown_views, GAME, f"{PHOTO}&model=vit")
    page.locator("#hands-answers .pairs").wait_for()
    return page


@pytest.fixture
def fickle_game(open_views, view_runs, tmp_path) -> Page:
    """Page with a model whose prediction changes without one patch, and with another model."""
    make_run(tmp_path / "runs" / "fickle", RESNET, seed=2, classes=("cat", "dog"))
    make_run(tmp_path / "runs" / "vit", classes=("cat", "dog"))
    page = open_views(view_runs(), GAME, f"{PHOTO}&model=fickle")
    page.locator("#hands-answers .pairs").wait_for()
    return page


def find_board(page: Page) -> Locator:
    return page.locator("#changed-image .board")


def find_removed_patches(page: Page) -> Locator:
    return page.locator("#changed-image .removed")


def find_score(page: Page) -> Locator:
    return page.locator("#hands-answers .score")


def find_message(page: Page) -> Locator:
    return page.locator("#hands-answers .message")


def find_button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def locate_patch(page: Page, row: int, column: int, count: int = 8) -> tuple[float, float]:
    """Return the place of a patch in the window; rows and columns count from 1."""
    find_board(page).scroll_into_view_if_needed()
    box = find_board(page).bounding_box()
    side = box["width"] / count
    return box["x"] + (column - 0.5) * side, box["y"] + (row - 0.5) * side


def click_patch(page: Page, row: int, column: int, count: int = 8) -> None:
    page.mouse.click(*locate_patch(page, row, column, count))


def drag(page: Page, first: tuple[int, int], last: tuple[int, int]) -> None:
    page.mouse.move(*locate_patch(page, *first))
    page.mouse.down()
    page.mouse.move(*locate_patch(page, *last), steps=16)
    page.mouse.up()


def get_image_url(page: Page) -> str:
    return page.locator("#changed-image img").get_attribute("src")


def find_preset(page: Page, name: str) -> Locator:
    return page.locator("#hands-presets").get_by_role("button", name=name)


def find_changes(page: Page) -> Locator:
    return page.locator("#changed-image .words")


def reset_changes(page: Page) -> None:
    find_preset(page, "Original").click()
    expect(find_removed_patches(page)).to_have_count(0)
    expect(find_changes(page)).not_to_contain_text("Other changes")
    expect(find_score(page)).to_contain_text(re.compile("^0 of"))


def test_clicks_and_drags_remove_and_restore_patches(game):
    expect(game.get_by_role("heading")).to_have_text(
        re.compile(r"^Remove patches until vit no longer says \w+\.$")
    )
    expect(find_score(game)).to_have_text("0 of 64 patches removed.")
    wait_until_idle(game)
    requests = record_model_requests(game)
    click_patch(game, 3, 7)
    expect(find_removed_patches(game)).to_have_count(1)
    expect(find_score(game)).to_contain_text("1 of 64 patches removed.")
    wait_until_idle(game)
    assert len(requests) == 1
    drag(game, (1, 1), (1, 6))  # one stroke is one request and one step of Undo
    expect(find_score(game)).to_contain_text("7 of 64 patches removed.")
    wait_until_idle(game)
    assert len(requests) == 2
    assert (
        "removed=8.8." in game.url or game.evaluate("vitdemo.store.state.removed") == "8.8.40003f"
    )
    drag(game, (1, 6), (1, 3))  # begins at a removed patch, so it restores
    expect(find_score(game)).to_contain_text("3 of 64 patches removed.")
    for count in (7, 1):
        find_button(game, "Undo").click()
        expect(find_removed_patches(game)).to_have_count(count)
    find_button(game, "Restore all").click()
    expect(find_removed_patches(game)).to_have_count(0)
    find_button(game, "Undo").click()
    expect(find_removed_patches(game)).to_have_count(1)
    find_button(game, "Undo").click()
    expect(find_removed_patches(game)).to_have_count(0)
    expect(find_button(game, "Undo")).to_be_disabled()
    expect(find_button(game, "Restore all")).to_be_disabled()


def test_patches_are_removed_with_the_keyboard(game):
    board, place = find_board(game), game.locator("#changed-image [role=status]")
    assert game.locator("#changed-image :is([tabindex='0'], button)").count() == 4
    board.focus()
    game.keyboard.press("Enter")  # without a cursor
    expect(find_removed_patches(game)).to_have_count(0)
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        game.keyboard.press(key)
    expect(place).to_have_text("Row 6, column 6")
    game.keyboard.press("Enter")
    expect(find_score(game)).to_contain_text("1 of 64 patches removed.")
    expect(board).to_have_attribute("aria-label", re.compile("8 × 8 patches, 1 of them removed"))
    game.keyboard.press("ArrowLeft")
    game.keyboard.press("Space")
    expect(find_removed_patches(game)).to_have_count(2)
    game.keyboard.press("ArrowRight")
    expect(place).to_have_text("Row 6, column 6: removed")
    game.keyboard.press("Enter")
    expect(find_removed_patches(game)).to_have_count(1)
    game.keyboard.press("Escape")
    expect(game.locator("#changed-image .ring")).to_be_hidden()
    for _ in range(9):  # the cursor stays on the image
        game.keyboard.press("ArrowRight")
    expect(place).to_have_text("Row 5, column 8")


def test_touch_that_scrolls_the_page_removes_no_patch(game):
    board = find_board(game)
    touch = {"pointerType": "touch", "isPrimary": True, "button": 0, "pointerId": 7}
    game.evaluate("HTMLElement.prototype.setPointerCapture = () => {}")
    x, y = locate_patch(game, 2, 2)
    for kind in ("pointerdown", "pointermove", "pointercancel"):
        board.dispatch_event(kind, {**touch, "clientX": x, "clientY": y})
    expect(find_removed_patches(game)).to_have_count(0)
    for kind in ("pointerdown", "pointerup"):
        board.dispatch_event(kind, {**touch, "clientX": x, "clientY": y})
    expect(find_removed_patches(game)).to_have_count(1)


def test_search_fools_the_model(fickle_game):
    page = fickle_game
    find_button(page, "Find fewest").click()
    expect(find_message(page)).to_contain_text(re.compile(r"Found in \d+ tested images: 1 of 64"))
    expect(find_message(page)).to_contain_text("A smaller set may exist. Fooled: fickle now says ")
    expect(find_score(page)).to_have_text("1 of 64 patches removed.")  # not the user's best
    expect(page.locator("#hands-answers .pairs.fooled")).to_be_visible()
    full, changed = page.locator("#hands-answers .pairs p b").all_inner_texts()
    assert {full, changed} == {"cat", "dog"}
    expect(page.locator("#hands-answers .others li")).to_have_count(1)
    find_button(page, "Undo").click()  # the message of the search belongs to its patches
    expect(find_message(page)).to_be_empty()


def test_fewest_patches_of_the_user_are_kept_for_each_model_and_grid(fickle_game):
    page = fickle_game
    find_button(page, "Find fewest").click()
    expect(find_message(page)).to_contain_text("Fooled")
    found = page.evaluate("vitdemo.store.state.removed")
    cell = int(found.split(".")[2], 16).bit_length() - 1
    row, column = cell // 8 + 1, cell % 8 + 1
    find_button(page, "Restore all").click()
    set_state(page, "blur", 0.5)  # with another change of the image, the score does not count
    click_patch(page, row, column)
    expect(find_message(page)).to_contain_text("Fooled")
    expect(find_score(page)).to_have_text("1 of 64 patches removed.")
    set_state(page, "blur", 0)
    for other in sorted({*range(64)} - {cell}, key=lambda each: abs(each - cell), reverse=True):
        set_state(page, "removed", f"8.8.{1 << cell | 1 << other:x}")
        wait_until_idle(page)
        if "Fooled" in find_message(page).inner_text():
            break
    expect(find_score(page)).to_have_text("2 of 64 patches removed. Your best: 2.")
    find_button(page, "Restore all").click()
    expect(find_score(page)).to_have_text("0 of 64 patches removed. Your best: 2.")
    set_model(page, "vit")
    expect(page.get_by_role("heading")).to_contain_text("until vit no longer says")
    expect(find_score(page)).to_have_text("0 of 64 patches removed.")
    set_model(page, "fickle")
    expect(find_score(page)).to_contain_text("Your best: 2.")
    set_state(page, "patches", "4")
    expect(find_score(page)).to_have_text("0 of 16 patches removed.")


def test_most_attended_and_random_patches_are_removed(game):
    find_button(game, "Remove 4 most attended").click()
    expect(find_removed_patches(game)).to_have_count(4)
    find_button(game, "Remove 4 most attended").click()  # of the patches that remain
    expect(find_removed_patches(game)).to_have_count(8)
    before = game.evaluate("vitdemo.store.state.removed")
    find_button(game, "Remove 8 random").click()
    expect(find_removed_patches(game)).to_have_count(8)
    assert game.evaluate("vitdemo.store.state.removed") != before
    order = game.locator("#hands-order .words")
    set_state(game, "source", "rollout")
    set_state(game, "layer", 2)
    expect(order).to_have_text("Order: rollout to layer 2.")
    wait_until_idle(game)
    requests = record_model_requests(game)
    set_state(game, "layer", 1)
    expect(order).to_have_text("Order: rollout to layer 1.")
    assert requests == []
    set_state(game, "source", "head")
    expect(order).to_have_text("Order: one head, layer 1, head 1.")
    set_model(game, "resnet")
    expect(order).to_have_text("Order: Grad-CAM.")
    find_button(game, "Restore all").click()
    find_button(game, "Remove 4 highest ranked").click()
    expect(find_removed_patches(game)).to_have_count(4)


def test_presets_are_pressed_while_they_apply(game):
    find_preset(game, "Remove half").click()
    expect(game.locator("#hands-note")).to_contain_text("Every second patch is removed")
    expect(find_score(game)).to_contain_text("32 of 64 patches removed.")
    expect(find_preset(game, "Remove half")).to_have_attribute("aria-pressed", "true")
    expect(game.locator("#hands-presets button")).to_have_count(5)
    find_button(game, "Restore all").click()
    expect(find_preset(game, "Original")).to_have_attribute("aria-pressed", "true")
    expect(game.locator("#hands-note")).to_be_empty()


def test_models_without_a_choice_of_classes_get_a_sentence(open_views, view_runs, tmp_path):
    make_run(tmp_path / "runs" / "one", classes=("cat",))
    make_run(tmp_path / "runs" / "two", seed=1, classes=("cat", "dog"))
    page = open_views(view_runs(), GAME, f"{PHOTO}&model=one")
    title = page.get_by_role("heading")
    expect(title).to_contain_text("one has only the class cat, so its prediction cannot change.")
    expect(find_button(page, "Find fewest")).to_be_hidden()
    expect(page.locator("#hands-answers .pairs")).to_contain_text("100.0%")
    set_model(page, "two")
    expect(title).to_contain_text("Remove patches until two no longer says")
    expect(find_button(page, "Find fewest")).to_be_visible()


def test_search_is_cancelled(open_page, tmp_path):
    make_run(tmp_path / "vit")
    (tmp_path / HOLD_FILE).touch()
    with serve("--runs", str(tmp_path), "--data", str(tmp_path / "no"), program=PROGRAM) as url:
        page = open_page(f"{url}?section=hands")
        find_button(page, "Find fewest").click()
        expect(page.locator("#hands-answers .vd-progress")).to_contain_text("Searching")
        page.locator("#cancel-search").click()
        expect(page.locator("#hands-answers")).to_contain_text("The search was cancelled.")
        expect(find_removed_patches(page)).to_have_count(0)
        expect(find_button(page, "Find fewest")).to_be_enabled()


def test_sliders_and_presets_change_the_image_and_reset_restores_it(section, tmp_path):
    before = get_image_url(section)
    for name in ("rotate", "brightness", "blur", "noise", "jpeg"):
        slider = section.locator(f"#hands-{name} input[type=range]")
        slider.focus()
        slider.press("PageDown" if name == "jpeg" else "PageUp")
        expect(find_changes(section)).to_contain_text("Other changes")
        assert get_image_url(section) != before
        reset_changes(section)
        assert get_image_url(section) == before
    slider = section.locator("#hands-noise input[type=range]")
    slider.focus()
    for _ in range(12):  # only the last of many steps counts
        slider.press("ArrowRight")
    expect(find_changes(section)).to_contain_text("Other changes: noise 12 grey levels.")
    reset_changes(section)
    find_preset(section, "Shuffle patches").click()
    expect(section.locator("#hands-note")).to_contain_text("does not need this arrangement")
    expect(section.get_by_role("radio", name="8 × 8").last).to_be_checked()
    expect(find_changes(section)).to_contain_text("Other changes: 8 × 8 pieces shuffled.")
    first = get_image_url(section)
    section.get_by_role("button", name="New random seed").click()
    expect(section.locator("#changed-image img")).not_to_have_attribute("src", first)
    reset_changes(section)
    set_state(section, "brightness", 0.4)
    expect(find_changes(section)).to_contain_text("brightness 0.4 times")
    click_patch(section, 2, 1)
    file = download(section, section.get_by_role("button", name="Download PNG"))
    saved = Image.open(io.BytesIO(file.path().read_bytes()))
    assert (saved.format, saved.size) == ("PNG", (32, 32))
    assert np.asarray(saved.convert("RGBA"))[..., 3].min() == 255
    pixels = np.asarray(saved.convert("RGB"))
    assert pixels.mean() < 100  # darker than the photo
    removed, kept = (each.reshape(-1, 3) for each in (pixels[4:8, :4], pixels[8:12, :4]))
    assert len(np.unique(removed, axis=0)) == 1 < len(np.unique(kept, axis=0))
    reset_changes(section)
    for i, size in enumerate([(1, 1), (10_000, 1)]):  # one colour, extreme shapes
        first = get_image_url(section)
        Image.new("RGB", size, (90, 120, 20 * i)).save(tmp_path / f"{i}.png")
        upload(section, tmp_path / f"{i}.png")
        expect(section.locator("#changed-image img")).not_to_have_attribute("src", first)
        for name in ("Remove half", "Turn upside down"):
            find_preset(section, name).click()
            expect(find_preset(section, name)).to_have_attribute("aria-pressed", "true")
            reset_changes(section)
    expect(section.locator(".toast-body.error")).to_have_count(0)


def test_another_grid_restores_all_patches(section):
    click_patch(section, 2, 2)
    expect(find_removed_patches(section)).to_have_count(1)
    choose_model(section, "timm")
    expect(find_removed_patches(section)).to_have_count(1)
    section.get_by_role("radio", name="the model's own").check()
    expect(find_score(section)).to_contain_text("0 of 16 patches removed.")
    expect(find_removed_patches(section)).to_have_count(0)
    expect(find_button(section, "Undo")).to_be_disabled()
    click_patch(section, 4, 4, count=4)
    expect(find_score(section)).to_contain_text("1 of 16 patches removed.")
    reset_changes(section)
    section.get_by_role("radio", name="8 × 8").first.check()


def test_users_have_separate_patches_and_every_width_fits(open_page, page_url):
    first = open_section(open_page, page_url)
    second = open_section(open_page, page_url, width=390, scheme="dark")
    for width in (390, 800, 1280):
        second.set_viewport_size({"width": width, "height": 900})
        assert fits_window(second)
        click_patch(second, 3, 7)
        expect(find_score(second)).to_contain_text("1 of 64")
        assert second.evaluate("vitdemo.store.state.removed") == f"8.8.{1 << 22:x}"
        click_patch(second, 3, 7)
        expect(find_removed_patches(second)).to_have_count(0)
    click_patch(first, 1, 1)
    click_patch(second, 8, 8)
    click_patch(first, 1, 2)
    expect(find_removed_patches(first)).to_have_count(2)
    expect(find_removed_patches(second)).to_have_count(1)


def test_url_stores_and_restores_the_changes(open_page, page_url):
    query = "?section=hands&hands=sliders&pieces=4&seed=7&blur=2&rotate=-90&noise=x&jpeg=8"
    query += "&patches=4&removed=4.4.201&ranking=mean&count=3"
    page = open_page(page_url + query)
    expect(find_changes(page)).to_contain_text(
        "Other changes: 4 × 4 pieces shuffled, rotation -90 degrees, blur 2% of the side, "
        "JPEG quality 8 of 100."
    )
    expect(find_score(page)).to_contain_text("2 of 16 patches removed.")
    expect(find_button(page, "Remove 3 most attended")).to_be_visible()
    click_patch(page, 1, 3, count=4)
    expect(find_removed_patches(page)).to_have_count(3)
    page.wait_for_url(re.compile(r"removed=4\.4\.205"))
    find_button(page, "Restore all").click()
    page.wait_for_url(lambda url: "removed" not in url)
    reset_changes(page)
    page.wait_for_url(lambda url: "pieces" not in url and "seed" not in url)
    # A lesson opens a view in this way.
    page.evaluate("vitdemo.store.open('?section=hands&patches=4&removed=4.4.1')")
    expect(find_score(page)).to_contain_text("1 of 16 patches removed.")
    page.evaluate("vitdemo.store.open('?section=hands')")
    expect(find_score(page)).to_contain_text("0 of 64 patches removed.")


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
    page.wait_for_url(lambda url: "hands=sliders" not in url and "open_fold" not in url)
    page.evaluate("scrollTo(0, 0)")
    box = page.locator("#hands-sliders").bounding_box()
    assert box["y"] + box["height"] < 768  # the game, presets and sliders are on one screen
