"""The section "Why this class?" in a real Chromium."""

import re
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.actions import (
    choose_model,
    download,
    open_fold,
    set_layer,
    set_state,
    upload,
    wait_until_idle,
)
from tests.support import held_tasks
from tests.support.factories import make_run
from tests.support.serving import serve
from vitdemo.explain.attributions import METHODS
from vitdemo.metrics import DASH
from vitdemo.page.explore.class_attribution import payload
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

NUM_MAPS = len(METHODS)
NUM_FAST = sum(not method.is_slow for method in METHODS.values())
NUM_CLASS_MAPS = sum(method.is_class_specific for method in METHODS.values())
MAPS = "#attribution-maps"
SMALL = f"{MAPS} .small button"
SLIDER = "#attribution-removed"
VERDICT = f"{MAPS} .verdict"
TESTED = re.compile(r"Better than random orders: (yes|no)")
SVG = "{http://www.w3.org/2000/svg}"
JS_MAP_VALUES = "name => document.querySelector(`[data-pick=${name}] canvas`).toDataURL()"
# Counts the tasks that were started.
JS_COUNT_STARTS = """() => {
    const place = document.querySelector("#attribution-maps .vd-progress");
    const isStart = () => place.textContent.includes("Waiting for the server");
    let before = isStart();
    window.starts = 0;
    new MutationObserver(() => {
        if (isStart() && !before) starts += 1;
        before = isStart();
    }).observe(place, { childList: true, subtree: true, characterData: true });
}"""
JS_RECORD_SCORES = """() => {
    Object.assign(window, { scores: [], bars: [] });
    const count = (places) => document.querySelectorAll(places).length;
    new MutationObserver(() => {
        scores.push(count("#attribution-maps .score > b"));
        bars.push(count("#attribution-maps progress"));
    }).observe(document.querySelector("#attribution-maps"), { childList: true, subtree: true });
}"""
# Points of the patches that the image covers, as the numbers 0 and 1 by row.
JS_READ_HOLES = """() => {
    const canvas = document.querySelector("#attribution-maps .removal canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return [...data].filter((_, i) => i % 4 === 3).map((value) => Number(value > 0));
}"""


@pytest.fixture
def maps_page(shared_page):
    shared_page.get_by_role("tab", name="Why this class?").click()
    expect(shared_page.locator(SMALL).nth(4)).to_be_visible()
    return shared_page


@pytest.fixture
def open_attribution(open_views, shown_views):
    """Return a function that opens maps and details of a model without gradio."""

    def open_attribution(query: str) -> Page:
        query = f"section=class-attribution&picture=photo:cat&{query}"
        views = "attribution-maps+ranking-results+faithfulness-results"
        page = open_views(shown_views, views, query, is_new=True)
        expect(page.locator(VERDICT)).to_contain_text(TESTED)
        expect(page.locator("#test-faithfulness")).to_be_hidden()  # all maps are tested
        return page

    return open_attribution


def open_details(page: Page) -> Locator:
    """Open the fold, and return its content."""
    if not page.locator("#faithfulness-results").is_visible():
        open_fold(page, "Details", "#faithfulness-results table")
    return page.locator("#faithfulness-results")


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

    def open_maps(model: str, photo: str = "cat") -> Page:
        query = f"section=class-attribution&model={model}&picture=photo:{photo}"
        page = open_page(f"{held_url}?{query}")
        page.locator(SMALL).nth(4).wait_for()
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
    image = maps_page.locator(f"{MAPS} figure img").first
    expect(image).to_have_attribute(
        "alt", re.compile(rf"^.+ of timm for .+: {strongest}( \((supports|opposes) the class\))?$")
    )
    # Another class changes the maps; a second class shows the difference.
    type_option(maps_page, "#explained-class", "ship")
    expect(maps_page.locator(MAPS)).to_contain_text("Why ship?")
    ship = {name: maps_page.evaluate(JS_MAP_VALUES, name) for name in ("relevance", "rollout")}
    open_details(maps_page)
    type_option(maps_page, "#second-class", "cat")
    expect(maps_page.locator(MAPS)).to_contain_text("Why ship and not cat?")
    expect(maps_page.locator(f"{MAPS} .legends")).to_contain_text("supports cat")
    expect(maps_page.locator(f"{MAPS} .left")).to_contain_text("ship rather than cat")
    assert maps_page.evaluate(JS_MAP_VALUES, "rollout") == ship["rollout"]  # for every class
    assert maps_page.evaluate(JS_MAP_VALUES, "relevance") != ship["relevance"]
    type_option(maps_page, "#second-class", "ship")
    expect(maps_page.locator(MAPS)).to_contain_text("cannot be compared with itself")
    # A ResNet has its own maps and no tokens to drop.
    type_option(maps_page, "#patch-replacement", "Token dropped")
    choose_model(maps_page, "resnet")
    expect(maps_page.locator(f"{MAPS} figcaption > strong")).to_have_text("Grad-CAM")
    expect(maps_page.locator(SMALL)).to_have_count(0)
    replacement = maps_page.locator("#patch-replacement input")
    expect(replacement).to_have_value(re.compile("^Uniform colour"))
    # The user's choice applies again to the next model that supports it.
    choose_model(maps_page, "timm")
    expect(replacement).to_have_value("Token dropped")
    assert "fill=" not in maps_page.url


def test_attention_map_follows_the_layer_of_the_page(open_attribution):
    page = open_attribution("model=vit&layer=1")
    small = page.locator(f"{SMALL}[data-pick=attention]")
    expect(small).to_contain_text("Attention, layer 1")
    first = page.evaluate(JS_MAP_VALUES, "attention")
    set_layer(page, 2)
    expect(small).to_contain_text("Attention, layer 2")
    assert page.evaluate(JS_MAP_VALUES, "attention") != first
    scores = page.locator(f"{SMALL} .score > b")
    expect(scores).to_have_count(NUM_FAST)  # the new map is tested, too


def test_saved_map_has_title_model_and_colour_scale(maps_page):
    expect(maps_page.locator(VERDICT)).to_contain_text(TESTED)
    wait_until_idle(maps_page)  # the scores choose the large map
    figure = maps_page.locator(f"{MAPS} figure").first
    title = figure.locator("figcaption > strong").inner_text()
    button = figure.get_by_role("button", name=re.compile("^Save as SVG: "))
    file = download(maps_page, button)
    texts = [each.text for each in ElementTree.parse(file.path()).getroot().iter(f"{SVG}text")]
    assert title in texts[0]
    assert "timm" in " ".join(texts[1:-2])  # the model
    legend = " to ".join(texts[-2:])
    assert re.fullmatch(r"0 to the map's own maximum|opposes (\w+) to supports \1", legend)


def test_map_with_the_highest_score_is_large_until_another_one_is_chosen(open_attribution):
    page = open_attribution("model=vit&attribution.removed=0")
    scores = page.locator(f"{SMALL} .score > b").all_inner_texts()
    points = [float(text.replace("−", "-")) for text in scores]
    assert len(points) == NUM_FAST
    at = points.index(max(points))
    best = page.locator(SMALL).nth(at)
    title = best.locator("> b").inner_text()
    expect(best).to_have_attribute("aria-pressed", "true")
    expect(page.locator(VERDICT)).to_contain_text(
        f"{title} has the highest faithfulness score on this image, {scores[at]}"
    )
    other = page.locator(SMALL).nth(points.index(min(points)))
    other.focus()
    page.keyboard.press("Enter")
    expect(other).to_have_attribute("aria-pressed", "true")
    expect(other).to_be_focused()
    expect(page.locator(f"{MAPS} [aria-pressed=true]")).to_have_count(1)
    expect(page.locator(VERDICT)).to_contain_text(
        f"has a faithfulness score of {min(points):+.1f}".replace("-", "−")
    )
    expect(page.locator(f"{MAPS} figcaption > strong")).to_have_text(
        other.locator("> b").inner_text()
    )
    name = other.get_attribute("data-pick")
    page.wait_for_url(re.compile(f"attribution.map={name}"))
    page = open_attribution(f"model=vit&attribution.map={name}")
    expect(page.locator(f"{SMALL}[data-pick={name}]")).to_have_attribute("aria-pressed", "true")


def test_slider_removes_the_top_patches_of_the_large_map(open_attribution, shown):
    page = open_attribution("model=vit&attribution.map=rollout&attribution.removed=50")
    image = ImageRequest("photo:cat")
    state = ViewState(image, "vit")
    data = payload(shown, state).data
    scores = data["scores"]
    own, steps = scores["maps"]["rollout"], len(scores["fractions"]) - 1
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    slider = page.locator(SLIDER)

    def check(step: int) -> None:
        count = round(16 * scores["fractions"][step])
        expect(page.locator(f"{MAPS} .removal .amount")).to_have_text(f"{count} of 16")
        expect(page.locator(f"{MAPS} .left strong")).to_contain_text(
            f"{100 * own['curve'][step]:.1f}%"
        )
        ranks = [rank for row in own["ranks"] for rank in row]
        assert page.evaluate(JS_READ_HOLES) == [int(rank < count) for rank in ranks]
        page.wait_for_url(re.compile(f"attribution.removed={round(100 * step / steps)}\\b"))

    check(steps // 2)
    expect(page.locator(f"{MAPS} .left .quiet")).to_have_text(
        f"in random order {100 * scores['random'][steps // 2]:.1f}%"
    )
    slider.focus()
    page.keyboard.press("ArrowRight")
    check(steps // 2 + 1)
    page.keyboard.press("End")
    check(steps)
    page.keyboard.press("Home")  # the prediction of the whole image
    expect(page.locator(f"{MAPS} .left strong")).to_have_text(
        f"{data['target']} {100 * data['probabilities'][0]:.1f}%"
    )
    assert requests == []


def test_slow_maps_and_details_follow_the_tests(maps_page, photo):
    expect(maps_page.locator(VERDICT)).to_contain_text(TESTED)
    expect(maps_page.locator("#test-faithfulness")).to_be_hidden()  # nothing is left to test
    maps_page.locator("#compute-slow-maps").click()
    expect(maps_page.locator(SMALL)).to_have_count(NUM_MAPS)
    expect(maps_page.locator(f"{SMALL} .score > b")).to_have_count(NUM_MAPS)
    expect(maps_page.locator("#cancel-attribution")).to_have_count(0)
    details = open_details(maps_page)
    expect(details.locator("svg")).to_have_count(3)
    expect(details.locator("table").first.locator("tr")).to_have_count(NUM_MAPS + 4)
    correlations = details.locator("table").last.locator("tbody tr td:nth-child(4)")
    expect(correlations).to_have_count(NUM_MAPS)
    assert sum(text != DASH for text in correlations.all_inner_texts()) == NUM_CLASS_MAPS
    cascade = details.get_by_label(
        "Correlation after randomised layers. Rank correlations for none"
    )
    expect(cascade.locator("svg")).to_have_count(1)
    label = details.locator("figure").first.get_attribute("aria-label")
    assert "Area under the curve, %" in label
    for text in ("baseline: uses the image, but no model", "baseline: uses only the distance"):
        expect(details.locator("table").first).to_contain_text(text)
    for name, text in (
        ("relevance", "Values are in percent of the largest absolute value."),
        ("rollout", "Values are in percent."),
    ):
        maps_page.locator(f"{SMALL}[data-pick={name}]").click()
        figure = maps_page.locator(f"{MAPS} figure").first
        figure.get_by_text("Values", exact=True).click()
        expect(figure.locator("caption, table")).to_contain_text([text])
    upload(maps_page, photo)
    expect(maps_page.locator("#picture .about")).to_contain_text("Your photo")
    expect(maps_page.locator(SMALL)).to_have_count(NUM_FAST)  # the slow maps are of the other image


def test_scores_become_percentages_of_the_best_order(maps_page):
    set_state(maps_page, "explained_class", "truck")  # no other test searches for this class
    expect(maps_page.locator(VERDICT)).to_contain_text(TESTED)
    button = maps_page.locator("#find-best-order")
    shares = maps_page.locator(f"{SMALL} .score > span")
    expect(shares).to_have_count(0)
    button.click()
    expect(shares).to_have_count(NUM_FAST)
    expect(shares).to_have_text([re.compile(r"^\(−?\d+%\)$")] * NUM_FAST)
    expect(maps_page.locator(VERDICT)).to_contain_text(
        re.compile(r"points \(−?\d+% of the best order found\)")
    )
    expect(button).to_be_hidden()
    expect(maps_page.locator("#cancel-attribution")).to_have_count(0)
    table = open_details(maps_page).locator("table").first
    expect(table).to_contain_text("Best order found")
    expect(table).to_contain_text("% of best order")


def test_ranking_by_hand_is_compared_with_the_maps(open_attribution):
    page = open_attribution("model=vit&attribution.removed=0")
    results = page.locator("#ranking-results")
    expect(results).to_have_text("")
    page.locator("#beat-the-map").press("Enter")
    page.wait_for_url(re.compile(r"attribution\.ranking=4\.4(&|$)"))
    board, title = page.locator(f"{MAPS} .board"), page.locator(f"{MAPS} .removal strong")
    expect(board).to_be_focused()
    box = board.bounding_box()

    def click(patch: int) -> None:
        row, column = divmod(patch, 4)
        x, y = (column + 0.5) * box["width"] / 4, (row + 0.5) * box["height"] / 4
        board.click(position={"x": x, "y": y})

    # A second click removes a patch from the ranking, and the keyboard does the same.
    for patch in (5, 6, 5):
        click(patch)
    expect(title).to_have_text("Your ranking: 1 of 10 patches")
    expect(board.locator("b")).to_have_text(["1"])
    for key in ("ArrowLeft", "ArrowUp", "Enter"):  # from patch 5 under the pointer
        board.press(key)
    page.wait_for_url(re.compile(r"attribution\.ranking=4\.4\.6\.0(&|$)"))
    for patch in (1, 2, 3, 4, 7, 8, 9, 10):
        click(patch)
    expect(title).to_have_text("Your ranking: 10 of 10 patches")
    click(15)  # there is no place for another patch
    page.wait_for_url(re.compile(r"attribution\.ranking=4\.4\.6\.0\.1\.2\.3\.4\.7\.8\.9\.10(&|$)"))
    expect(results).to_contain_text(
        re.compile(rf"Your ranking scores .* It beats \d of {NUM_FAST} maps")
    )
    expect(results.locator("tbody tr")).to_have_count(NUM_FAST + 2)  # user and chance
    page.get_by_role("button", name="Clear").click()
    expect(results).to_have_text("")
    expect(board.locator("b")).to_have_count(0)
    page.get_by_role("button", name="Close ranking").click()
    expect(page.locator(SLIDER)).to_be_visible()
    expect(page.locator("#beat-the-map")).to_be_focused()
    page.wait_for_url(re.compile(r"^((?!attribution\.ranking).)*$"))


def test_best_ranking_is_found_with_the_best_order(open_attribution):
    ranking = "4.4.6.0.1.2.3.4.7.8.9.10"
    page = open_attribution(f"model=vit&explained_class=horse&attribution.ranking={ranking}")
    expect(page.locator(f"{MAPS} .board b")).to_have_count(10)
    results = page.locator("#ranking-results")
    expect(results).to_contain_text("Find best order also searches for the best ranking.")
    page.locator("#find-best-order").click()
    expect(results.locator("tbody")).to_contain_text("Best ranking found")
    expect(results).not_to_contain_text("also searches")


def test_cancelled_faithfulness_test_lets_the_next_one_run(open_maps, hold):
    first, second = open_maps("first"), open_maps("second")
    expect(first.locator(MAPS)).to_contain_text("steps")  # the progress bar
    expect(first.locator(VERDICT)).to_contain_text("is not tested on this image yet.")
    expect(first.locator(SLIDER)).to_be_disabled()
    button = first.locator("#test-faithfulness")
    expect(button).to_have_text("Testing …")
    expect(button).to_be_disabled()
    expect(second.locator("#cancel-attribution")).to_be_visible()  # the test is queued
    first.locator("#cancel-attribution").click()
    expect(first.locator("#cancel-attribution")).to_have_count(0)
    expect(button).to_be_enabled()
    hold.unlink()
    expect(second.locator(VERDICT)).to_contain_text(TESTED)
    expect(second.locator(MAPS)).to_contain_text("second predicts")
    expect(first.locator(VERDICT)).to_contain_text("not tested")  # a cancelled test stays cancelled
    expect(first.locator(MAPS)).to_contain_text("first predicts")
    button.click()
    expect(first.locator(VERDICT)).to_contain_text(TESTED)
    expect(first.locator(SLIDER)).to_be_enabled()


def test_each_task_keeps_the_results_of_the_other(maps_page):
    scores = maps_page.locator(f"{SMALL} .score > b")
    set_state(maps_page, "explained_class", "frog")  # no other test computes these maps
    expect(maps_page.locator(MAPS)).to_contain_text("Why frog?")
    expect(scores).to_have_count(NUM_FAST)
    maps_page.evaluate(JS_RECORD_SCORES)
    maps_page.locator("#compute-slow-maps").click()
    expect(maps_page.locator(SMALL)).to_have_count(NUM_MAPS)
    expect(maps_page.locator("#compute-slow-maps")).to_be_hidden()  # nothing is left to compute
    expect(scores).to_have_count(NUM_MAPS)  # the new maps are tested, too
    assert min(maps_page.evaluate("window.scores")) == NUM_FAST  # the scores stayed
    assert max(maps_page.evaluate("window.bars")) == 1  # there was one progress bar


def test_a_change_of_the_view_starts_another_test(open_maps):
    page = open_maps("first", "lion")  # no other test uses this photo
    bus = page.locator("#offers .photos").get_by_role("button", name="bus")
    expect(page.locator(MAPS)).to_contain_text("steps")
    page.evaluate(JS_COUNT_STARTS)
    for number, (change, shown) in enumerate(
        (
            (bus.click, "first predicts"),
            (lambda: choose_model(page, "second"), "second predicts"),
            (lambda: set_state(page, "explained_class", "ship"), "Why ship?"),
            (lambda: set_state(page, "fill", "mean"), "Why ship?"),
        ),
        1,
    ):
        change()
        page.wait_for_function("number => starts === number", arg=number)
        expect(page.locator(MAPS)).to_contain_text(shown)
        expect(page.locator(MAPS)).to_contain_text("steps")
        expect(page.locator(VERDICT)).to_contain_text("not tested")


@pytest.mark.parametrize("width", [1366, 1024])
def test_maps_and_slider_are_on_the_first_screen(open_page, page_url, width):
    query = "?section=class-attribution&picture=photo:lion"
    page = open_page(page_url + query, width=width, height=768)
    expect(page.locator(VERDICT)).to_contain_text(TESTED)
    for part in (page.locator(SLIDER), page.locator(SMALL).last.locator("canvas")):
        box = part.bounding_box()
        assert box["y"] + box["height"] < 768
    words = page.locator("#sections [role=tabpanel]:visible").inner_text().split()
    assert len(words) < 130


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
    # Another image has another predicted class, so the choices change. This click moves no focus.
    page.locator("#offers .photos").get_by_role("button", name="bus").evaluate("one => one.click()")
    expect(page.locator("#picture .about")).to_contain_text("bus")
    wait_until_idle(page)
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
