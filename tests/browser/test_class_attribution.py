"""The section "Why this class?" in a real Chromium."""

import re
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    choose_model,
    download,
    list_image_sources,
    upload,
    wait_for_change,
)
from tests.support import held_tasks
from tests.support.factories import make_run
from tests.support.serving import serve

MAPS = "#attribution-maps"
SVG = "{http://www.w3.org/2000/svg}"
JS_HAS_COLOUR_OF_LIT_CURVE = """number => {
    const figure = document.querySelectorAll("#attribution-maps figure")[number];
    const swatch = figure?.querySelector(".swatch");
    const curve = document.querySelector("#faithfulness-results .is-lit path");
    if (!swatch || !curve) return false;
    return getComputedStyle(curve).stroke === getComputedStyle(swatch).backgroundColor;
}"""
# Removes the drawn curves, and draws them again.
JS_DRAW_NEW_CURVES = """() => {
    const lit = document.querySelectorAll("#faithfulness-results .is-lit");
    for (const each of lit) each.classList.remove("is-lit");
    vitdemo.store.redraw("class_attribution");
}"""
JS_TOPS = "all => all.map(each => Math.round(each.getBoundingClientRect().top))"
SCORES = f"{MAPS} .score"
JS_RECORD_SCORES = """() => {
    Object.assign(window, { scores: [], bars: [] });
    const count = (places) => document.querySelectorAll(places).length;
    new MutationObserver(() => {
        scores.push(count("#attribution-maps .score"));
        bars.push(count("#attribution-maps progress, #faithfulness-results progress"));
    }).observe(document.querySelector("#attribution-maps"), { childList: true, subtree: true });
}"""
JS_RECORD_PROGRESS = """() => {
    window.progress = [];
    const text = document.querySelector(".vd-progress progress").nextElementSibling;
    const changes = { childList: true, characterData: true, subtree: true };
    new MutationObserver(() => progress.push(text.textContent)).observe(text, changes);
}"""


@pytest.fixture
def maps_page(shared_page):
    shared_page.get_by_role("tab", name="Why this class?").click()
    shared_page.locator(f"{MAPS} figure").nth(4).wait_for()
    return shared_page


@pytest.fixture
def hold(runs_root):
    """Return a file; while it exists, faithfulness tests of the held page do not end."""
    file = runs_root / held_tasks.HOLD_FILE
    file.touch()
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def runs_root(tmp_path_factory):
    """Folder of the runs of the held page."""
    root = tmp_path_factory.mktemp("held")
    for seed, name in enumerate(("first", "second")):
        make_run(root / name, seed=seed)
    return root


@pytest.fixture(scope="module")
def held_url(runs_root):
    """Address of a page whose tasks wait while the file `hold` exists."""
    folders = ("--runs", str(runs_root), "--data", str(runs_root / "none"))
    with serve(*folders, program=held_tasks.PROGRAM) as address:
        yield address


@pytest.fixture
def open_maps(open_page, held_url, hold):
    """Return a function that opens the maps of the model "first" or "second"."""

    def open_maps(model: str) -> Page:
        page = open_page(f"{held_url}?section=class-attribution&model={model}")
        page.locator(f"{MAPS} figure").nth(4).wait_for()
        return page

    return open_maps


def type_option(page, selector, name):
    """Choose an option of a list by typing its name."""
    field = page.locator(f"{selector} input")
    options = page.locator("li[role=option]")
    expect(options).to_have_count(0)  # the previous list's options fade out first
    field.click()
    field.fill(name)
    # The option may end with a note in brackets, as "Uniform colour (RGB 125, 123, 114)".
    page.get_by_role("option", name=re.compile(rf"^{re.escape(name)}( \(|$)")).click()


def test_quick_maps_follow_the_class_and_the_model(maps_page):
    expect(maps_page.locator(MAPS)).to_contain_text(re.compile(r"Why \w+\? timm predicts \w+ \d"))
    strongest = r"strongest patch in row \d+ of \d+, column \d+ of \d+"
    images = maps_page.locator(f"{MAPS} figure img")
    expect(images.first).to_have_attribute(
        "alt", re.compile(rf"^.+ of timm for \w+: {strongest}( \((supports|opposes) the class\))?$")
    )
    # Another class changes the maps; a second class shows the difference.
    before = list_image_sources(maps_page, MAPS)
    type_option(maps_page, "#explained-class", "ship")
    expect(maps_page.locator(MAPS)).to_contain_text("Why ship?")
    first = wait_for_change(maps_page, MAPS, before)
    type_option(maps_page, "#second-class", "cat")
    expect(maps_page.locator(MAPS)).to_contain_text("Why ship and not cat?")
    expect(maps_page.locator(f"{MAPS} .legends")).to_contain_text("supports cat")
    expect(images.first).to_have_attribute(
        "alt", re.compile(rf"of timm for ship and not cat: {strongest} \((supports|opposes) the")
    )
    second = wait_for_change(maps_page, MAPS, first)
    assert first[6:10] == second[6:10]  # attention and rollout are the same for every class
    type_option(maps_page, "#second-class", "ship")
    expect(maps_page.locator(MAPS)).to_contain_text("cannot be compared with itself")
    # A ResNet has its own maps and no tokens to drop.
    type_option(maps_page, "#patch-replacement", "Token dropped")
    choose_model(maps_page, "resnet")
    expect(maps_page.locator(f"{MAPS} figure")).to_have_count(1)
    expect(maps_page.locator(MAPS)).to_contain_text("Grad-CAM")
    replacement = maps_page.locator("#patch-replacement input")
    expect(replacement).to_have_value(re.compile("^Uniform colour"))


def test_saved_map_has_title_model_and_colour_scale(maps_page):
    figure = maps_page.locator(f"{MAPS} figure").first
    title = figure.locator("figcaption > strong").inner_text()
    button = figure.get_by_role("button", name=re.compile("^Save as SVG: "))
    file = download(maps_page, button)
    texts = [each.text for each in ElementTree.parse(file.path()).getroot().iter(f"{SVG}text")]
    assert title in texts[0]
    assert "timm" in " ".join(texts[1:-2])  # the model
    assert texts[-2:] in (["0", "the map's own maximum"], ["against", "for"])


def test_slow_maps_and_faithfulness_scores_reset_with_a_new_image(maps_page, photo):
    maps_page.locator("#compute-slow-maps").click()
    expect(maps_page.locator(f"{MAPS} figure")).to_have_count(7)
    expect(maps_page.locator("#test-faithfulness")).to_be_enabled()
    meter = maps_page.locator("#faithfulness-results")
    meter.locator("summary", has_text="Numbers").click()
    correlations = meter.locator("table").last.locator("tbody tr td:nth-child(4)")
    expect(correlations).to_have_count(7)
    assert sum(" to " in text for text in correlations.all_inner_texts()) == 5
    maps_page.locator("#test-faithfulness").click()
    expect(maps_page.locator("#faithfulness-results svg")).to_have_count(2)
    expect(meter.locator("table").first.locator("tr")).to_have_count(11)
    expect(maps_page.locator(SCORES)).to_have_count(7)
    widths = maps_page.locator(f"{SCORES} .value").evaluate_all(
        "all => all.map((e) => e.style.width)"
    )
    assert all(widths)  # also of scores below zero; the browser drops a negative width
    expect(maps_page.locator("#cancel-attribution")).to_be_hidden()
    label = meter.locator("figure").first.get_attribute("aria-label")
    assert "Area under the curve, %" in label
    type_option(maps_page, "#patch-replacement", "Uniform colour")
    expect(maps_page.locator("#faithfulness-results svg")).to_have_count(0)
    expect(maps_page.locator(SCORES)).to_have_count(0)
    type_option(maps_page, "#patch-replacement", "Token dropped")
    expect(maps_page.locator("#faithfulness-results svg")).to_have_count(2)  # cached
    table = meter.locator("table").first
    for text in ("baseline: uses the image, but no model", "baseline: uses only the distance"):
        expect(table).to_contain_text(text)
    for figure, text in (
        (0, "Values are in percent of the largest absolute value."),
        (6, "Values are in percent."),
    ):
        panel = maps_page.locator(f"{MAPS} figure").nth(figure)
        panel.get_by_text("Numbers").click()
        expect(panel.locator("caption, table")).to_contain_text([text])
    before = list_image_sources(maps_page, MAPS)
    upload(maps_page, photo)
    wait_for_change(maps_page, MAPS, before)
    expect(maps_page.locator("#faithfulness-results svg")).to_have_count(0)
    expect(maps_page.locator(SCORES)).to_have_count(0)


def test_cancelled_faithfulness_test_lets_the_next_one_run(open_maps, hold):
    first, second = open_maps("first"), open_maps("second")
    first.locator("#test-faithfulness").click()
    expect(first.locator(MAPS)).to_contain_text("steps")  # the progress bar
    expect(first.locator("#test-faithfulness")).to_have_text("Testing …")
    expect(first.locator("#test-faithfulness")).to_be_disabled()
    second.locator("#test-faithfulness").click()  # queued
    first.evaluate(JS_RECORD_PROGRESS)
    first.locator("#cancel-attribution").click()
    expect(first.locator("#cancel-attribution")).to_be_hidden()
    assert "Stopping …" in first.evaluate("window.progress")
    expect(first.locator("#test-faithfulness")).to_be_enabled()
    hold.unlink()
    expect(second.locator("#faithfulness-results svg")).to_have_count(2)
    expect(second.locator(MAPS)).to_contain_text("second predicts")
    expect(first.locator("#test-faithfulness")).to_have_text("Test faithfulness")
    expect(first.locator("#faithfulness-results svg")).to_have_count(0)
    expect(first.locator(MAPS)).to_contain_text("first predicts")


def test_each_task_keeps_the_results_of_the_other(maps_page):
    scores = maps_page.locator(SCORES)
    progress = maps_page.locator(".vd-progress progress")
    type_option(maps_page, "#explained-class", "frog")  # no other test computes these maps
    expect(maps_page.locator(MAPS)).to_contain_text("Why frog?")
    maps_page.locator("#test-faithfulness").click()
    expect(scores).to_have_count(5)
    maps_page.evaluate(JS_RECORD_SCORES)
    maps_page.locator("#compute-slow-maps").click()
    expect(maps_page.locator(f"{MAPS} figure")).to_have_count(7)
    expect(maps_page.locator("#compute-slow-maps")).to_be_hidden()  # nothing is left to compute
    expect(progress).to_have_count(0)
    expect(scores).to_have_count(5)
    assert min(maps_page.evaluate("window.scores")) == 5  # they stayed
    assert max(maps_page.evaluate("window.bars")) == 1  # there was one progress bar
    expect(maps_page.locator("#faithfulness-results svg")).to_have_count(2)
    expect(maps_page.locator("#faithfulness-results")).to_contain_text(
        "Not measured yet: Integrated Gradients, Occlusion."
    )
    maps_page.locator("#test-faithfulness").click()
    expect(scores).to_have_count(7)
    expect(maps_page.locator("#faithfulness-results")).not_to_contain_text("Not measured yet")


def test_a_change_of_the_view_cancels_the_task(open_maps):
    page = open_maps("first")
    measure, cancel = page.locator("#test-faithfulness"), page.locator("#cancel-attribution")
    bus = page.locator("#offers .photos").get_by_role("button", name="bus")
    for change in (
        bus.click,
        lambda: choose_model(page, "second"),
        lambda: type_option(page, "#explained-class", "ship"),
        lambda: type_option(page, "#patch-replacement", "Uniform colour"),
    ):
        measure.click()
        expect(measure).to_be_disabled()
        expect(cancel).to_be_visible()
        expect(page.locator(MAPS)).to_contain_text("steps")
        change()
        expect(cancel).to_have_count(0)
        expect(measure).to_be_enabled()
        expect(page.locator("#faithfulness-results svg")).to_have_count(0)
        expect(page.locator(f"{MAPS} progress")).to_have_count(0)


@pytest.mark.parametrize("width", [1366, 1024])
def test_maps_stand_in_one_row_and_light_up_their_curves(open_page, page_url, width):
    query = "?section=class-attribution&picture=photo:lion"
    page = open_page(page_url + query, width=width, height=768)
    figures = page.locator(f"{MAPS} figure")
    figures.nth(4).wait_for()
    assert len({round(figure.bounding_box()["y"]) for figure in figures.all()}) == 1
    for part in (figures.last, page.locator("#test-faithfulness")):
        box = part.locator("canvas").bounding_box() if part == figures.last else part.bounding_box()
        assert box["y"] + box["height"] < 768  # the maps and the test are on the first screen
    words = page.locator("#sections [role=tabpanel]:visible").inner_text().split()
    assert len(words) < 200  # also with scores and curves
    page.locator("#test-faithfulness").click()
    expect(page.locator(SCORES)).to_have_count(5)
    expect(page.locator("#test-faithfulness")).to_be_enabled()
    page.wait_for_function("!document.querySelector('[data-view=class_attribution][aria-busy]')")
    tops = page.locator(f"{SCORES} .track").evaluate_all(JS_TOPS)
    assert len(tops) == 5 and len(set(tops)) == 1
    lit = page.locator("#faithfulness-results .is-lit")
    expect(lit).to_have_count(0)
    for number in (1, 3):
        figures.nth(number).hover()
        expect(lit).to_have_count(2)  # in both plots
        # Maps and plots can be drawn again at any time, so each check reads both colours.
        page.wait_for_function(JS_HAS_COLOUR_OF_LIT_CURVE, arg=number)
    page.evaluate(JS_DRAW_NEW_CURVES)
    expect(lit).to_have_count(2)
    page.mouse.move(0, 0)
    expect(lit).to_have_count(0)
    figures.first.get_by_role("button", name="Save as PNG").focus()
    expect(lit).to_have_count(2)


def test_typed_class_is_kept_while_new_choices_arrive(open_page, page_url):
    page = open_page(page_url + "?section=class-attribution")
    field, options = page.locator("#explained-class input"), page.locator("li[role=option]")
    field.click()
    field.fill("ship")  # possibly before the first maps
    field.press("Enter")
    expect(page.locator(MAPS)).to_contain_text("Why ship?")
    field.click()
    field.press("Control+A")
    field.press_sequentially("tru")
    expect(options).to_have_text(["✓ truck"])
    before = list_image_sources(page, MAPS)
    # Another image has another predicted class, so the choices change. This click moves no focus.
    page.locator("#offers .photos").get_by_role("button", name="bus").evaluate("one => one.click()")
    wait_for_change(page, MAPS, before)
    expect(field).to_have_value("tru")
    expect(options).to_have_text(["✓ truck"])
    field.press("Enter")
    expect(page.locator(MAPS)).to_contain_text("Why truck?")
    expect(field).to_have_value("truck")
    field.click()
    label = options.first.inner_text()  # of the new image, because its choices arrived meanwhile
    options.first.click()
    predicted = re.search(r"predicted class \((\w+)\)", label)[1]
    expect(page.locator(MAPS)).to_contain_text(f"Why {predicted}?")
