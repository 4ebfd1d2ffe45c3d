"""The page in a real Chromium, used as a person would: every test ends without a console error."""

import re

from playwright.sync_api import expect

from tests.browser.doing import (
    choose_model,
    drawn,
    fits,
    open_tab,
    questions,
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


FIRST_SCREEN = ("#picture", "#answers", "#model", "#layer", "#attention .large", "#attention .wall")


def answers(page) -> str:
    return page.locator("#answers .cards").inner_text()


def test_the_first_look_needs_no_click_and_says_in_words_what_it_shows(page):
    expect(page.locator("#answers .card")).to_have_count(3)
    wall = page.locator("#attention .wall button")
    expect(wall).to_have_count(8)  # 2 layers: 3 heads, rollout
    header = page.locator("#header")
    expect(header).to_contain_text("Runs on CPU")
    expect(header).to_contain_text("3 trained models")
    expect(header.locator(".vd-notice")).to_contain_text("damaged")
    expect(page.get_by_text("python train.py download").first).to_be_visible()  # no data set
    large = page.locator("#attention .large")
    expect(large).to_have_attribute("aria-label", re.compile("Large map. Attention rollout"))
    for button in wall.all():
        assert len(button.get_attribute("aria-label")) > 15
    slider = page.locator("#layer input[type=range]")
    slider.focus()
    slider.press("ArrowLeft")
    wait_until_drawn(page, layer=1)
    page.wait_for_timeout(1000)  # what was asked for has come
    asked = questions(page)
    choose_model(page, "vit")  # which brings its own heads in one question
    wait_until_drawn(page, run="vit")
    expect(wall).to_have_count(9)
    assert len(asked) == 1
    for name in ("timm", "vit", "timm"):  # of quick choices the last one is drawn
        choose_model(page, name)
    wait_until_drawn(page, run="timm")
    page.wait_for_timeout(1000)
    assert drawn(page)["run"] == "timm"


def test_the_first_screen_holds_what_one_came_for(open_page, page_url, tmp_path):
    for name, spec in (("vit", VIT), ("timm", TIMM), ("resnet", RESNET)):
        make_run(tmp_path / "runs" / name, spec)
    with serve("--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "none")) as address:
        page = open_page(f"{address}?model=timm", width=1366, height=768)
        for model in ("timm", "vit"):
            choose_model(page, model)
            wait_until_drawn(page, run=model)
            for place in FIRST_SCREEN:
                box = page.locator(place).bounding_box()
                assert box["x"] >= 0 and box["x"] + box["width"] <= 1366, place
                assert box["y"] >= 0 and box["y"] + box["height"] <= 768, place
        page.close()
    # On a phone, picture, answers and map come within two screens.
    page = open_page(page_url, width=390, height=844)
    wait_until_drawn(page)
    tops = [page.locator(place).bounding_box() for place in FIRST_SCREEN[:2] + FIRST_SCREEN[4:5]]
    assert tops[0]["y"] < tops[1]["y"] < tops[2]["y"]
    assert tops[2]["y"] + tops[2]["height"] <= 2 * 844
    assert fits(page)
    page = open_page(page_url, scheme="dark")
    wait_until_drawn(page)
    assert fits(page)


GIVE = """([place, type, name, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], "photo.png", { type: "image/png" }));
    const target = place ? document.querySelector(place) : document;
    const options = { bubbles: true, cancelable: true };
    target.dispatchEvent(type === "drop"
        ? new DragEvent("drop", { dataTransfer: data, ...options })
        : new ClipboardEvent("paste", { clipboardData: data, ...options }));
}"""


def test_a_picture_is_uploaded_dropped_pasted_or_taken(page, photo, tmp_path, give_camera):
    about, say = page.locator("#picture .about"), page.locator("#picture .say")
    bus = page.locator("#offers .photos").get_by_role("button", name="bus")
    page.wait_for_timeout(1000)  # what the first picture asked for has come
    asked, before, shown = questions(page), drawn(page), answers(page)
    upload(page, photo)
    wait_for_another(page, before)
    expect(page.locator("#answers .cards")).not_to_have_text(shown)
    expect(about).to_have_text("Your picture.")
    assert len(asked) == 1
    expect(page.locator("#picture .crop")).to_be_hidden()  # a square has nothing to move
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    before, shown = drawn(page)["values"], answers(page)
    upload(page, tmp_path / "broken.png")
    expect(say).to_contain_text("'broken.png' is not a picture")
    expect(say).to_contain_text("Still shown: the picture before.")
    assert answers(page) == shown and (drawn(page)["values"] == before).all()
    for place, kind in (("#picture .frame", "drop"), (None, "paste")):
        bus.click()
        expect(about).to_contain_text("bus")
        page.evaluate(GIVE, [place, kind, "", list(photo.read_bytes())])
        expect(about).to_have_text("Your picture.")
    bus.click()
    expect(about).to_contain_text("bus")
    page.get_by_role("button", name="Camera").click()
    expect(say).to_contain_text("camera")  # there is none here
    give_camera(page)
    page.get_by_role("button", name="Camera").click()
    expect(page.locator("#picture .camera")).to_be_visible()
    page.get_by_role("button", name="Take it").click()
    expect(about).to_contain_text("Your picture.")
    expect(page.locator("#picture .camera")).to_be_hidden()


def test_the_square_that_models_see_can_be_moved_and_the_last_photo_is_drawn(page, photo):
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
    moved = wait_for_another(page, moved)
    page.wait_for_url(re.compile("crop=1.00"))
    photos, about = page.locator("#offers .photos"), page.locator("#picture .about")
    photos.get_by_role("button", name="lion").click()
    wait_for_another(page, moved)
    for name in ("bus", "lion", "tower"):  # of quick choices the last one is drawn
        photos.get_by_role("button", name=name).click()
    expect(about).to_contain_text("Photo: tower.")
    photos.get_by_role("button", name="bus").click()
    upload(page, photo)
    expect(about).to_have_text("Your picture.")
    page.wait_for_timeout(1000)
    expect(about).to_have_text("Your picture.")


def test_the_test_pictures_open_with_their_true_class(open_page, shown_runs, put_pictures):
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in ("<b>ant", "cat")}
    data = put_pictures(counts)
    with serve("--runs", str(shown_runs), "--data", str(data), cwd=data) as address:
        page = open_page(f"{address}?picture=test:2")
        wait_until_drawn(page)
        for card in page.locator("#answers .card").all():
            first = card.locator("li").first.inner_text()
            assert ("✓" in first) == first.startswith("cat") and ("✗" in first) != ("✓" in first)
        expect(page.locator("#answers [role=status].read")).to_contain_text("True class: cat.")
        tests = page.locator("#offers .tests .tiles").get_by_role("button")
        expect(tests).to_have_count(4)  # as many as there are
        before = tests.first.get_attribute("style")
        page.get_by_role("button", name="show others").click()
        expect(tests.first).not_to_have_attribute("style", before)
        named = tests.first.get_attribute("aria-label")
        tests.first.click()
        number, label = re.fullmatch(r"Test picture (\d): (<b>ant|cat)", named).groups()
        about = page.locator("#picture .about")
        expect(about).to_have_text(f"Test picture {number}. True class: {label}.")
        page.locator("#offers .photos").get_by_role("button", name="lion").click()  # far from cwd
        expect(about).to_contain_text("Photo: lion.")
        page.close()


def test_the_matrix_has_counts_shares_and_sentences_and_curves_are_saved(page):
    open_tab(page, "Confusion matrix")
    matrix = page.locator("#confusion-matrix")
    cell = matrix.locator("tbody tr").nth(3).locator("td").nth(5)
    expect(cell).to_have_text("5")
    expect(matrix).to_contain_text("5 cats were taken for dogs")
    page.get_by_role("radio", name="Share of the true class").check()
    expect(cell).to_have_text("25.0 %")
    open_tab(page, "Training progress")
    figure = page.locator("#plots figure").first
    image, name = saved(page, figure.get_by_role("button", name="Save as PNG"))
    assert name.startswith("vitdemo-loss-of-")
    assert image.width > 600
    assert len(image.getcolors(1 << 24)) > 10  # lines on their background


def test_the_empty_page_explains_itself(open_page, tmp_path):
    with serve("--runs", str(tmp_path / "no"), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        expect(page.locator("#header")).to_contain_text("python train.py vit-small-cpu")
        for tab in TABS[1:]:
            open_tab(page, tab)
            expect(page.get_by_role("tabpanel").locator(".vd-notice:visible")).to_have_count(1)
        page.close()
