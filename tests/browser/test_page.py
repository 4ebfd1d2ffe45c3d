"""The page in a real Chromium, used like a user; no test may cause a console error."""

import re

import pytest
from playwright.sync_api import Error, expect

from tests.browser.actions import (
    JS_DROP_OR_PASTE,
    JS_HOLD_RESPONSES,
    choose_model,
    fits_window,
    get_last_draw,
    mock_camera,
    open_tab,
    record_model_requests,
    release_responses,
    upload,
    wait_for_frames,
    wait_for_new_values,
    wait_until_drawn,
    wait_until_idle,
)
from tests.support.factories import RESNET, TIMM, VIT, make_context, make_run
from tests.support.serving import serve
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.data.photos import OURS
from vitdemo.explain.faithfulness.summary import FaithfulnessSummary, write_summaries

FIRST_SCREEN = (
    *("#picture", "#answers", "#model", "#attention .path"),
    *("#attention .large", "#attention .wall"),
)


def get_predictions_text(page) -> str:
    return page.locator("#answers .cards").inner_text()


def test_page_starts_with_a_view_and_model_change_sends_one_request(page):
    expect(page.locator("#answers .card")).to_have_count(3)
    thumbnails = page.locator("#attention .wall .cell")
    expect(thumbnails).to_have_count(6)  # 2 layers of 3 heads
    header = page.locator("#header")
    expect(header.get_by_title("Runs on CPU")).to_be_visible()
    expect(header.locator(".vd-notice")).to_contain_text("damaged")
    expect(page.locator("#dataset").get_by_role("button", name="Download")).to_be_visible()
    page.get_by_role("slider", name="Layer").press("ArrowLeft")
    wait_until_drawn(page, layer=1)
    wait_until_idle(page)
    requests = record_model_requests(page)
    choose_model(page, "vit")  # loads its own heads in one request
    wait_until_drawn(page, run="vit")
    expect(thumbnails).to_have_count(6)  # 3 layers of 2 heads
    assert len(requests) == 1
    for name in ("timm", "vit", "timm"):  # only the last of several quick choices is drawn
        choose_model(page, name)
    wait_until_drawn(page, run="timm")
    wait_until_idle(page)
    assert get_last_draw(page)["run"] == "timm"


def test_chosen_model_is_the_first_prediction_and_the_others_are_folded(shared_page):
    page = shared_page
    chosen, others = page.locator("#answers .card.chosen"), page.locator("#answers details.card")
    for name in ("vit", "timm"):
        choose_model(page, name)
        expect(chosen.locator("h2")).to_contain_text(name)
        expect(page.locator("#answers .card").first).to_have_class(re.compile("chosen"))
        expect(others).to_have_count(2)
    page.locator("#answers .others > summary").click()
    other = others.filter(has_text="vit").first
    expect(other.locator("li").first).to_be_hidden()
    other.locator("summary").click()
    expect(other.locator("li").first).to_be_visible()


def test_skip_link_moves_the_focus_to_the_map_and_a_head_sets_the_layer(shared_page):
    page = shared_page
    page.locator("#header .skip").press("Enter")
    expect(page.locator("#attention .large")).to_be_focused()
    page.locator("#attention .wall").get_by_role("gridcell", name="Layer 1, head 2:").click()
    expect(page.get_by_role("slider", name="Layer")).to_have_attribute("aria-valuenow", "1")


LONG_CLASSES = (
    "ballpoint, ballpoint pen, ballpen, Biro",
    "black-footed ferret, ferret, Mustela nigripes",
    *(f"Old English sheepdog, bobtail, number {number}" for number in range(8)),
)


def test_long_class_names_are_not_cut(open_views, view_runs, tmp_path):
    for name in ("first", "a-model-with-quite-a-long-name"):
        make_run(tmp_path / "runs" / name, classes=LONG_CLASSES)
    page = open_views(view_runs(), "answers", "model=first")
    card = page.locator("#answers .card.chosen")
    expect(card.locator("li")).to_have_count(3)
    expect(card).to_contain_text("97.5% test accuracy")
    page.locator("#answers .others > summary").click()
    other = page.locator("#answers details.card")
    other.locator("summary").click()
    first = other.locator("li").first
    prediction = f"{first.locator('span').inner_text()} {first.locator('b').inner_text()}"
    expect(other.locator("summary b")).to_have_text(prediction)
    texts = page.locator("#answers .card:visible").locator("h2 span, h2 b, li span, .known")
    cut = "e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflow !== 'visible'"
    edge = "e => e.getBoundingClientRect().right - e.closest('.card').getBoundingClientRect().right"
    for width in (390, 300):  # the widths of a phone, and of the column of a large page
        page.set_viewport_size({"width": width, "height": 900})
        wait_for_frames(page)
        assert texts.count() > 9
        for text in texts.all():
            assert not text.evaluate(cut)
            assert text.evaluate(edge) <= 0


JS_HAS_SKELETON = """() => [...document.querySelectorAll("[data-view][data-empty]")]
    .some((view) => view.ariaBusy && view.getBoundingClientRect().height > 100)"""


def test_views_show_a_skeleton_until_their_data_arrive(open_page, page_url):
    page = open_page(page_url, script=JS_HOLD_RESPONSES)
    page.wait_for_function(JS_HAS_SKELETON)
    tabs = ("Errors", "Compare models", "Train")
    for tab in tabs:
        open_tab(page, tab)
        page.wait_for_function(JS_HAS_SKELETON)
    release_responses(page)
    for tab in (*tabs, "Per-class metrics", "Explore"):  # Results opens with its first section
        open_tab(page, tab)
        expect(page.locator("[data-empty]:visible")).to_have_count(0)
    expect(page.locator("[data-empty]")).to_have_count(0)


def test_texts_have_plural_forms_and_need_all_values(shared_page):
    page = shared_page
    texts = "'{count} image', '{count} images of {name}'"
    load = "vitdemo.load('texts.js')"
    plural = f"(n) => {load}.then((each) => each.fillPlural(n, {texts}, {{ name: 'cats' }}))"
    found = [page.evaluate(plural, count) for count in (0, 1, 1234)]
    assert found == ["0 images of cats", "1 image", "1,234 images of cats"]
    with pytest.raises(Error, match=r"no value for \{b\}"):
        page.evaluate(f"{load}.then((each) => each.fill('{{a}} and {{b}}', {{ a: 1 }}))")


def test_initial_layer_has_the_most_faithful_map(open_views, view_runs, tmp_path):
    measured = {"vit": (0.1, 0.4, 0.2), "timm": (0.3, 0.2)}
    for name, spec in (("vit", VIT), ("timm", TIMM)):
        path = make_run(tmp_path / "runs" / name, spec).path
        write_summaries(
            path, {"drop": FaithfulnessSummary(9, {"rollout": 0.15}, (), measured[name])}
        )
    url = view_runs()
    page = open_views(url, "model+layer+attention", "picture=photo:cat&model=vit")
    layer, path = page.locator("#layer input[type=number]"), page.locator("#attention .layers")
    for name, first in (("vit", 2), ("timm", 1), ("vit", 2)):
        choose_model(page, name)
        wait_until_drawn(page, run=name, layer=first, source="mean")
        expect(layer).to_have_value(str(first))
        expect(path).to_have_attribute("aria-valuenow", str(first))
    path.press("ArrowRight")
    wait_until_drawn(page, run="vit", layer=3)
    choose_model(page, "timm")  # the chosen layer stays, or the nearest one
    wait_until_drawn(page, run="timm", layer=2)
    choose_model(page, "vit")
    wait_until_drawn(page, run="vit", layer=2)
    page.locator("#attention .wall").get_by_role("gridcell", name="Layer 3, head 1:").click()
    expect(layer).to_have_value("3")
    # Sections show the same layer.
    page = open_views(url, "model+layer+one-head", "picture=photo:cat&model=vit")
    expect(page.locator("#one-head")).to_contain_text("Softmax")
    choose_model(page, "timm")
    expect(page.locator("#layer input[type=number]")).to_have_value("1")
    context = make_context(tmp_path / "runs")
    cat = crop_visible_square(load_image(OURS / "cat.jpg"), position=0.5)
    rows = context.trace_image(context.find_run("timm"), cat).attention[:, 0, 0]  # (L, N)
    strongest = [f"{100 * float(row.max()):.1f}%" for row in rows]
    assert strongest[0] != strongest[1]
    expect(page.locator("#one-head")).to_contain_text(strongest[0])


def test_first_screen_shows_image_predictions_and_attention(open_page, serve_runs, tmp_path):
    for name, spec in (("vit", VIT), ("timm", TIMM), ("resnet", RESNET)):
        make_run(tmp_path / "runs" / name, spec)
    page = open_page(f"{serve_runs()}?model=timm", width=1366, height=768)
    for model in ("timm", "vit"):
        choose_model(page, model)
        wait_until_drawn(page, run=model)
        for css in FIRST_SCREEN:
            box = page.locator(css).bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= 1366, css
            assert box["y"] >= 0 and box["y"] + box["height"] <= 768, css
    # On a phone, the image, the predictions and the map fit two screens.
    page.set_viewport_size({"width": 390, "height": 844})
    wait_for_frames(page)
    tops = [page.locator(css).bounding_box() for css in FIRST_SCREEN[:2] + FIRST_SCREEN[4:5]]
    assert tops[0]["y"] < tops[1]["y"] < tops[2]["y"]
    assert tops[2]["y"] + tops[2]["height"] <= 2 * 844
    assert fits_window(page)


def test_image_is_uploaded_dropped_pasted_or_photographed(page, photo, tmp_path):
    about, message = page.locator("#picture .about"), page.locator("#picture .say")
    bus = page.locator("#offers .photos").get_by_role("button", name="bus")
    wait_until_idle(page)
    requests, before, shown = (
        record_model_requests(page),
        get_last_draw(page),
        get_predictions_text(page),
    )
    upload(page, photo)
    wait_for_new_values(page, before)
    expect(page.locator("#answers .cards")).not_to_have_text(shown)
    expect(about).to_have_text("Your photo.")
    assert len(requests) == 1
    expect(page.locator("#picture .crop")).to_be_hidden()  # a square image has no crop to move
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    before, shown = get_last_draw(page)["values"], get_predictions_text(page)
    upload(page, tmp_path / "broken.png")
    expect(message).to_contain_text("'broken.png' is not an image")
    expect(message).to_contain_text("The previous image is still shown.")
    assert get_predictions_text(page) == shown and (get_last_draw(page)["values"] == before).all()
    bus.click()
    expect(about).to_contain_text("bus")
    upload(page, tmp_path / "broken.png")
    expect(message).to_contain_text("The previous image is still shown.")
    crop = page.locator("#picture .crop")
    crop.press("ArrowLeft")  # of the image that is still shown
    expect(crop).to_have_attribute("aria-valuenow", "45")
    page.wait_for_url(re.compile("crop=0.45"))
    expect(crop).to_be_visible()
    expect(message).to_be_empty()
    for selector, kind in (("#picture .frame", "drop"), (None, "paste")):
        bus.click()
        expect(about).to_contain_text("bus")
        page.evaluate(JS_DROP_OR_PASTE, [selector, kind, list(photo.read_bytes())])
        expect(about).to_have_text("Your photo.")
    bus.click()
    expect(about).to_contain_text("bus")
    page.get_by_role("button", name="Open camera").click()
    expect(message).to_contain_text("camera")  # this machine has none
    mock_camera(page)
    page.get_by_role("button", name="Open camera").click()
    expect(page.locator("#picture .camera")).to_be_visible()
    page.get_by_role("button", name="Take photo").click()
    expect(about).to_contain_text("Your photo.")
    expect(page.locator("#picture .camera")).to_be_hidden()


def test_input_crop_is_movable_and_the_last_photo_is_shown(shared_page, photo):
    page = shared_page
    before = get_last_draw(page)
    crop = page.locator("#picture .crop")
    expect(crop).to_have_attribute("aria-valuenow", "50")  # the cat's photo is wide
    box = crop.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] - 400, box["y"] + 20)
    page.mouse.up()
    expect(crop).to_have_attribute("aria-valuenow", "0")
    moved = wait_for_new_values(page, before)
    page.wait_for_url(re.compile("crop=0.00"))
    crop.press("End")
    moved = wait_for_new_values(page, moved)
    page.wait_for_url(re.compile("crop=1.00"))
    photos, about = page.locator("#offers"), page.locator("#picture .about")
    photos.get_by_role("button", name="lion").click()
    wait_for_new_values(page, moved)
    for name in ("bus", "lion", "tower"):  # only the last of several quick choices is drawn
        photos.get_by_role("button", name=name).click()
    expect(about).to_contain_text("Photo: tower.")
    photos.get_by_role("button", name="bus").click()
    upload(page, photo)
    expect(about).to_have_text("Your photo.")
    wait_until_idle(page)
    expect(about).to_have_text("Your photo.")


@pytest.fixture(scope="module")
def empty_url(tmp_path_factory):
    """Address of a page without runs and without a dataset."""
    root = tmp_path_factory.mktemp("empty")
    with serve("--runs", str(root / "runs"), "--data", str(root / "none")) as address:
        yield address


def test_page_without_runs_offers_a_training(open_page, empty_url):
    page = open_page(empty_url)
    expect(page.locator("#header")).to_contain_text("python train.py vit-small-cpu")
    cards = page.locator(".vd-no-model:visible")
    for tab in ("Train", "Results", "Explore"):
        open_tab(page, tab)
        expect(cards).to_have_count(1)
        for hidden in ("#sections", "#results-sections", "#plots", "#answers", "#model"):
            expect(page.locator(hidden)).to_be_hidden()
    cards.get_by_role("button", name="Train a model").click()
    expect(page.locator("#preset input")).to_be_visible()


def test_parts_that_need_the_dataset_offer_the_download(open_page, empty_url):
    page = open_page(f"{empty_url}?tab=data")
    expect(page.locator("#class-examples .get")).to_be_visible()  # this view needs no model
    open_tab(page, "Train")
    expect(page.locator("#train-dataset .get")).to_be_visible()
    expect(page.locator("#start-training")).to_be_hidden()
    open_tab(page, "Custom classes")
    failure = page.locator("#own-classes .failure")
    page.locator("#own-classes").get_by_text("Add images").click()
    page.get_by_role("button", name="Example classes").click()
    expect(failure.locator(".get")).to_be_visible()
    page.get_by_role("textbox", name="Class name").fill("cup")
    page.keyboard.press("Enter")
    expect(failure).to_be_empty()


def test_menus_of_results_report_unknown_models(open_page, kinds_url):
    page = open_page(f"{kinds_url}?tab=metrics&results.model=gone")
    warning = page.locator("#results-model .warning")
    expect(warning).to_have_text("There are no test results of 'gone'.")
    page.locator("#results-model select").select_option(index=1)
    expect(warning).to_be_empty()
