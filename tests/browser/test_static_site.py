"""The exported site in a browser, from a plain file server and under a path prefix."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.actions import choose_layer
from tests.support.file_server import QuietHandler, serve_files
from vitdemo.explain.attributions import METHODS
from vitdemo.site.layout import CARDS

TABS = ("lessons", "training", "results", "data", "own")


class PlainHandler(QuietHandler):
    """Handler without the service worker, whose requests tests cannot change."""

    def do_GET(self) -> None:
        if self.path.endswith("/service-worker.js"):
            self.send_error(404)
        else:
            super().do_GET()


@pytest.fixture(scope="module")
def site_url(exported_site, tmp_path_factory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("files")
    (root / "a prefix").symlink_to(exported_site)
    with serve_files(root, PlainHandler) as address:
        yield f"{address}a%20prefix/"


@pytest.fixture
def open_site(browser: Browser, site_url) -> Iterator:
    """Return a function that opens the site with a query; script errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    faults: list[str] = []

    def open_site(query: str = "") -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("response", lambda each: each.status != 200 and faults.append(each.url))
        page.goto(f"{site_url}?{query}")
        return page

    yield open_site
    context.close()
    assert faults == []


def remove_graphs(route: Route) -> None:
    """Answer a request for the document of a site as if it had no graphs."""
    text = re.sub(r'"graphs": {.*?}, "photos"', '"graphs": {}, "photos"', route.fetch().text())
    route.fulfill(body=text, content_type="text/html")


def wait_for_views(page: Page) -> None:
    """Wait until all visible views are drawn."""
    page.wait_for_function(
        """() => window.vitdemo && [...document.querySelectorAll("[data-view]")].every((each) =>
            !each.getClientRects().length || (!each.dataset.empty && each.ariaBusy !== "true"))"""
    )


def list_unrecorded(page: Page) -> Locator:
    """Return the visible messages about states that were not recorded."""
    return page.get_by_text("only recorded results").locator("visible=true")


def test_site_shows_the_map_of_the_chosen_image_model_and_layer(open_site):
    page = open_site("model=vit&source=mean")
    title = page.locator("#attention .title")
    expect(title).to_contain_text("Layer")
    expect(page.locator("#offers .tiles button")).to_have_count(11)
    page.locator("#offers .tiles button").nth(1).click()
    expect(page.locator("#picture .about")).to_contain_text("bus")
    choose_layer(page, 1)
    expect(title).to_contain_text("Layer 1")
    page.locator("#model select").select_option("timm")
    expect(page.locator("#answers")).to_contain_text("timm")
    expect(page).to_have_url(re.compile(r"\?model=timm&source=mean&picture=photo:bus&layer=1$"))


def test_a_ground_truth_image_opens_with_its_model_and_correct_map(open_site):
    page = open_site("model=vit&section=class-attribution")
    page.locator("#offers .truth button").nth(3).click()
    expect(page).to_have_url(re.compile("model=two-marks.*picture=truth:two-marks:1"))
    expect(page.locator("#attribution-maps .truth")).to_contain_text("Correct map")
    rows = page.locator("#attribution-maps .comparison tbody tr")
    expect(rows).to_have_count(len(METHODS) + 1)  # and the chance level
    expect(page.locator("#answers")).to_contain_text("two-marks")
    expect(list_unrecorded(page)).to_have_count(0)
    page.locator("#offers .photos button").first.click()
    expect(page.locator("#model select")).to_have_value("vit")
    expect(page.locator("#attribution-maps .comparison tbody")).to_have_count(0)


def test_a_ranking_needs_the_full_version(open_site):
    page = open_site(
        "model=vit&section=class-attribution&attribution.ranking=4.4.0.1.2.3.4.5.6.7.8"
    )
    board = page.locator("#attribution-maps .board")
    expect(board.locator("b")).to_have_count(9)
    expect(page.locator("#attribution-maps .verdicts")).to_contain_text(
        "The full version of vitdemo also searches for the best order of patches."
    )
    expect(page.locator("#find-best-order")).to_be_hidden()
    note = page.locator("#attribution-maps .removal .grid").nth(1)
    expect(note).to_have_count(0)
    board.press("ArrowDown")  # the cursor begins in the middle, at patch 10
    board.press("Enter")
    expect(board.locator("b")).to_have_count(10)
    expect(note).to_have_text("The full version of vitdemo compares your ranking with the maps.")
    expect(list_unrecorded(page)).to_have_count(0)


def test_a_link_opens_the_same_view(open_site):
    page = open_site("model=timm&layer=1&section=inside&inside=lens")
    expect(page.locator("#lens")).to_be_visible()
    wait_for_views(page)
    expect(page.locator("#model select")).to_have_value("timm")
    expect(page.locator("#part select")).to_have_value("layers")


def test_settings_of_rollout_that_were_not_recorded_are_computed(open_site):
    page = open_site("model=vit&source=rollout&discard=0.35&fusion=max&first_layer=2")
    title = page.locator("#attention .title")
    expect(title).to_contain_text("(max of the heads, 35% discarded)")
    page.evaluate("vitdemo.store.set({ discard: 0.5 })")
    expect(title).to_contain_text("(max of the heads, 50% discarded)")
    expect(list_unrecorded(page)).to_have_count(0)


def test_activation_patching_is_recorded_for_whole_sets_of_tokens(open_site):
    page = open_site("model=vit&section=inside&inside=patching&patching.layer=3")
    maps = page.locator("#patching-maps .layers button")
    expect(maps.locator("canvas")).to_have_count(4)
    expect(page.get_by_role("button", name="Compute maps")).to_be_hidden()
    text = page.locator("#patching-prediction p").first
    page.get_by_role("button", name="Class token").click()
    expect(text).to_contain_text("Share of the change to image 2: +1.00")
    maps.first.click()
    expect(page.locator("#patching-prediction h3")).to_contain_text("before layer 1")
    expect(list_unrecorded(page)).to_have_count(0)
    page.locator("#patching-images .board").first.click()  # single patches are not recorded
    expect(list_unrecorded(page)).to_have_count(1)
    expect(maps.locator("canvas")).to_have_count(4)


def test_patch_colours_are_recorded_and_similar_patches_have_a_card(open_site):
    page = open_site("model=vit&section=inside&inside=similar_patches&layer=1")
    layers = page.locator("#patch-colours .layers button")
    expect(layers.locator("canvas")).to_have_count(3)
    layers.last.click()
    expect(page.locator("#patch-colours")).to_contain_text("Colours after layer 3")
    page.locator("#patch-colours .board").first.click()
    expect(page.locator("#patch-colours .ring.chosen").first).to_be_visible()
    expect(page.locator("#similar-patches")).to_contain_text("The full version finds")
    expect(list_unrecorded(page)).to_have_count(0)


def test_an_unknown_model_is_named(open_site):
    page = open_site("model=missing")
    expect(page.locator("#picture .about")).to_contain_text("There is no model 'missing'")
    wait_for_views(page)


def test_all_tabs_show_recorded_results_or_a_card(open_site):
    page = open_site("model=vit")
    for name in TABS:
        page.locator(f"#tabs-{name}-tab").click()
        wait_for_views(page)
        sections = page.locator(f"#tabs-{name}-panel .tabs [role=tab]")
        for i in range(sections.count()):
            sections.nth(i).click()
            wait_for_views(page)
            expect(list_unrecorded(page)).to_have_count(0)
    expect(page.locator("#own-columns")).to_contain_text(CARDS["own-columns"])


def test_tabs_are_opened_with_the_keyboard(open_site):
    page = open_site("model=vit")
    tab = page.locator("#tabs-explore-tab")
    expect(tab).to_have_attribute("tabindex", "0")  # the script has connected the keys
    tab.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tabs-lessons-tab")).to_be_focused()
    expect(page.locator("#tabs-lessons-panel")).to_be_visible()
    expect(page.locator("#tabs-explore-panel")).to_be_hidden()
    page.keyboard.press("End")
    expect(page.locator("#tabs-own-tab")).to_have_attribute("aria-selected", "true")


# Views may still grow, so the function scrolls to the end each time.
JS_PANEL_COVERS_NOTHING = """() => {
    scrollTo(0, document.documentElement.scrollHeight);
    const [content, panel] = ["#tabs", "#lesson .lesson"].map((selector) =>
        document.querySelector(selector).getBoundingClientRect());
    return content.right <= panel.left || content.bottom <= panel.top;
}"""


@pytest.mark.parametrize("size", [(1366, 768), (390, 844)])
def test_the_panel_of_a_lesson_covers_nothing(open_site, size):
    page = open_site("lesson=1-tokens&step=1")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    wait_for_views(page)
    expect(page.locator("#lesson .lesson")).to_be_visible()
    page.wait_for_function(JS_PANEL_COVERS_NOTHING)


def test_without_graphs_no_control_needs_a_server(open_site):
    """The site contains no graphs if the packages for their export are not installed."""
    page = open_site()
    page.route("**/?model=vit", remove_graphs)
    page.goto(f"{page.url.partition('?')[0]}?model=vit")
    wait_for_views(page)
    expect(page.locator("#picture input[type=file]")).to_be_hidden()
    expect(page.locator("#picture .open-camera")).to_be_hidden()
    expect(page.locator("#picture .crop")).to_have_attribute("inert", "")
    expect(page.locator("#picture .about")).not_to_contain_text("Drag")


def test_curves_of_the_chosen_runs_are_combined(open_site):
    page = open_site("tab=training&runs=vit,timm")
    expect(page.get_by_label("Accuracy of vit, timm, by epoch", exact=True)).to_be_visible()
    expect(list_unrecorded(page)).to_have_count(0)
