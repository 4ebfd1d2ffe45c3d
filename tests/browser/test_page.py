"""The page in a real Chromium, used as a person would: every test ends without a console error."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.doing import saved, sources, upload, wait_for_change
from tests.serving import serve

TABS = (
    *("Look", "Training progress", "Per-class metrics", "Confusion matrix", "Errors"),
    *("Calibration", "Compare models"),
)


def test_the_first_look_needs_no_click(page):
    expect(page.locator("#answers .vd-card")).to_have_count(3)
    expect(page.locator("#wall [data-pick]")).to_have_count(6)  # timm's first: 2 layers of 3 heads
    expect(page.locator("#header")).to_contain_text("Runs on CPU")
    expect(page.locator("#header")).to_contain_text("3 trained models")


def test_a_damaged_run_is_named_and_the_others_are_there(page):
    expect(page.locator("#header .vd-notice")).to_contain_text("damaged")


def test_an_upload_changes_answers_and_maps(page, photo):
    answers, maps = sources(page, "#answers"), sources(page, "#asked")
    upload(page, photo)
    wait_for_change(page, "#answers", answers)
    wait_for_change(page, "#asked", maps)


def test_a_click_on_a_photo_opens_it(page):
    before = sources(page, "#answers")
    page.locator(".vd-gallery").first.get_by_role("button").nth(2).click()
    wait_for_change(page, "#answers", before)


def test_the_layer_slider_changes_the_maps_by_keyboard(page):
    before = sources(page, "#asked")
    slider = page.locator("#layer input[type=range]")
    slider.focus()
    slider.press("ArrowLeft")
    wait_for_change(page, "#asked", before)
    expect(page.locator("#asked h4")).to_contain_text("layer 1")


def test_the_layer_sliders_reset_redraws(page):
    first = sources(page, "#asked")
    page.locator("#layer input[type=number]").fill("1")
    page.locator("#layer input[type=number]").press("Enter")
    changed = wait_for_change(page, "#asked", first)
    page.locator("#layer").get_by_role("button", name="Reset").click()
    assert wait_for_change(page, "#asked", changed) == first


def test_another_model_brings_its_own_heads(page):
    page.locator("#model").get_by_role("radio", name="vit", exact=True).check()
    expect(page.locator("#wall [data-columns='2'] [data-pick]")).to_have_count(6)
    expect(page.locator("#asked h4")).to_contain_text("layer 2")


def test_of_two_quick_choices_the_last_one_is_drawn(page):
    for name in ("vit", "timm", "vit"):
        page.locator("#model").get_by_role("radio", name=name, exact=True).check()
    expect(page.locator("#wall [data-columns='2']")).to_have_count(1)
    expect(page.locator("#asked img").first).to_have_attribute("alt", re.compile("^vit: "))


def test_the_test_pictures_open_with_their_true_class(open_page, shown_runs, put_pictures):
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in ("<b>ant", "bee")}
    data = put_pictures(counts)
    with serve("--runs", str(shown_runs), "--data", str(data), cwd=data) as address:
        page = open_page(address)
        page.locator("#asked figure").wait_for()
        before = sources(page, "#answers")
        tests = page.locator(".vd-gallery").nth(1)
        expect(tests.get_by_role("button")).to_have_count(4)  # as many as there are
        page.get_by_role("button", name="Other pictures").click()
        tests.get_by_role("button").first.click()
        wait_for_change(page, "#answers", before)
        expect(page.locator("#note")).to_contain_text(re.compile("class: (<b>ant|bee)"))
        before = sources(page, "#answers")
        page.locator(".vd-gallery").first.get_by_role("button").nth(2).click()  # far from cwd
        wait_for_change(page, "#answers", before)
        expect(page.locator("#note")).to_have_text("")
        page.close()


def test_every_map_says_in_words_what_it_shows(page):
    for place in ("#answers", "#wall", "#asked"):
        for image in page.locator(f"{place} figure img").all():
            assert len(image.get_attribute("alt")) > 15


def test_a_bad_upload_is_told_and_the_last_result_stays(page, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    before = sources(page, "#answers")
    upload(page, tmp_path / "broken.png")
    expect(page.get_by_text("'broken.png' is not a picture").first).to_be_visible()
    assert sources(page, "#answers") == before
    expect(page.locator("#note")).to_contain_text("Still shown: the picture before.")


def test_the_grid_has_a_line_for_every_patch(page):
    grids = page.locator("#answers .vd-grid")
    expect(grids).to_have_count(2)  # a ResNet has no patches
    assert grids.first.get_attribute("style") == "--rows: 4; --columns: 4"


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


def test_a_map_is_saved_at_twice_its_size_with_the_picture_under_it(page):
    figure = page.locator("#asked figure")
    image, name = saved(page, figure)
    box = figure.locator("img").bounding_box()
    assert abs(image.width - 2 * box["width"]) <= 2
    assert name == "vitdemo-timm-what-the-class-token-attends-to-layer-2-head-1.png"
    assert len(image.getcolors(1 << 24)) > 100  # the map alone has 16


def test_the_wall_is_saved_with_the_picture_under_every_head(page):
    page.get_by_role("slider", name="range slider for Opacity").fill("0")
    image, _ = saved(page, page.locator("#wall figure"))
    thumbs = [
        image.crop((i * image.width // 3, 0, (i + 1) * image.width // 3, 100)) for i in range(3)
    ]
    assert all(len(thumb.getcolors(1 << 24)) > 100 for thumb in thumbs)


def test_curves_are_saved_with_their_words(page):
    page.get_by_role("tab", name="Training progress").click()
    figure = page.locator("#plots figure").first
    image, name = saved(page, figure)
    assert name.startswith("vitdemo-loss-of-")
    assert image.width > 600
    assert len(image.getcolors(1 << 24)) > 10  # lines on their background


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(open_page, page_url, width, scheme):
    page = open_page(page_url, width, scheme)
    page.locator("#asked figure").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_empty_page_explains_itself(open_page, tmp_path):
    with serve("--runs", str(tmp_path / "no"), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        expect(page.locator("#header")).to_contain_text("python train.py vit-small-cpu")
        for tab in TABS[1:]:
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_role("tabpanel").locator(".vd-notice:visible")).to_have_count(1)
        page.close()
