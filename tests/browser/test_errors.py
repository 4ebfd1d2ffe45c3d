"""From a confusion matrix cell or a filter to an image, by mouse and by keyboard."""

import re
import shutil

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    choose_model,
    choose_option,
    export,
    fill_slider,
    fits_window,
    get_last_draw,
    open_fold,
    open_tab,
    reset_page,
    set_state,
    wait_for_new_values,
    wait_until_drawn,
    wait_until_idle,
)
from tests.support.factories import PREDICTION_COUNTS, RESNET, make_run
from tests.support.serving import serve
from vitdemo.runs import WEIGHTS_FILE, read_run

FIRST_COUNTS = PREDICTION_COUNTS["first"]


@pytest.fixture(scope="module")
def address(tested_runs, tmp_path_factory):
    """Address of a page over two runs and a third without weights, served from their images."""
    data = tested_runs[1]
    runs = shutil.copytree(tested_runs[0], tmp_path_factory.mktemp("three") / "runs")
    shutil.copytree(runs / "second", runs / "third")
    (runs / "third" / WEIGHTS_FILE).unlink()
    with serve("--runs", str(runs), "--data", str(data), cwd=data) as address:
        yield address


@pytest.fixture(scope="module")
def tested_views(view_server, tested) -> str:
    """Address of the views of two runs and their images."""
    return view_server.add(tested)


@pytest.fixture(scope="module")
def shared(address, open_shared) -> Page:  # the page ends before its server
    page = open_shared(f"{address}?model=first")
    page.locator("#answers .card").first.wait_for()
    return page


@pytest.fixture
def page(shared) -> Page:
    """Shared page, reset to its first view, with an image that no test opens."""
    return reset_page(shared, "?model=first&picture=photo:cat", run="first")


def find_cell(page: Page, true: int, predicted: int):
    return page.locator(f"#confusion-matrix [data-pick='{true}-{predicted}']")


def expect_image_count(page: Page, element_id: str, count: int) -> None:
    """Expect that the place reports `count` images and shows at most 48 of them."""
    text = "1 image" if count == 1 else f"{count} images" if count else "No image"
    expect(page.locator(f"#{element_id} .found")).to_contain_text(text)
    expect(page.locator(f"#{element_id} .pictures button")).to_have_count(min(count, 48))


def list_image_numbers(page: Page, element_id: str) -> list[int]:
    numbers = page.locator(f"#{element_id} .pictures button").evaluate_all(
        "all => all.map(b => b.dataset.pick)"
    )
    return list(map(int, numbers))


def expect_open_in_explore(page: Page, text: re.Pattern | str) -> None:
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#picture .about")).to_contain_text(text)
    expect(page.locator("#attention .large")).to_be_visible()


def press_tab_until(page: Page, selector: str) -> None:
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("place => document.activeElement.matches(place)", selector):
            return
    raise AssertionError(f"30 times Tab, and '{selector}' has no focus")


# --- a click made while a tab opens --------------------------------------------------------------

JS_OPEN_RESULTS_AND_SELECT_MODEL = """(model) => {
  document.querySelector("#tabs [role=tab][data-tab-id=results]").click(); // its section is open
  setTimeout(() => {
    const select = document.querySelector(model);
    select.value = "first";
    select.dispatchEvent(new Event("change"));
  }, 10);
}"""


def test_a_model_chosen_while_its_tab_opens_stays_selected(page):
    error_count = page.locator("#errors-kinds [data-pick=errors]")
    for tab, model, place, expected in (
        ("Errors", "#results-model", error_count, {"first": "Errors 25", "second": "Errors 23"}),
        (
            "Confusion matrix",
            "#results-model",
            find_cell(page, 0, 0),
            {"first": "60", "second": "66"},
        ),
    ):
        open_tab(page, tab)
        page.locator(f"{model} select").select_option("second")
        expect(place).to_have_text(expected["second"])
        open_tab(page, "Explore")
        page.evaluate(JS_OPEN_RESULTS_AND_SELECT_MODEL, f"{model} select")
        expect(place).to_have_text(expected["first"])
        wait_until_idle(page)  # the response to the opening may come last
        expect(place).to_have_text(expected["first"])
        expect(page.locator(f"{model} select")).to_have_value("first")


# --- the confusion matrix ------------------------------------------------------------------------


def test_two_clicks_open_an_image_of_a_cell(page):
    wait_until_drawn(page)
    before = get_last_draw(page)
    open_tab(page, "Confusion matrix")
    find_cell(page, 0, 1).click()
    expect_image_count(page, "cell-pictures", FIRST_COUNTS[0, 1])
    expect(find_cell(page, 0, 1)).to_have_attribute("aria-pressed", "true")
    image = page.locator("#cell-pictures .pictures button").nth(3)
    number = image.get_attribute("data-pick")
    image.click()
    expect_open_in_explore(page, re.compile(rf"Test image {number}\b.* True class: <b>ant\."))
    wait_for_new_values(page, before)
    wait_until_drawn(page, run="first")
    # The cell stays selected for another model.
    open_tab(page, "Confusion matrix")
    page.locator("#results-model select").select_option("second")
    expect_image_count(page, "cell-pictures", PREDICTION_COUNTS["second"][0, 1])


def test_the_keyboard_opens_an_image_of_a_cell(open_page, address):
    page = open_page(f"{address}?model=first")
    page.get_by_role("tab", name="Results").focus()
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Confusion matrix").focus()
    page.keyboard.press("Enter")
    find_cell(page, 0, 0).wait_for()
    press_tab_until(page, "#confusion-matrix .vd-cell")
    for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect_image_count(page, "cell-pictures", FIRST_COUNTS[1, 0])
    assert page.evaluate("document.activeElement.dataset.pick") == "1-0"
    numbers = list_image_numbers(page, "cell-pictures")
    press_tab_until(page, "#cell-pictures .pictures button")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect_open_in_explore(page, re.compile(rf"Test image {numbers[1]}\b.* True class: bee\."))
    expect(page.get_by_role("tab", name="Explore")).to_be_focused()


def test_cells_show_counts_percentages_and_differences(page):
    open_tab(page, "Confusion matrix")
    expect(find_cell(page, 0, 1)).to_have_accessible_name(
        'true class <b>ant, predicted class bee: 10 images, 14.3% of all images of "<b>ant"'
    )
    find_cell(page, 2, 2).click()
    expect_image_count(page, "cell-pictures", 0)
    # Images replace the list of confused pairs, whose sentences select their cells.
    sentence = page.get_by_role("button", name='10 images of "<b>ant" were predicted as "bee"')
    expect(sentence).to_be_hidden()
    page.get_by_role("button", name="Most confused pairs").click()
    expect(page.locator("#cell-pictures .vd-gallery")).to_be_hidden()
    sentence.click()
    expect_image_count(page, "cell-pictures", 10)
    boxes = [find_cell(page, *cell).bounding_box() for cell in ((0, 0), (2, 2))]
    assert all(abs(box["width"] - box["height"]) < 3 for box in boxes)
    left = page.locator("#cell-title").bounding_box()["x"]
    assert left > boxes[1]["x"] + boxes[1]["width"]  # at the right of the matrix
    page.set_viewport_size({"width": 390, "height": 844})
    assert fits_window(page)
    matrix, title = (
        page.locator(f"#{name}").bounding_box() for name in ("confusion-matrix", "cell-title")
    )
    assert title["y"] > matrix["y"] + matrix["height"]  # below the matrix
    page.set_viewport_size({"width": 1280, "height": 900})
    file = export(page, "PNG: Confusion matrix")
    assert file.suggested_filename == "first-confusion.png"
    with Image.open(file.path()) as image:
        assert len(image.convert("RGB").getcolors(1 << 24)) > 10  # cells of several colours
    page.get_by_role("radio", name="Percentage of predicted class").check()
    expect(find_cell(page, 1, 0)).to_have_text("7.2%")  # 5 of 69
    page.get_by_role("radio", name="Counts").check()
    page.get_by_role("checkbox", name="Errors only").check()
    expect(find_cell(page, 0, 0)).to_have_text("")
    expect(find_cell(page, 0, 1)).to_have_text("10")
    page.locator("#results-other select").select_option("second")
    expect(find_cell(page, 1, 0)).to_have_text("−4")
    find_cell(page, 1, 0).click()  # images of both models
    expect(page.locator("#cell-title")).to_contain_text("5 images for first, 9 for second")
    images = page.locator("#cell-pictures")
    expect(images.locator(".found")).to_contain_text(re.compile(r"(9|1[0-4]) images"))
    predictions = images.locator(".pictures button").first.locator("small")
    expect(predictions).to_contain_text(["first: ", "second: "])


def test_an_image_opens_class_maps_for_models_without_attention(open_page, tested_runs, tmp_path):
    root, data = tested_runs
    first = read_run(root / "first")
    make_run(tmp_path / "conv", RESNET, classes=first.classes, tested=first.evaluation)
    with serve("--runs", str(tmp_path), "--data", str(data), cwd=data) as address:
        page = open_page(f"{address}?tab=errors")
        page.locator("#errors-pictures .pictures button").first.click()
        expect(page.get_by_role("tab", name="Why this class?")).to_have_attribute(
            "aria-selected", "true"
        )
        expect(page.locator("#attribution-maps figure").first).to_contain_text("Grad-CAM")
        page.close()


# --- the Errors tab ------------------------------------------------------------------------------


JS_THUMBNAIL_SIZES = """async (all) => Promise.all(all.map(async (thumb) => {
  const sheet = new Image();
  sheet.src = getComputedStyle(thumb).backgroundImage.slice(5, -2);
  await sheet.decode();
  return [thumb.clientWidth, thumb.clientHeight, sheet.naturalWidth];
}))"""


@pytest.fixture
def errors(page) -> Page:
    open_tab(page, "Errors")
    expect_image_count(page, "errors-pictures", 25)
    return page


def find_kind_button(page: Page, name: str):
    return page.locator("#errors-kinds").get_by_role("button", name=name)


def test_kinds_show_counts_and_all_pages_of_images(open_views, tested_views):
    errors = open_views(tested_views, "errors-kinds+errors-pictures", "model=first")
    expect_image_count(errors, "errors-pictures", 25)
    thumbs = errors.locator("#errors-pictures .thumb").evaluate_all(JS_THUMBNAIL_SIZES)
    assert len(thumbs) == 25
    assert all(width == height >= 96 and sheet == 8 * 16 for width, height, sheet in thumbs)
    expect(find_kind_button(errors, "Correct predictions")).to_have_text("Correct predictions 85")
    for name in ("Only this model correct", "All models wrong", "Possible label errors"):
        find_kind_button(errors, name).click()
        expect(find_kind_button(errors, name)).to_have_attribute("aria-pressed", "true")
        expect_image_count(
            errors, "errors-pictures", int(find_kind_button(errors, name).locator("b").inner_text())
        )
    # The pages contain every image once.
    find_kind_button(errors, "All images").click()
    summary, numbers = errors.locator("#errors-pictures .found"), []
    previous = errors.get_by_role("button", name="Previous images")
    following = errors.get_by_role("button", name="Next images")
    for span, count in (("1 to 48", 48), ("49 to 96", 48), ("97 to 110", 14)):
        if numbers:
            following.click()
        expect(summary).to_contain_text(f"110 images, {span} shown")
        expect(previous).to_be_enabled(enabled=bool(numbers))
        expect(errors.locator("#errors-pictures .pictures button")).to_have_count(count)
        numbers += list_image_numbers(errors, "errors-pictures")
    assert sorted(numbers) == list(range(110))
    expect(following).to_be_disabled()
    previous.click()
    expect(summary).to_contain_text("110 images, 49 to 96 shown")
    errors.set_viewport_size({"width": 390, "height": 844})
    assert fits_window(errors)


def test_controls_of_gradio_filter_the_images(errors):
    choose_option(errors, "#errors-true", "bee")
    expect_image_count(errors, "errors-pictures", FIRST_COUNTS[1, 0])
    errors.get_by_role("checkbox", name="Both directions").check()
    expect_image_count(errors, "errors-pictures", 5 + 10 + 6)
    open_fold(errors, "Confused pairs and confidence", "#errors-high input")
    fill_slider(errors, "#errors-high", 40)
    expect_image_count(errors, "errors-pictures", 0)
    errors.get_by_role("button", name="Clear filters").click()
    expect_image_count(errors, "errors-pictures", 25)
    expect(errors.locator("#errors-true input")).to_have_value("any class")
    expect(errors.locator("#errors-high input[type=number]")).to_have_value("100")


def test_filters_combine_and_are_reset_with_the_model(open_views, tested_views):
    filters = "errors-true+errors-predicted+control-errors-both+errors-order"
    filters += "+errors-low+errors-high+errors-pairs"
    places = f"results-model+errors-kinds+errors-pictures+{filters}"
    errors = open_views(tested_views, places, "model=first")
    expect_image_count(errors, "errors-pictures", 25)
    before = list_image_numbers(errors, "errors-pictures")
    first = errors.locator("#errors-pictures .pictures button").first
    errors.locator("#errors-order select").select_option("Smallest margin first")
    expect(first).to_have_attribute("data-pick", str(before[-1]))
    errors.locator("#errors-order select").select_option("By image number")
    expect(first).to_have_attribute("data-pick", str(min(before)))
    assert list_image_numbers(errors, "errors-pictures") == sorted(before)
    expect(first).to_contain_text(re.compile(r"(<b>ant|bee|fly) → (<b>ant|bee)\s*\d+\.\d%"))
    expect(first.locator("small")).to_have_count(0)
    errors.locator("#errors-pictures .wanted input").check()  # predictions of every model
    expect(first.locator("small")).to_have_count(2)
    expect(first.locator("small").nth(1)).to_contain_text("second: ")
    errors.locator("#errors-true select").select_option("bee")
    expect_image_count(errors, "errors-pictures", FIRST_COUNTS[1, 0])
    expect(find_kind_button(errors, "Correct predictions")).to_have_text("Correct predictions 25")
    both_directions = errors.get_by_role("checkbox", name="Both directions")
    both_directions.check()
    expect_image_count(errors, "errors-pictures", 5 + 10 + 6)  # true bees and predicted bees
    fill_slider(errors, "#errors-high", 40)
    expect_image_count(errors, "errors-pictures", 0)
    fill_slider(errors, "#errors-low", 50)
    message = errors.locator("#errors-pictures .vd-notice", has_text="range 0.5 to 0.4")
    expect(message).to_be_visible()
    fill_slider(errors, "#errors-low", 0)
    errors.get_by_role("button", name="Clear filters").click()
    expect_image_count(errors, "errors-pictures", 25)
    # A pair filters by both its cells; a second click removes the filter.
    note = errors.locator("#errors-kinds .only")
    pair = errors.get_by_role("button", name=re.compile("<b>ant and bee: 15 images, 10 of"))
    expect(note).to_be_hidden()
    pair.click()
    expect(note).to_contain_text("Filter: <b>ant ↔ bee.")
    expect_image_count(errors, "errors-pictures", 15)
    expect(errors.locator("#errors-true select")).to_have_value("<b>ant")
    expect(errors.locator("#errors-predicted select")).to_have_value("bee")
    expect(both_directions).to_be_checked()
    pair.click()
    expect(note).to_be_hidden()
    expect_image_count(errors, "errors-pictures", 25)
    expect(both_directions).not_to_be_checked()
    pair.click()
    expect_image_count(errors, "errors-pictures", 15)
    errors.locator("#results-model select").select_option("second")
    expect_image_count(errors, "errors-pictures", 23)
    expect(note).to_be_hidden()
    expect(errors.locator("#errors-predicted option:checked")).to_have_text("any class")


def test_url_restores_the_filters(open_views, tested_views):
    places = "results-model+errors-kinds+errors-pictures"
    errors = open_views(tested_views, places, "model=first", is_new=True)
    errors.locator("#results-model select").select_option("second")
    expect_image_count(errors, "errors-pictures", 23)
    find_kind_button(errors, "All images").click()
    set_state(errors, "errors.true", "bee")
    expect_image_count(errors, "errors-pictures", 30)
    errors.wait_for_url(re.compile(r"(?=.*model=second)(?=.*errors\.true=bee)(?=.*kind=all)"))
    page = open_views(tested_views, places, errors.url.partition("?")[2], is_new=True)
    expect_image_count(page, "errors-pictures", 30)
    expect(page.locator("#results-model select")).to_have_value("second")
    expect(page.locator("#errors-kinds .only")).to_contain_text("bee → any class")
    query = "errors.kind=no&errors.true=<i>&errors.low=nan&errors.model=x"
    page = open_views(tested_views, places, query, is_new=True)
    expect_image_count(page, "errors-pictures", 25)


def test_url_restores_the_page_of_images_and_the_cell(open_views, tested_views):
    query = "errors.model=second&errors.kind=all&errors.page=3"
    page = open_views(tested_views, "errors-kinds+errors-pictures", query)
    summary = page.locator("#errors-pictures .found")
    expect(summary).to_contain_text("110 images, 97 to 110 shown")
    page.get_by_role("button", name="Previous images").click()
    expect(summary).to_contain_text("110 images, 49 to 96 shown")
    page.wait_for_url(re.compile(r"errors\.page=2"))
    set_state(page, "errors.order", "data_set")  # another order starts at page 1
    expect(summary).to_contain_text("110 images, 1 to 48 shown")
    page.wait_for_url(lambda url: "errors.page" not in url)
    cells = "confusion-matrix+cell-pictures"
    page = open_views(tested_views, cells, "results.model=second")
    find_cell(page, 1, 0).click()
    expect_image_count(page, "cell-pictures", PREDICTION_COUNTS["second"][1, 0])
    page.wait_for_url(re.compile(r"confusion\.cell=bee,"))
    query = page.url.partition("?")[2]
    page = open_views(tested_views, cells, query, is_new=True)
    expect_image_count(page, "cell-pictures", PREDICTION_COUNTS["second"][1, 0])
    expect(find_cell(page, 1, 0)).to_have_attribute("aria-pressed", "true")


def test_an_image_opens_with_the_queried_model(errors):
    errors.locator("#results-model select").select_option("second")
    expect_image_count(errors, "errors-pictures", 23)
    first = errors.locator("#errors-pictures .pictures button").first
    number = first.get_attribute("data-pick")
    first.click()
    expect_open_in_explore(errors, f"Test image {number}.")
    wait_until_drawn(errors, run="second")
    errors.go_back()  # to the same image of another model
    expect(errors.get_by_role("tab", name="Errors")).to_have_attribute("aria-selected", "true")
    errors.locator("#results-model select").select_option("first")
    find_kind_button(errors, "All images").click()
    expect(errors.locator("#errors-pictures .found")).to_contain_text("110 images")
    same_image = errors.locator(f"#errors-pictures [data-pick='{number}']")
    while not same_image.count():
        before = list_image_numbers(errors, "errors-pictures")
        errors.get_by_role("button", name="Next images").click()
        expect(errors.locator(f"#errors-pictures [data-pick='{before[0]}']")).to_have_count(0)
    same_image.click()
    expect_open_in_explore(errors, f"Test image {number}.")
    wait_until_drawn(errors, run="first")


def test_missing_weights_and_a_missing_dataset_are_reported(errors, open_page, page_url):
    expect(errors.locator("#header").get_by_title("results of 1 more run")).to_be_visible()
    errors.locator("#results-model select").select_option("third")
    expect_image_count(errors, "errors-pictures", 23)
    errors.locator("#errors-pictures .pictures button").first.click()
    expect_open_in_explore(errors, "The weights of third are not available")
    expect(errors.locator("#model select")).not_to_have_value("third")
    page = open_page(f"{page_url}?tab=confusion")
    find_cell(page, 3, 5).click()
    place = page.locator("#cell-pictures")
    expect(place.locator(".found")).to_have_text("5 images")
    expect(place.get_by_role("button", name="Download CIFAR-10")).to_be_visible()
    open_tab(page, "Errors")
    expect(page.locator("#errors-pictures .vd-dataset")).to_be_visible()
    expect(page.locator("#errors-pictures table")).to_have_count(0)


def test_test_images_open_with_their_true_class(open_page, address):
    page = open_page(f"{address}?picture=test:2")
    wait_until_drawn(page)
    for card in page.locator("#answers .card").all():
        first = card.locator("li").first.text_content()
        assert ("✓" in first) == first.startswith("<b>ant") and ("✗" in first) != ("✓" in first)
    expect(page.locator("#answers [role=status].read")).to_contain_text("True class: <b>ant.")
    thumbnails = page.locator("#offers .tests .tiles").get_by_role("button")
    before = thumbnails.first.get_attribute("style")
    page.get_by_role("button", name="Show other images").click()
    expect(thumbnails.first).not_to_have_attribute("style", before)
    description = thumbnails.first.get_attribute("aria-label")
    thumbnails.first.click()
    number, label = re.fullmatch(r"Test image (\d+): (<b>ant|bee|fly)", description).groups()
    about = page.locator("#picture .about")
    expect(about).to_have_text(f"Test image {number}. True class: {label}.")
    page.locator("#offers .unlike").get_by_role("button", name="lion").click()  # outside cwd
    expect(about).to_contain_text("Photo: lion.")


def test_model_of_explore_and_results_is_one_choice(page):
    results, explore = page.locator("#results-model select"), page.locator("#model select")
    open_tab(page, "Errors")
    results.select_option("second")
    open_tab(page, "Confusion matrix")
    expect(results).to_have_value("second")
    open_tab(page, "Explore")
    expect(explore).to_have_value("second")
    page.wait_for_url(lambda url: "model=second" in url and "results.model" not in url)
    choose_model(page, "first")
    open_tab(page, "Errors")
    expect(page.locator("#errors-kinds button").first).to_contain_text("Errors 25")
    expect(results).to_have_value("first")
    results.select_option("third")  # without weights
    open_tab(page, "Explore")
    expect(explore).to_have_value("first")
    page.wait_for_url(lambda url: "results.model=third" in url)


def test_url_of_a_run_without_weights_opens_its_results(open_page, address):
    page = open_page(f"{address}?model=third&tab=errors")
    expect(page.locator("#results-model select")).to_have_value("third")
    open_tab(page, "Explore")
    expect(page.locator("#picture .about")).to_contain_text("The weights of third are not")
