"""The page in a real Chromium, used as a person would: every test ends without a console error."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.doing import (
    choose_model,
    drawn,
    saved,
    upload,
    wait_for_another,
    wait_until_drawn,
)
from tests.making import RESNET, TIMM, VIT, make_run
from tests.serving import serve

TABS = (
    *("Look", "Training progress", "Per-class metrics", "Confusion matrix", "Errors"),
    *("Calibration", "Compare models"),
)


def test_the_first_look_needs_no_click(page):
    expect(page.locator("#answers .card")).to_have_count(3)
    expect(page.locator("#attention .wall button")).to_have_count(8)  # 2 layers: 3 heads, rollout
    expect(page.locator("#header")).to_contain_text("Runs on CPU")
    expect(page.locator("#header")).to_contain_text("3 trained models")


FIRST_SCREEN = ("#picture", "#answers", "#model", "#layer", "#attention .large", "#attention .wall")


def test_the_first_screen_holds_what_one_came_for(open_page, tmp_path):
    for name, spec in (("vit", VIT), ("timm", TIMM), ("resnet", RESNET)):
        make_run(tmp_path / "runs" / name, spec)
    with serve("--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "none")) as address:
        for model in ("timm", "vit"):
            page = open_page(f"{address}?model={model}", width=1366, height=768)
            wait_until_drawn(page)
            for place in FIRST_SCREEN:
                box = page.locator(place).bounding_box()
                assert box["x"] >= 0 and box["x"] + box["width"] <= 1366, place
                assert box["y"] >= 0 and box["y"] + box["height"] <= 768, place
            page.close()


def test_on_a_phone_picture_answers_and_map_come_within_two_screens(open_page, page_url):
    page = open_page(page_url, width=390, height=844)
    wait_until_drawn(page)
    tops = [page.locator(place).bounding_box() for place in FIRST_SCREEN[:2] + FIRST_SCREEN[4:5]]
    assert tops[0]["y"] < tops[1]["y"] < tops[2]["y"]
    assert tops[2]["y"] + tops[2]["height"] <= 2 * 844


def test_a_damaged_run_is_named_and_the_others_are_there(page):
    expect(page.locator("#header .vd-notice")).to_contain_text("damaged")


def answers(page) -> str:
    return page.locator("#answers .cards").inner_text()


def test_an_upload_changes_answers_and_maps_in_one_question(page, photo):
    page.wait_for_timeout(1000)  # what the first picture asked for has come
    asked = []
    page.on("request", lambda r: "/queue/join" in r.url and asked.append(r.url))
    before, shown = drawn(page), answers(page)
    upload(page, photo)
    wait_for_another(page, before)
    expect(page.locator("#answers .cards")).not_to_have_text(shown)
    expect(page.locator("#picture .about")).to_have_text("Your picture.")
    assert len(asked) == 1


def test_a_file_can_be_dropped_and_pasted(page, photo):
    give = """([place, type, name, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], "photo.png", { type: "image/png" }));
        const target = place ? document.querySelector(place) : document;
        const options = { bubbles: true, cancelable: true };
        target.dispatchEvent(type === "drop"
            ? new DragEvent("drop", { dataTransfer: data, ...options })
            : new ClipboardEvent("paste", { clipboardData: data, ...options }));
    }"""
    for place, kind in (("#picture .frame", "drop"), (None, "paste")):
        page.locator("#offers .photos").get_by_role("button", name="bus").click()
        expect(page.locator("#picture .about")).to_contain_text("bus")
        page.evaluate(give, [place, kind, "", list(photo.read_bytes())])
        expect(page.locator("#picture .about")).to_have_text("Your picture.")


def test_the_camera_gives_a_picture_or_a_sentence(page, give_camera):
    page.get_by_role("button", name="Camera").click()
    expect(page.locator("#picture .say")).to_contain_text("camera")  # there is none here
    give_camera(page)
    page.get_by_role("button", name="Camera").click()
    expect(page.locator("#picture .camera")).to_be_visible()
    page.get_by_role("button", name="Take it").click()
    expect(page.locator("#picture .about")).to_contain_text("Your picture.")
    expect(page.locator("#picture .camera")).to_be_hidden()


def test_the_square_that_models_see_can_be_moved(page):
    before = drawn(page)
    crop = page.locator("#picture .crop")
    expect(crop).to_have_attribute("aria-valuenow", "50")  # the cat's photo is wide
    box = crop.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] - 400, box["y"] + 20)
    page.mouse.up()
    expect(crop).to_have_attribute("aria-valuenow", "0")
    moved = wait_for_another(page, before)
    page.wait_for_url(re.compile("crop=0.00"))
    crop.press("End")
    wait_for_another(page, moved)
    page.wait_for_url(re.compile("crop=1.00"))


def test_a_square_picture_has_nothing_to_move(page, photo):
    upload(page, photo)
    expect(page.locator("#picture .about")).to_have_text("Your picture.")
    expect(page.locator("#picture .crop")).to_be_hidden()


def test_a_click_on_a_photo_opens_it(page):
    before = drawn(page)
    page.locator("#offers .photos").get_by_role("button", name="lion").click()
    wait_for_another(page, before)


def test_the_layer_slider_changes_the_maps_by_keyboard(page):
    slider = page.locator("#layer input[type=range]")
    slider.focus()
    slider.press("ArrowLeft")
    wait_until_drawn(page, layer=1)


def test_another_model_brings_its_own_heads_in_one_question(page):
    page.wait_for_timeout(1000)
    asked = []
    page.on("request", lambda r: "/queue/join" in r.url and asked.append(r.url))
    choose_model(page, "vit")
    wait_until_drawn(page, run="vit")
    expect(page.locator("#attention .wall button")).to_have_count(9)
    assert len(asked) == 1


def test_of_quick_choices_the_last_one_is_drawn(page):
    for name in ("vit", "timm", "vit"):
        choose_model(page, name)
    wait_until_drawn(page, run="vit")
    page.wait_for_timeout(1000)
    assert drawn(page)["run"] == "vit"


def test_of_quick_pictures_the_last_one_is_drawn(page, photo):
    for name in ("bus", "lion", "tower"):
        page.locator("#offers .photos").get_by_role("button", name=name).click()
    expect(page.locator("#picture .about")).to_contain_text("Photo: tower.")
    page.locator("#offers .photos").get_by_role("button", name="bus").click()
    upload(page, photo)
    expect(page.locator("#picture .about")).to_have_text("Your picture.")
    page.wait_for_timeout(1000)
    expect(page.locator("#picture .about")).to_have_text("Your picture.")


def test_the_test_pictures_open_with_their_true_class(open_page, shown_runs, put_pictures):
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in ("<b>ant", "bee")}
    data = put_pictures(counts)
    with serve("--runs", str(shown_runs), "--data", str(data), cwd=data) as address:
        page = open_page(address)
        wait_until_drawn(page)
        tests = page.locator("#offers .tests .tiles").get_by_role("button")
        expect(tests).to_have_count(4)  # as many as there are
        before = tests.first.get_attribute("style")
        page.get_by_role("button", name="show others").click()
        expect(tests.first).not_to_have_attribute("style", before)
        named = tests.first.get_attribute("aria-label")
        tests.first.click()
        number, label = re.fullmatch(r"Test picture (\d): (<b>ant|bee)", named).groups()
        expect(page.locator("#picture .about")).to_have_text(
            f"Test picture {number}. True class: {label}."
        )
        page.locator("#offers .photos").get_by_role("button", name="lion").click()  # far from cwd
        expect(page.locator("#picture .about")).to_contain_text("Photo: lion.")
        page.close()


def test_a_true_class_is_marked_and_an_answer_is_read_aloud(open_page, shown_runs, put_pictures):
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in ("cat", "dog")}
    with serve("--runs", str(shown_runs), "--data", str(put_pictures(counts))) as address:
        page = open_page(f"{address}?picture=test:0")
        wait_until_drawn(page)
        for card in page.locator("#answers .card").all():
            first = card.locator("li").first.inner_text()
            assert ("✓" in first) == first.startswith("cat") and ("✗" in first) != ("✓" in first)
        expect(page.locator("#answers [role=status].read")).to_contain_text("True class: cat.")
        page.close()


def test_every_map_says_in_words_what_it_shows(page):
    large = page.locator("#attention .large")
    expect(large).to_have_attribute("aria-label", re.compile("Large map. Attention rollout"))
    for button in page.locator("#attention .wall button").all():
        assert len(button.get_attribute("aria-label")) > 15


def test_a_bad_upload_is_told_and_the_last_result_stays(page, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    before, shown = drawn(page)["values"], answers(page)
    upload(page, tmp_path / "broken.png")
    say = page.locator("#picture .say")
    expect(say).to_contain_text("'broken.png' is not a picture")
    expect(say).to_contain_text("Still shown: the picture before.")
    assert answers(page) == shown and (drawn(page)["values"] == before).all()


def test_without_a_data_set_the_page_names_the_way_out(page):
    expect(page.get_by_text("python train.py download").first).to_be_visible()


def test_confusion_matrix_counts_shares_and_sentences(page):
    page.get_by_role("tab", name="Confusion matrix").click()
    matrix = page.locator("#confusion-matrix")
    cell = matrix.locator("tbody tr").nth(3).locator("td").nth(5)
    expect(cell).to_have_text("5")
    expect(matrix).to_contain_text("5 cats were taken for dogs")
    page.get_by_role("radio", name="Share of the true class").check()
    expect(cell).to_have_text("25.0 %")


def test_curves_are_saved_with_their_words(page):
    page.get_by_role("tab", name="Training progress").click()
    figure = page.locator("#plots figure").first
    image, name = saved(page, figure.get_by_role("button", name="Save as PNG"))
    assert name.startswith("vitdemo-loss-of-")
    assert image.width > 600
    assert len(image.getcolors(1 << 24)) > 10  # lines on their background


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(open_page, page_url, width, scheme):
    page = open_page(page_url, width, scheme)
    wait_until_drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_empty_page_explains_itself(open_page, tmp_path):
    with serve("--runs", str(tmp_path / "no"), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        expect(page.locator("#header")).to_contain_text("python train.py vit-small-cpu")
        for tab in TABS[1:]:
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_role("tabpanel").locator(".vd-notice:visible")).to_have_count(1)
        page.close()
