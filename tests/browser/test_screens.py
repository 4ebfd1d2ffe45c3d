"""What the user needs next is on the screen, at the sizes of a laptop, a projector and a phone."""

import pytest
from playwright.sync_api import expect

from tests.browser.actions import wait_until_drawn, wait_until_idle

LAPTOP, PROJECTOR, PHONE = (1366, 768), (1024, 768), (390, 844)
MENUS = ("#results-model", "#results-other", "#results-tests")
# True if the top of an element is between the top of the window and the lesson panel below it.
JS_IS_ABOVE_PANEL = """place => {
    const box = document.querySelector(place)?.getBoundingClientRect();
    const panel = document.querySelector("#lesson .lesson").getBoundingClientRect();
    return box?.height > 0 && box.top >= 0 && box.top < panel.top - 100;
}"""

# Adds up the layout shifts without recent input: https://web.dev/articles/cls
JS_OBSERVE_SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
    for (const { hadRecentInput, value } of list.getEntries()) if (!hadRecentInput) shift += value;
}).observe({ type: "layout-shift", buffered: true });
"""
MAX_SHIFT = 0.1  # a page is good up to this sum


@pytest.fixture(scope="module")
def page(included_url, open_shared):  # the page ends before its server
    page = open_shared(included_url)
    page.locator("#answers .card").first.wait_for()
    return page


def open_view(page, query, size=LAPTOP):
    width, height = size
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("query => vitdemo.store.open(query)", query)


def test_the_architecture_fits_on_one_screen_of_a_laptop(page):
    open_view(page, "?section=inside&inside=diagram&model=vit-scratch")
    last = page.locator("[data-view=architecture] .flow > li").last
    last.wait_for()
    box = last.bounding_box()
    assert box["y"] + box["height"] <= LAPTOP[1]


def test_the_layer_is_hidden_for_a_model_without_layers(page):
    open_view(page, "?section=heads&model=conv-baseline")
    expect(page.locator("#attention .vd-notice")).to_be_visible()
    expect(page.locator("#layer")).to_be_hidden()
    expect(page.locator("#attention .path")).to_be_hidden()
    open_view(page, "?section=heads&model=vit-scratch")
    expect(page.locator("#attention .path")).to_be_visible()


def test_the_first_screen_shows_path_map_and_all_heads(page):
    open_view(page, "?section=heads&model=finetune-deit-tiny&layer=10")
    wait_until_drawn(page, run="finetune-deit-tiny")
    for part in ("result", "path", "large", "tokens", "wall .cell >> nth=-1"):
        box = page.locator(f"#attention .{part}").bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= LAPTOP[1], part
    more = page.locator("#more-models").bounding_box()
    assert more["y"] + more["height"] <= LAPTOP[1]


@pytest.mark.parametrize(
    ("tab", "count"),
    [("metrics", 3), ("confusion", 3), ("errors", 2), ("compare", 1)],
)
def test_sections_of_results_show_only_their_menus(page, tab, count):
    open_view(page, f"?tab={tab}")
    expect(page.locator(f"#results-sections [data-tab-id={tab}]")).to_have_attribute(
        "aria-selected", "true"
    )
    shown = [menu for menu in MENUS if page.locator(menu).is_visible()]
    assert shown == [MENUS[0], MENUS[2]] if count == 2 else shown == [*MENUS[-count:]]


def test_the_images_of_errors_begin_at_the_top(page):
    open_view(page, "?tab=errors")
    images = page.locator("#errors-pictures")
    expect(images.locator(".get")).to_be_visible()  # in their place without a dataset
    assert images.bounding_box()["y"] <= 200
    open_view(page, "?tab=errors", PROJECTOR)
    filters = page.locator("#errors-filters").bounding_box()
    assert images.bounding_box()["x"] >= filters["x"] + filters["width"]


def test_the_paired_test_is_on_the_first_screen(page):
    open_view(page, "?tab=metrics&model=vit-scratch&results.other=conv-baseline")
    sentence = page.locator("#paired-test p").first
    expect(sentence).to_contain_text("significant")
    expect(sentence).to_be_in_viewport(ratio=1)


def test_buttons_scroll_to_the_lower_parts_of_compare(page):
    open_view(page, "?tab=compare")
    page.locator("#model-scatter .dot").first.wait_for()
    title = page.get_by_role("heading", name="Robustness to image changes")
    expect(title).not_to_be_in_viewport()
    page.get_by_role("button", name="Robustness to image changes").click()
    expect(title).to_be_in_viewport()


def test_the_headings_of_the_grid_of_heads_are_whole(page):
    open_view(
        page, "?section=heads&source=rollout&model=finetune-deit-tiny&order=entropy", PROJECTOR
    )
    headings = page.locator("#attention .wall .block > span[title]")
    expect(headings.filter(has_text="focused")).to_have_count(2)  # two blocks of layers
    assert not headings.evaluate_all(
        "all => all.some((each) => each.scrollWidth > each.clientWidth)"
    )


@pytest.mark.parametrize(("step", "place"), [(2, "#plots"), (13, "#cost-of")])
def test_questions_scroll_to_their_view_on_a_phone(page, step, place):
    open_view(page, "?tab=lessons", PHONE)
    page.evaluate("step => vitdemo.store.set({ lesson: '7-training', step })", step)
    expect(page.locator("#lesson .question")).to_be_visible()
    page.wait_for_function(JS_IS_ABOVE_PANEL, arg=place)
    page.evaluate("vitdemo.store.set({ lesson: '', step: 0 })")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "section=class-attribution",
        "section=hands",
        "section=inside&inside=embeddings",
        "section=inside&inside=ablation",
        "tab=training",
        "tab=metrics",
        "tab=errors",
        "tab=compare",
        "tab=data",
        "tab=own",
        "tab=lessons",
    ],
)
def test_the_parts_of_a_page_do_not_move_while_it_loads(open_page, included_url, query):
    page = open_page("about:blank", stranger=True)
    page.set_viewport_size({"width": LAPTOP[0], "height": LAPTOP[1]})
    page.add_init_script(JS_OBSERVE_SHIFTS)
    page.goto(f"{included_url}?{query}")
    expect(page.locator("#tabs")).to_be_visible()
    wait_until_idle(page)
    assert page.evaluate("shift") < MAX_SHIFT
