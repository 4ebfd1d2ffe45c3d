"""From a number to the picture and its attention, in a real Chromium, by mouse and by keyboard."""

import csv
import re
import shutil

import pytest
from playwright.sync_api import Page, expect

from tests.browser.doing import drawn, wait_for_another, wait_until_drawn
from tests.making import ANSWERS
from tests.serving import serve

FIRST = ANSWERS["first"]


@pytest.fixture(scope="module")
def address(tested_runs):
    """A page over two runs and the folder of pictures that they were tested on."""
    runs, data = tested_runs
    with serve("--runs", str(runs), "--data", str(data)) as address:
        yield address


@pytest.fixture
def page(open_page, address) -> Page:
    page = open_page(address)
    yield page
    page.close()


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def cell(page: Page, true: int, predicted: int):
    return page.locator(f"#confusion-matrix [data-pick='{true}-{predicted}']")


def found(page: Page, place: str, count: int, shown: int | None = None) -> None:
    """The place says that it holds `count` pictures, and shows them up to 48."""
    words = "1 picture" if count == 1 else f"{count} pictures" if count else "No picture"
    expect(page.locator(f"#{place} .found")).to_contain_text(words)
    expect(page.locator(f"#{place} .pictures button")).to_have_count(shown or min(count, 48))


def numbers(page: Page, place: str) -> list[int]:
    picks = page.locator(f"#{place} .pictures button").evaluate_all(
        "all => all.map(b => b.dataset.pick)"
    )
    return list(map(int, picks))


def is_open_in_look(page: Page, words: re.Pattern | str) -> None:
    expect(page.get_by_role("tab", name="Look")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#picture .about")).to_contain_text(words)
    expect(page.locator("#attention .large")).to_be_visible()


def attends(page: Page, name: str) -> None:
    """The large map of Look is that of the model `name`."""
    wait_until_drawn(page, run=name)


def press_tab_until(page: Page, place: str) -> None:
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("place => document.activeElement.matches(place)", place):
            return
    raise AssertionError(f"30 times Tab, and '{place}' has no focus")


# --- a click made while a tab opens --------------------------------------------------------------

TAB_THEN_MODEL = """([tab, model]) => {
  const tabs = [...document.querySelectorAll("#tabs [role=tab]")];
  tabs.find((one) => one.textContent.trim() === tab).click();
  setTimeout(() => {
    const select = document.querySelector(model);
    select.value = "first";
    select.dispatchEvent(new Event("change"));
  }, 10);
}"""


@pytest.mark.parametrize(
    ("tab", "model", "shows"),
    [
        ("Errors", "errors-model", {"first": "Errors 25", "second": "Errors 23"}),
        ("Confusion matrix", "confusion-model", {"first": "60", "second": "66"}),
    ],
)
def test_a_model_chosen_while_its_tab_opens_stays_chosen(page, tab, model, shows):
    counted = page.locator("#errors-kinds [data-pick=errors]")
    place = {"Errors": counted, "Confusion matrix": cell(page, 0, 0)}[tab]
    open_tab(page, tab)
    page.locator(f"#{model} select").select_option("second")
    expect(place).to_have_text(shows["second"])
    open_tab(page, "Look")
    page.evaluate(TAB_THEN_MODEL, [tab, f"#{model} select"])
    expect(place).to_have_text(shows["first"])
    page.wait_for_timeout(500)  # for an answer to the opening that comes after that to the click
    expect(place).to_have_text(shows["first"])
    expect(page.locator(f"#{model} select")).to_have_value("first")


# --- the confusion matrix ------------------------------------------------------------------------


def test_on_a_phone_all_columns_are_seen(open_page, address):
    page = open_page(address, 390)
    open_tab(page, "Confusion matrix")
    cell(page, 0, 0).wait_for()
    scroll = page.locator("#confusion-matrix .vd-scroll").first
    assert scroll.evaluate("place => place.scrollWidth <= place.clientWidth")


def test_two_clicks_lead_from_a_cell_to_the_attention(page):
    wait_until_drawn(page)
    before = drawn(page)
    open_tab(page, "Confusion matrix")
    cell(page, 0, 1).click()
    found(page, "cell-pictures", FIRST[0, 1])
    expect(cell(page, 0, 1)).to_have_attribute("aria-pressed", "true")
    picture = page.locator("#cell-pictures .pictures button").nth(3)
    number = picture.get_attribute("data-pick")
    picture.click()
    is_open_in_look(page, re.compile(rf"Test picture {number}\b.* True class: <b>ant\."))
    wait_for_another(page, before)
    attends(page, "first")


def test_the_keyboard_alone_leads_from_a_cell_to_the_attention(page):
    page.get_by_role("tab", name="Confusion matrix").focus()
    page.keyboard.press("Enter")
    cell(page, 0, 0).wait_for()
    press_tab_until(page, "#confusion-matrix .vd-cell")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    found(page, "cell-pictures", FIRST[1, 0])
    assert page.evaluate("document.activeElement.dataset.pick") == "1-0"
    shown = numbers(page, "cell-pictures")
    press_tab_until(page, "#cell-pictures .pictures button")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    is_open_in_look(page, re.compile(rf"Test picture {shown[1]}\b.* True class: bee\."))
    expect(page.get_by_role("tab", name="Look")).to_be_focused()


def test_every_cell_is_a_button_that_says_what_it_holds(page):
    open_tab(page, "Confusion matrix")
    expect(cell(page, 0, 1)).to_have_accessible_name(
        'true class <b>ant, predicted class bee: 10 pictures, 14.3 % of all pictures of "<b>ant"'
    )
    expect(cell(page, 2, 2)).to_have_accessible_name(
        'true class fly, predicted class fly: 0 pictures, 0.0 % of all pictures of "fly"'
    )


@pytest.mark.parametrize("pick", [(0, 0), (2, 1), (2, 2)])
def test_the_gallery_holds_as_many_as_the_cell_says(page, pick):
    open_tab(page, "Confusion matrix")
    expect(cell(page, *pick)).to_have_text(str(FIRST.get(pick, 0)))
    cell(page, *pick).click()
    found(page, "cell-pictures", FIRST.get(pick, 0))


def test_the_cell_stays_chosen_for_another_model(page):
    open_tab(page, "Confusion matrix")
    cell(page, 0, 1).click()
    found(page, "cell-pictures", FIRST[0, 1])
    page.locator("#confusion-model select").select_option("second")
    found(page, "cell-pictures", ANSWERS["second"][0, 1])


def test_shares_of_the_predicted_class_have_a_dash_for_one_never_predicted(page):
    open_tab(page, "Confusion matrix")
    page.get_by_role("radio", name="Share of the predicted class").check()
    expect(cell(page, 1, 0)).to_have_text("7.2 %")  # 5 of 69
    expect(cell(page, 0, 2)).to_have_text("–")


def test_errors_only_leaves_the_right_answers_out(page):
    open_tab(page, "Confusion matrix")
    page.get_by_role("checkbox", name="Errors only").check()
    expect(cell(page, 0, 0)).to_have_text("")
    expect(cell(page, 0, 1)).to_have_text("10")


def test_the_difference_of_two_models_shows_the_pictures_of_both(page):
    open_tab(page, "Confusion matrix")
    page.locator("#confusion-other select").select_option("second")
    expect(cell(page, 0, 1)).to_have_text("+6")
    expect(cell(page, 1, 0)).to_have_text("−4")
    cell(page, 1, 0).click()
    expect(page.locator("#cell-title")).to_contain_text("5 pictures with first, 9 with second")
    expect(page.locator("#cell-pictures .found")).to_contain_text(
        re.compile(r"(9|1[0-4]) pictures")
    )
    expect(page.locator("#cell-pictures .pictures button").first.locator("small")).to_contain_text(
        ["first: ", "second: "]
    )
    expect(cell(page, 2, 2)).to_have_text("0")


def test_a_sentence_of_the_confused_pairs_chooses_its_cell(page):
    open_tab(page, "Confusion matrix")
    page.get_by_role("button", name='10 pictures of "<b>ant" were taken for "bee"').click()
    found(page, "cell-pictures", 10)


def test_csv_and_png_of_the_matrix(page):
    open_tab(page, "Confusion matrix")
    with page.expect_download() as download:
        page.locator("#confusion-matrix").get_by_role("button", name="Download CSV").click()
    rows = list(csv.reader(download.value.path().read_text().splitlines()))
    assert rows[:2] == [["true \\ predicted", "<b>ant", "bee", "fly"], ["<b>ant", "60", "10", "0"]]
    with page.expect_download() as download:
        page.get_by_role("button", name="Draw as PNG").click()
    assert download.value.suggested_filename == "first-confusion.png"
    assert download.value.path().read_bytes()[:4] == b"\x89PNG"


# --- the Errors tab ------------------------------------------------------------------------------


@pytest.fixture
def errors(page) -> Page:
    open_tab(page, "Errors")
    found(page, "errors-pictures", 25)
    return page


def kind(page: Page, name: str):
    return page.locator("#errors-kinds").get_by_role("button", name=name)


def test_kinds_say_their_count_and_show_as_many(errors):
    expect(kind(errors, "Right answers")).to_have_text("Right answers 85")
    kind(errors, "Right answers").click()
    expect(errors.locator("#errors-pictures .found")).to_contain_text("85 pictures, 1 to 48 shown")
    expect(kind(errors, "Right answers")).to_have_attribute("aria-pressed", "true")
    for name in ("Only this model is right", "All models are wrong", "Doubtful labels"):
        kind(errors, name).click()
        expect(kind(errors, name)).to_have_attribute("aria-pressed", "true")
        found(errors, "errors-pictures", int(kind(errors, name).locator("b").inner_text()))


def test_filters_combine_and_counts_follow(errors):
    errors.locator("#errors-true input").click()
    errors.get_by_role("option", name="bee").click()
    found(errors, "errors-pictures", FIRST[1, 0])
    expect(kind(errors, "Right answers")).to_have_text("Right answers 25")
    errors.get_by_role("checkbox", name="Either way round").check()
    found(errors, "errors-pictures", 5 + 10 + 6)  # bees, and what was predicted to be one
    errors.locator("#errors-low input[type=number]").fill("100")
    errors.locator("#errors-low input[type=number]").press("Enter")
    found(errors, "errors-pictures", 0)
    errors.locator("#errors-low").get_by_role("button", name="Reset").click()
    found(errors, "errors-pictures", 21)


def test_a_range_without_an_inside_is_told(errors):
    errors.locator("#errors-high input[type=number]").fill("40")
    errors.locator("#errors-high input[type=number]").press("Enter")
    found(errors, "errors-pictures", 0)
    errors.locator("#errors-low input[type=number]").fill("50")
    errors.locator("#errors-low input[type=number]").press("Enter")
    expect(errors.locator("#errors-kinds .vd-notice")).to_contain_text("between 0.5 and 0.4")


def test_the_order_turns_around(errors):
    before = numbers(errors, "errors-pictures")
    errors.get_by_role("radio", name="Least sure first").check()
    expect(errors.locator("#errors-pictures .pictures button").first).to_have_attribute(
        "data-pick", str(before[-1])
    )
    errors.get_by_role("radio", name="By number").check()
    expect(errors.locator("#errors-pictures .pictures button").first).to_have_attribute(
        "data-pick", str(min(before))
    )
    assert numbers(errors, "errors-pictures") == sorted(before)


PAIR = re.compile("<b>ant and bee: 15 pictures, 10 times")


def test_a_pair_says_what_it_filters_and_is_cleared(errors):
    note = errors.locator("#errors-kinds .only")
    expect(note).to_be_hidden()
    pair = errors.get_by_role("button", name=PAIR)
    pair.click()
    expect(note).to_contain_text("Only <b>ant ↔ bee is counted and shown.")
    pair.click()  # a second click takes it away
    expect(note).to_be_hidden()
    found(errors, "errors-pictures", 25)
    pair.click()
    errors.get_by_role("button", name="Clear filters").click()
    found(errors, "errors-pictures", 25)
    expect(errors.get_by_role("checkbox", name="Either way round")).not_to_be_checked()


def test_a_pair_goes_with_its_model(errors):
    errors.get_by_role("button", name=PAIR).click()
    found(errors, "errors-pictures", 15)
    errors.locator("#errors-model select").select_option("second")
    found(errors, "errors-pictures", 23)
    expect(errors.locator("#errors-kinds .only")).to_be_hidden()
    expect(errors.locator("#errors-predicted input")).to_have_value("any class")


def test_the_address_holds_the_filters_and_opens_them(errors, open_page, address):
    errors.locator("#errors-model select").select_option("second")
    found(errors, "errors-pictures", 23)
    kind(errors, "All pictures").click()
    errors.locator("#errors-true input").click()
    errors.get_by_role("option", name="bee").click()
    found(errors, "errors-pictures", 30)
    errors.wait_for_url(
        re.compile(r"(?=.*errors\.model=second)(?=.*errors\.true=bee)(?=.*kind=all)")
    )
    page = open_page(errors.url)
    found(page, "errors-pictures", 30)
    expect(page.locator("#errors-model select")).to_have_value("second")
    expect(page.locator("#errors-kinds .only")).to_contain_text("bee → any class")
    page = open_page(
        f"{address}?tab=errors&errors.kind=no&errors.true=<i>&errors.low=nan&errors.model=x"
    )
    found(page, "errors-pictures", 25)


def test_a_pair_of_classes_shows_both_its_cells(errors):
    errors.get_by_role("button", name=re.compile("<b>ant and bee: 15 pictures, 10 times")).click()
    found(errors, "errors-pictures", 15)
    expect(errors.locator("#errors-true input")).to_have_value("<b>ant")
    expect(errors.locator("#errors-predicted input")).to_have_value("bee")
    expect(errors.get_by_role("checkbox", name="Either way round")).to_be_checked()


def test_pages_turn_and_hold_every_picture_once(errors):
    kind(errors, "All pictures").click()
    head, seen = errors.locator("#errors-pictures .found"), []
    expect(errors.get_by_role("button", name="Previous pictures")).to_be_disabled()
    for span in ("1 to 48", "49 to 96", "97 to 110"):
        expect(head).to_contain_text(f"110 pictures, {span} shown")
        expect(errors.locator("#errors-pictures .pictures button")).to_have_count(
            14 if "97" in span else 48
        )
        seen += numbers(errors, "errors-pictures")
        if "97" not in span:
            errors.get_by_role("button", name="Next pictures").click()
    assert sorted(seen) == list(range(110))
    expect(errors.get_by_role("button", name="Next pictures")).to_be_disabled()
    errors.get_by_role("button", name="Previous pictures").click()
    expect(head).to_contain_text("110 pictures, 49 to 96 shown")


def test_every_models_answer_stands_below_on_demand(errors):
    first = errors.locator("#errors-pictures .pictures button").first
    expect(first).to_contain_text(re.compile(r"(<b>ant|bee|fly) → (<b>ant|bee)\s*\d+\.\d %"))
    expect(first.locator("small")).to_have_count(0)
    errors.locator("#errors-pictures .wanted input").check()
    expect(first.locator("small")).to_have_count(2)
    expect(first.locator("small").nth(1)).to_contain_text("second: ")


def test_a_picture_opens_with_the_model_that_was_asked(errors):
    errors.locator("#errors-model select").select_option("second")
    found(errors, "errors-pictures", 23)
    first = errors.locator("#errors-pictures .pictures button").first
    number = first.get_attribute("data-pick")
    first.click()
    is_open_in_look(errors, f"Test picture {number}.")
    attends(errors, "second")
    errors.go_back()  # to the same picture, for another model
    expect(errors.get_by_role("tab", name="Errors")).to_have_attribute("aria-selected", "true")
    errors.locator("#errors-model select").select_option("first")
    kind(errors, "All pictures").click()
    expect(errors.locator("#errors-pictures .found")).to_contain_text("110 pictures")
    again = errors.locator(f"#errors-pictures [data-pick='{number}']")
    while not again.count():
        before = numbers(errors, "errors-pictures")
        errors.get_by_role("button", name="Next pictures").click()
        expect(errors.locator(f"#errors-pictures [data-pick='{before[0]}']")).to_have_count(0)
    again.click()
    is_open_in_look(errors, f"Test picture {number}.")
    attends(errors, "first")


def test_a_run_without_weights_is_said_to_have_none(open_page, tested_runs, tmp_path):
    folder, data = tested_runs
    shutil.copytree(folder, tmp_path / "runs")
    (tmp_path / "runs" / "second" / "model.safetensors").unlink()
    with serve("--runs", str(tmp_path / "runs"), "--data", str(data)) as address:
        page = open_page(address)
        expect(page.locator("#header")).to_contain_text("figures of 1 more")
        open_tab(page, "Errors")
        page.locator("#errors-model select").select_option("second")
        found(page, "errors-pictures", 23)
        page.locator("#errors-pictures .pictures button").first.click()
        is_open_in_look(page, "The weights of second are not here")
        attends(page, "first")
        page.close()


SEEN = """async (all) => Promise.all(all.map(async (thumb) => {
  const sheet = new Image();
  sheet.src = getComputedStyle(thumb).backgroundImage.slice(5, -2);
  await sheet.decode();
  return [thumb.clientWidth, thumb.clientHeight, sheet.naturalWidth];
}))"""


def test_pictures_can_be_seen(errors):
    thumbs = errors.locator("#errors-pictures .thumb").evaluate_all(SEEN)
    assert len(thumbs) == 25
    assert all(width == height >= 96 and sheet == 8 * 16 for width, height, sheet in thumbs)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(open_page, address, width, scheme):
    page = open_page(address, width, scheme)
    for name, place in (("Confusion matrix", "#confusion-matrix"), ("Errors", "#errors-pictures")):
        open_tab(page, name)
        page.locator(f"{place} [data-pick]").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


# --- without the data set ------------------------------------------------------------------------


def test_without_the_data_set_there_are_numbers_and_answers(open_page, tested_runs, tmp_path):
    with serve("--runs", str(tested_runs[0]), "--data", str(tmp_path / "none")) as address:
        page = open_page(address)
        open_tab(page, "Confusion matrix")
        cell(page, 0, 1).click()
        place = page.locator("#cell-pictures")
        expect(place.locator("tbody tr")).to_have_count(10)
        expect(place.locator(".vd-notice")).to_contain_text("python train.py download")
        open_tab(page, "Errors")
        expect(page.locator("#errors-pictures .found")).to_contain_text("25 pictures")
        head = page.locator("#errors-pictures thead th")
        expect(head).to_have_text(["Test picture", "True class", "first", "second"])
        expect(page.locator("#errors-pictures tbody tr")).to_have_count(25)
        page.close()
