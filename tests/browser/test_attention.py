"""The attention view, compared with `attention.trace` in Python on every kind of model."""

import csv
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from playwright.sync_api import Route, expect

from tests.browser.actions import (
    JS_RECORD,
    JS_TIME_DRAWS,
    download,
    download_image,
    fill_slider,
    fits_window,
    get_last_draw,
    open_export_menu,
    record_model_requests,
    record_requests,
    set_layer,
    set_model,
    set_state,
    upload,
    wait_for_frames,
    wait_for_values,
    wait_until_drawn,
    wait_until_idle,
)
from tests.browser.conftest import TIMEOUT_MS
from tests.support.factories import make_run, timm_spec
from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.explain import attention, logit_lens, norms, statistics
from vitdemo.page import components

LOADING = "The numbers of this map are loading."

TOLERANCE = 1e-3  # values are sent as float16
DIRECTIONS = {"attends to": "outgoing", "is attended by": "incoming"}  # text of the button: value
SVG = "{http://www.w3.org/2000/svg}"
PRESSED = "[aria-pressed=true]"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
ALL_FILES_LOADED = "#attention [data-state=whole]"  # all files of an image and model


def compute_norm_attention(trace, products, detail: dict) -> torch.Tensor:
    """Return the norm-weighted attention (N, N) that the view must have drawn."""
    attention, products = (tensor[detail["layer"] - 1] for tensor in (trace.attention, products))
    if detail["source"] == "norm":
        return norms.norms_to_weights(norms.summed_head_norms(attention, products))
    return norms.norms_to_weights(norms.head_norms(attention, products))[detail["head"] - 1]


def compute_expected_values(trace, detail: dict, products=None) -> np.ndarray:
    """Return the values (P,) that the view must have drawn; `products` are for the norms."""
    layer, p = detail["layer"], trace.num_prefix_tokens
    matrix = {
        "head": lambda: trace.attention[layer - 1, detail["head"] - 1],
        "mean": lambda: trace.attention[layer - 1].mean(0),
        "rollout": lambda: attention.rollout(trace.attention[:layer, None], num_prefix_tokens=p)[0],
        "similar": lambda: statistics.token_similarity(trace.tokens[layer]),
        "norm": lambda: compute_norm_attention(trace, products, detail),
        "norm-head": lambda: compute_norm_attention(trace, products, detail),
    }[detail["source"]]()  # (N, N)
    if detail["direction"] == "incoming" and detail["source"] != "similar":
        matrix = matrix.T
    code = detail["token"]
    if match := re.fullmatch(r"(\d+),(\d+)", code):
        rows = [p + (int(match[1]) - 1) * trace.grid[1] + int(match[2]) - 1]
    elif code.startswith("t"):
        rows = [int(code[1:])]
    else:
        rows = [0, 1] if code == "both" else list(range(p, matrix.shape[0]))
    return matrix[rows].mean(0)[p:].numpy()


def assert_draw_equals_trace(page, trace, products=None) -> dict:
    """Assert that the last draw equals the trace, and return the draw."""
    detail = get_last_draw(page)
    assert detail["run"] == trace.run.name
    np.testing.assert_allclose(
        detail["values"], compute_expected_values(trace, detail, products), atol=TOLERANCE
    )
    return detail


def wait_until_draw_equals_trace(page, trace, products=None) -> None:
    """Wait until the last draw equals the trace in the state that this draw names.

    An older draw of the previous image, layer or direction may come first.
    """
    for _ in range(600):
        try:
            assert_draw_equals_trace(page, trace, products)
        except AssertionError:
            page.wait_for_timeout(100)
        else:
            return
    assert_draw_equals_trace(page, trace, products)


@pytest.fixture
def open_view(open_views, kinds_views):
    """Return a function that shows the attention of a model; `ids` are the shown elements."""

    def open_view(model: str, query: str = "", *, ids: str = "attention", is_new: bool = False):
        query = f"picture=photo:cat&model={model}&{query}"
        page = open_views(kinds_views, ids, query, is_new=is_new)
        wait_until_drawn(page, run=model)
        return page

    return open_view


WITH_UPLOADS = "picture+attention"


def point_at_patch(page, row: int, column: int, side: int, *, inside: float = 0.5):
    """Move the pointer over a patch of the large map, and return its position."""
    box = page.locator("#attention .large").bounding_box()
    x = box["x"] + (column - 1 + inside) * box["width"] / side
    y = box["y"] + (row - 1 + inside) * box["height"] / side
    page.mouse.move(x, y)
    return x, y


def find_thumbnail(page, layer: int, head: int):
    return page.locator("#attention .wall").get_by_role(
        "gridcell", name=f"Layer {layer}, head {head}:"
    )


def select_source(page, source: str) -> None:
    """Choose a map in the menu, and with the switch of norm-weighted maps."""
    plain = source.replace("norm-head", "head").replace("norm", "mean")
    page.locator("#attention .source").select_option(plain)
    switch = page.locator("#attention .norm-weighted")
    if switch.is_checked() != (plain != source):
        switch.evaluate("box => box.click()")  # its panel is closed


SPECIAL_TOKENS = {  # model: names of the buttons
    "registers": ["class token", *(f"register {i}" for i in range(1, 5))],
    "distilled": ["class token", "distillation token", "both tokens together"],
    "average-pooled": [],
    "class-token": ["class token"],
}


def test_maps_equal_the_trace_for_every_model_and_image(open_view, look_of, photo):
    page = open_view("class-token", "source=mean", ids=WITH_UPLOADS)
    upload(page, photo)
    large = page.locator("#attention .large")
    for model, names in SPECIAL_TOKENS.items():
        set_model(page, model)
        # The new model may be drawn for the previous image first.
        wait_until_drawn(page, run=model)
        trace = look_of(model, photo)
        wait_until_draw_equals_trace(page, trace)
        wait_until_idle(page)  # no older draw may follow
        assert_draw_equals_trace(page, trace)
        buttons = page.locator("#attention .tokens button")
        expect(buttons).to_have_count(len(names) + 1)
        for button, name in zip(buttons.all(), [*names, "mean of the patches"], strict=True):
            assert button.inner_text().startswith(name)
        selected = {"distilled": names[-1:], "average-pooled": ["mean of the patches"]}.get(
            model, names[:1]
        )
        expect(page.locator(f"#attention .tokens {PRESSED}")).to_contain_text(selected[0])
        last = buttons.nth(max(len(names) - 1, 0))
        last.click()
        expect(last).to_have_attribute("aria-pressed", "true")
        for source in ("head 2", "mean", "rollout", "similar"):
            select_source(page, source)
            name = source.split()[0]
            for layer, direction in ((1, "attends to"), (2, "is attended by")):
                set_layer(page, layer)
                if name != "similar":  # similarity is symmetric
                    set_state(page, "direction", DIRECTIONS[direction])
                large.press("Escape")  # back to the classifier's token
                wait_until_drawn(page, source=name, layer=layer)
                assert_draw_equals_trace(page, trace)
                point_at_patch(page, 2, 3, 4)
                assert wait_until_drawn(page, token="2,3")["layer"] == layer
                assert_draw_equals_trace(page, trace)
                page.mouse.move(0, 0)
        page.get_by_role("button", name="mean of the patches").click()
        wait_until_drawn(page, token="mean")
        assert_draw_equals_trace(page, trace)
        large.press("Escape")


def test_norm_weighted_attention_is_requested_once_and_equals_trace(
    open_view, look_of, context_of_kinds, photo
):
    page = open_view("class-token", "source=mean&layer=1", ids=WITH_UPLOADS)
    page.locator(ALL_FILES_LOADED).wait_for()
    requests = record_model_requests(page)
    select_source(page, "norm")
    wait_until_drawn(page, source="norm", run="class-token")
    select_source(page, "norm-head 2")
    wait_until_drawn(page, source="norm-head", head=2)
    assert len(requests) == 1
    expect(find_thumbnail(page, 1, 1)).to_have_attribute("title", re.compile("norm-weighted"))
    upload(page, photo)
    for model in SPECIAL_TOKENS:
        set_model(page, model)
        wait_until_drawn(page, run=model)
        trace = look_of(model, photo)
        products = context_of_kinds.value_products(trace)
        for source in ("norm", "norm-head 3"):
            name = source.split()[0]
            for layer, direction in ((1, "attends to"), (2, "is attended by")):
                select_source(page, source)
                set_layer(page, layer)
                set_state(page, "direction", DIRECTIONS[direction])
                page.locator("#attention .large").press("Escape")
                wait_until_drawn(
                    page, run=model, source=name, layer=layer, direction=DIRECTIONS[direction]
                )
                wait_until_draw_equals_trace(page, trace, products)
                point_at_patch(page, 2, 3, 4)
                wait_until_drawn(page, token="2,3")
                assert_draw_equals_trace(page, trace, products)
                page.mouse.move(0, 0)
    find_thumbnail(page, 1, 2).click()  # the grid shows norm-weighted heads now
    wait_until_drawn(page, source="norm-head", layer=1, head=2)
    page.wait_for_url(re.compile("source=norm-head.*head=2|head=2.*source=norm-head"))
    select_source(page, "head 2")
    wait_until_drawn(page, source="head", layer=1, head=2)
    assert_draw_equals_trace(page, trace)


def test_url_opens_norm_weighted_attention(open_view, look_of, context_of_kinds):
    page = open_view("registers", "source=norm-head&head=3&layer=2&token=1,2", is_new=True)
    wait_until_drawn(page, source="norm-head", head=3, layer=2, token="1,2")
    trace = look_of("registers", "assets/photos/cat.jpg")
    assert_draw_equals_trace(page, trace, context_of_kinds.value_products(trace))
    title = (
        "Layer 2, head 3, norm-weighted attention: tokens that pass most to the patch in row 1, "
        "column 2"
    )
    expect(page.locator("#attention .title")).to_have_text(title)


def test_pointing_and_selecting_send_no_requests(open_view):
    page = open_view("fourteen")
    page.locator(ALL_FILES_LOADED).wait_for()
    requests = record_requests(page)
    for patch in range(1, 15):
        point_at_patch(page, patch, patch, 14)
        wait_until_drawn(page, token=f"{patch},{patch}")
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(0, 0)
    assert wait_until_drawn(page, token="14,14")["source"] == "rollout"
    find_thumbnail(page, 1, 3).click()
    wait_until_drawn(page, source="head", layer=1, head=3)
    expect(page.locator("#attention .wall [aria-selected=true]")).to_have_count(1)
    expect(find_thumbnail(page, 1, 3)).to_have_attribute("aria-selected", "true")
    for source in ("mean", "rollout", "similar", "head 1"):
        select_source(page, source)
        wait_until_drawn(page, source=source.split()[0])
    set_layer(page, 2)
    wait_until_drawn(page, layer=2)
    page.locator("#attention").get_by_text("Settings", exact=True).click()
    page.locator("#attention .direction").select_option("is attended by")
    wait_until_drawn(page, direction="incoming")
    page.locator("#attention .order").select_option("entropy")
    page.get_by_role("checkbox", name="same colour scale for all heads").check()
    page.locator("#attention .opacity").fill("0.3")
    page.get_by_role("checkbox", name="hide the image").check()
    page.locator("#attention .numbers > summary").click()
    wait_until_idle(page)
    assert requests == []


@pytest.fixture(scope="module")
def deep(tmp_path_factory, view_server):
    """Context with two runs, with 12 layers and 3 or 12 heads, and the address of their views."""
    root, sizes = tmp_path_factory.mktemp("deep"), {"image_size": 112, "depth": 12}
    make_run(root / "three", timm_spec(**sizes))
    make_run(root / "twelve", timm_spec(**sizes, embed_dim=96, num_heads=12))  # 11 MB of attention
    context = AppContext([root], None, torch.device("cpu"))
    return context, view_server.add(context)


def measure_median_draw(page) -> float:
    """Return the median draw time in seconds; callers allow twice the limit of two idle cores."""
    return sorted(page.evaluate(JS_TIME_DRAWS, [40, 14]))[20]


def test_layers_of_large_models_load_on_demand_and_draw_fast(slowdown, open_views, view_tab, deep):
    context, address = deep
    fetched = []
    view_tab[0].on("response", lambda r: r.url.endswith(".bin") and fetched.append(r.url))
    page = open_views(address, "attention", "picture=photo:cat&model=twelve&source=mean")
    wait_until_drawn(page, layer=12)
    page.locator(ALL_FILES_LOADED).wait_for()
    # The classifier's rows of the attention, and the selected layer of attention, rollout and token
    # similarity. The other rows are small files, which are in the answer.
    assert len(fetched) == 4
    cat = crop_visible_square(load_image("assets/photos/cat.jpg"))
    trace = context.trace_image(context.find_run("twelve"), cat)
    assert_draw_equals_trace(page, trace)
    find_thumbnail(page, 3, 7).click()
    wait_until_drawn(page, layer=3, head=7)
    assert_draw_equals_trace(page, trace)
    point_at_patch(page, 5, 6, 14)
    wait_until_drawn(page, token="5,6")
    assert_draw_equals_trace(page, trace)
    assert len(fetched) == 5
    unloaded = page.locator("#attention .wall .waits")
    expect(unloaded).to_have_count(10 * 12)  # 12 heads in ten layers
    page.mouse.move(0, 0)
    expect(unloaded).to_have_count(0)
    select_source(page, "norm-head 7")  # its files also load on demand
    wait_until_drawn(page, source="norm-head", layer=3, head=7)
    point_at_patch(page, 5, 6, 14)
    wait_until_drawn(page, token="5,6", source="norm-head")
    assert_draw_equals_trace(page, trace, context.value_products(trace))
    page.mouse.move(0, 0)
    page.locator(ALL_FILES_LOADED).wait_for()
    select_source(page, "rollout")
    wait_until_drawn(page, source="rollout")
    assert measure_median_draw(page) < 2 * 0.033 * slowdown
    set_model(page, "three")
    wait_until_drawn(page, run="three")
    page.locator(ALL_FILES_LOADED).wait_for()
    assert measure_median_draw(page) < 2 * 0.016 * slowdown


def test_first_map_needs_only_the_rows_of_the_classifier(open_view, view_tab, look_of, monkeypatch):
    monkeypatch.setattr(components, "MAX_INLINE_BYTES", 0)  # each file has its own request
    page, held, is_held = view_tab[0], [], True

    def hold(route: Route) -> None:
        held.append(route) if is_held else route.continue_()

    page.route(re.compile(r"(?<!-rows)\.bin$"), hold)
    open_view("average-pooled", "source=head&head=2", is_new=True)
    wait_until_drawn(page, run="average-pooled", source="head", head=2)
    trace = look_of("average-pooled", "assets/photos/cat.jpg")
    assert_draw_equals_trace(page, trace)
    for source in ("mean", "rollout", "similar"):
        select_source(page, source)
        wait_until_drawn(page, source=source)
        assert_draw_equals_trace(page, trace)
    point_at_patch(page, 2, 3, 4)
    expect(page.locator("#attention .pointed")).to_have_text(LOADING)
    expect(page.locator("#attention .large canvas")).to_be_hidden()  # it has the previous map
    is_held = False
    for route in held:
        route.continue_()
    wait_until_drawn(page, token="2,3", source="similar")
    assert_draw_equals_trace(page, trace)
    expect(page.locator("#attention .large canvas")).to_be_visible()
    page.locator(ALL_FILES_LOADED).wait_for()


def test_a_click_hits_the_patch_under_the_mouse_at_every_width(open_view):
    page = open_view("class-token")
    for width, model, side in (
        (390, "fourteen", 14),
        (768, "class-token", 4),
        (1280, "fourteen", 14),
    ):
        page.set_viewport_size({"width": width, "height": 900})
        set_model(page, model)
        wait_until_drawn(page, run=model)
        for row, column, inside in [(1, 1, 0.2), (side, side, 0.8), (2, side - 1, 0.5)]:
            page.locator("#attention .large").scroll_into_view_if_needed()
            x, _ = point_at_patch(page, row, column, side, inside=inside)
            page.mouse.down()
            page.mouse.up()
            page.mouse.move(0, 0)
            wait_until_drawn(page, token=f"{row},{column}")
            ring = page.locator("#attention .ring.chosen").bounding_box()
            assert ring["x"] - 1 <= x <= ring["x"] + ring["width"] + 1
            expect(page.locator("#attention .title")).to_contain_text(
                f"the patch in row {row}, column {column}"
            )


def press_tab_until_map(page) -> None:
    """Move the keyboard focus to the large map."""
    large = page.locator("#attention .large")
    for _ in range(20):
        page.keyboard.press("Tab")
        if large.evaluate("map => map.matches(':focus')"):
            return
    expect(large).to_be_focused()


def test_patches_are_selected_by_mouse_or_by_keyboard(open_view):
    page = open_view("class-token", is_new=True)
    point_at_patch(page, 4, 4, 4)
    wait_until_drawn(page, token="4,4")
    expect(page.locator("#attention .pointed")).to_contain_text("Row 4, column 4 receives")
    page.mouse.move(0, 0)  # the chosen token is shown again
    wait_until_drawn(page, token="t0")
    expect(page.locator("#attention .ring.under")).to_be_hidden()
    press_tab_until_map(page)
    page.keyboard.press("ArrowDown")  # the first press shows the keyboard position
    wait_until_drawn(page, token="3,3")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    wait_until_drawn(page, token="2,2")
    page.keyboard.press("Enter")
    expect(page.locator("#attention .ring.chosen")).to_be_visible()
    page.wait_for_url(re.compile("token=2,2"))
    page.keyboard.press("Escape")
    wait_until_drawn(page, token="t0")
    page.locator("#attention .wall").focus()
    for key in ("ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    wait_until_drawn(page, source="head", layer=1, head=2)
    page.wait_for_url(re.compile("layer=1"))
    expect(page.locator("#attention .wall")).to_have_attribute(
        "aria-activedescendant", find_thumbnail(page, 1, 2).get_attribute("id")
    )


def test_tap_selects_a_patch_and_loaded_maps_work_offline(browser, kinds_views, photo):
    with browser.new_context(**PHONE, reduced_motion="reduce") as context:
        page = context.new_page()  # its console errors are expected
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(JS_RECORD)
        page.goto(f"{kinds_views}/{WITH_UPLOADS}/?model=class-token")
        wait_until_drawn(page)
        large = page.locator("#attention .large")
        large.scroll_into_view_if_needed()
        expect(page.locator(HINT)).to_have_text("Tap a patch to see its map")
        box = large.bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)
        wait_until_drawn(page, token="1,4")
        expect(page.locator(HINT)).to_be_hidden()
        page.locator(ALL_FILES_LOADED).wait_for()
        context.set_offline(True)
        point_at_patch(page, 1, 1, 4)
        wait_until_drawn(page, token="1,1")
        find_thumbnail(page, 1, 1).click()
        wait_until_drawn(page, layer=1, head=1, source="head")
        upload(page, photo)
        expect(page.locator("#picture .say")).to_contain_text("the server does not respond")


def test_url_restores_the_view_and_heads_are_ordered_by_value(open_view):
    query = "layer=1&source=head&head=2&token=3,4&direction=incoming&order=entropy"
    page = open_view("distilled", f"{query}&scale=true", is_new=True)
    title = "Layer 1, head 2: attention to the patch in row 3, column 4"
    expect(page.locator("#attention .title")).to_have_text(title)
    expect(page.locator("#attention .order")).to_have_value("entropy")
    page.locator("#attention .tokens [data-code=t1]").click()
    page.wait_for_url(re.compile("token=t1"))
    wait_until_drawn(page, token="t1")
    top = page.locator("#attention .top").inner_text()
    find_thumbnail(page, 2, 3).click()
    wait_until_drawn(page, head=3, layer=2)
    assert page.locator("#attention .top").inner_text() == top
    page.locator("#attention").get_by_text("Settings", exact=True).click()
    all_layers = page.get_by_role("checkbox", name="rank across all layers")
    for order in ("distance", "entropy"):
        page.locator("#attention .order").select_option(order)
        all_layers.check()
        labels = page.locator("#attention .wall .cell").evaluate_all(
            "all => all.map(b => b.getAttribute('aria-label'))"
        )
        assert len(labels) == 6
        values = [float(re.search(rf"{order} ([\d.]+)", label)[1]) for label in labels]
        assert values == sorted(values)
        shown = page.locator("#attention .wall .measure").all_inner_texts()
        assert [float(text) for text in shown] == pytest.approx(values, abs=0.051)


def test_values_are_shown_as_table_and_saved_as_csv_and_png(open_view):
    page = open_view("class-token", "opacity=0.2", ids="attention+explore-export")
    page.locator("#attention .numbers > summary").click()
    cells = page.locator("#attention .tables table").first.locator("td")
    expect(cells).to_have_count(16)
    percent = 100 * get_last_draw(page)["values"]
    assert [float(text) for text in cells.all_inner_texts()] == pytest.approx(percent, abs=0.006)
    open_export_menu(page)
    file = download(page, page.get_by_role("button", name=re.compile("^CSV: ")).last)
    rows = list(csv.reader(io.StringIO(file.path().read_text())))
    assert rows[0] == ["head", "attention distance (patches)", "entropy (bits)"]
    assert len(rows) == 7
    page.locator("#attention").get_by_text("Settings", exact=True).click()
    image, name = download_image(page, page.get_by_role("button", name="Save map as PNG"))
    assert image.width == 2 * (640 + 40) and image.getpixel((0, 0)) == (255, 255, 255)
    assert name.startswith("vitdemo-class-token-attention-rollout-of-layers-1-to-2")
    pixels = np.asarray(image)[200:1200, 40:1320]  # the map over the image
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100  # the map alone has only 16
    image, _ = download_image(page, page.get_by_role("button", name="Save all heads as PNG"))
    assert len(image.getcolors(1 << 24)) > 100


def test_saved_page_works_without_a_server(open_page, open_view, look_of, tmp_path):
    page = open_view("fourteen", "source=head&head=2&layer=1", ids="answers+attention")
    page.locator("#attention").get_by_text("Settings", exact=True).click()
    button = page.get_by_role("button", name="Save as interactive page")
    with page.expect_download() as saving:
        button.click()
    file = tmp_path / "saved.html"
    saving.value.save_as(file)
    assert saving.value.suggested_filename == "vitdemo-fourteen-attention.html"
    saved = open_page(file.as_uri())
    requests = record_requests(saved, "http")
    trace = look_of("fourteen", "assets/photos/cat.jpg")
    wait_until_drawn(saved, run="fourteen", source="head", layer=1, head=2)
    assert_draw_equals_trace(saved, trace)
    point_at_patch(saved, 3, 5, 14)
    wait_until_drawn(saved, token="3,5")
    assert_draw_equals_trace(saved, trace)
    saved.mouse.move(0, 0)
    find_thumbnail(saved, 2, 1).click()
    wait_until_drawn(saved, layer=2, head=1, token="t0")
    assert_draw_equals_trace(saved, trace)
    saved.locator("#attention .layers [data-layer='1']").click()
    wait_until_drawn(saved, layer=1)
    expect(saved.locator("#answers .chosen h2")).to_have_text("fourteen")
    expect(saved.get_by_role("button", name="Save as interactive page")).to_be_hidden()
    assert requests == []


def test_python_code_of_the_map_is_copied(open_view):
    page = open_view("fourteen", "source=head&head=2&layer=1&token=3,5")
    page.locator("#attention").get_by_text("Settings", exact=True).click()
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#attention .sentence")).to_have_text("The code is copied.")
    code = page.evaluate("navigator.clipboard.readText()")
    assert "matrix = trace.attention[0, 1]  # layer 1, head 2" in code
    assert "# to each patch of the patch in row 3, column 5\n" in code


def read_svg(file) -> tuple[list[str], ElementTree.Element]:
    root = ElementTree.parse(file.path()).getroot()
    return [text.text for text in root.iter(f"{SVG}text")], root


def test_the_export_menu_saves_the_large_map_and_the_maps_of_all_heads(open_view):
    page = open_view("class-token", "source=head&head=2&layer=1", ids="attention+explore-export")
    menu = open_export_menu(page)
    for name, images in (("Large map", 2), ("Maps of all heads", 7)):  # of 6 heads, and the input
        texts, root = read_svg(download(page, menu.get_by_role("button", name=f"SVG: {name}")))
        assert "Model class-token, 4 × 4 patches" in texts
        assert len([*root.iter(f"{SVG}image")]) == images


def test_saved_figures_have_title_model_scale_and_numbers(open_view):
    page = open_view("class-token", "source=head&head=2&layer=1")
    page.locator("#attention").get_by_text("Settings", exact=True).click()
    texts, root = read_svg(download(page, page.get_by_role("button", name="Save map as SVG")))
    top = page.locator("#attention .top").inner_text()
    title = page.locator("#attention .title").inner_text()
    assert texts == [title, "Model class-token, 4 × 4 patches", "less", top]
    assert len([*root.iter(f"{SVG}image")]) == 2  # the model's input and the map
    assert all(
        each.get("href").startswith("data:image/png;base64,") for each in root.iter(f"{SVG}image")
    )
    ramp = [rect.get("fill") for rect in root.iter(f"{SVG}rect")]
    assert ramp[0] == "#ffffff" and len({*ramp}) > 60  # the background and the colour scale
    heads = page.get_by_role("button", name="Save all heads as SVG")
    texts, root = read_svg(download(page, heads))
    assert texts[0] == "All heads: attention of the class token"
    assert {*texts} >= {"head 1", "head 2", "head 3", "layer 1", "layer 2"}
    assert texts[-2:] == ["0", "maximum of each map"]
    assert len([*root.iter(f"{SVG}use")]) == 6  # 2 layers of 3 heads
    page.get_by_label("same colour scale for all heads").check()
    page.locator("#attention .order").select_option(label="by entropy")
    page.get_by_label("rank across all layers").check()
    expect(page.locator("#attention .wall .cell")).to_have_count(6)
    texts, _ = read_svg(download(page, heads))
    assert {*texts} >= {f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)}
    # The maximum of the common scale
    assert page.locator("#attention .top").inner_text() == f"more attention ({texts[-1]})"


def test_rollout_settings_are_restored_from_the_url_and_applied(open_view, look_of):
    page = open_view("class-token", "fusion=max&discard=0.5", is_new=True)
    trace = look_of("class-token", "assets/photos/cat.jpg")
    expected = attention.rollout(trace.attention[:, None], fusion="max", discard_ratio=0.5)[0]
    title = page.locator("#attention .title")
    expect(title).to_contain_text("layers 1 to 2 (max of the heads, 50% discarded): attention")
    wait_for_values(page, expected[0, 1:])
    point_at_patch(page, 1, 2, 4)
    wait_for_values(page, expected[2, 1:])
    page.mouse.move(0, 0)
    settings = page.locator("#rollout-settings")
    settings.locator("summary").click()
    expect(settings.get_by_role("radio", name="max")).to_be_checked()
    expect(page.locator("#discard output")).to_have_text("50%")
    expect(page.locator("#first-layer input")).to_have_value("1")
    fill_slider(page, "#first-layer", 2)
    expected = attention.rollout(
        trace.attention[:, None], fusion="max", discard_ratio=0.5, start_layer=1
    )[0]
    wait_for_values(page, expected[0, 1:])
    expect(title).to_contain_text("rollout of layer 2 (max of the heads, 50% discarded)")
    settings.get_by_role("checkbox", name="Residual connection").uncheck()
    expect(title).to_contain_text("(max of the heads, 50% discarded, no residual)")
    fill_slider(page, "#first-layer", 99)  # there are two layers
    expect(page.locator("#first-layer input")).to_have_value("2")
    page.wait_for_url(re.compile("first_layer=2(&|$)"))
    page.set_viewport_size({"width": 390, "height": 844})
    wait_for_frames(page)
    assert fits_window(page)
    page.keyboard.press("Escape")
    expect(settings.locator(".panel")).to_be_hidden()
    expect(settings.locator("summary")).to_be_focused()
    find_thumbnail(page, 1, 1).click()
    expect(settings).to_be_hidden()  # another map has no such settings
    select_source(page, "rollout")
    expect(settings).to_be_visible()
    expect(page.locator("#attention .pointed")).to_contain_text("starts at layer 2")


JS_COLOURS = """async () => {
  const { getColour } = await vitdemo.load("components/shared.js");
  return [...Array(256).keys()].map((i) => getColour(i / 256, false));
}"""
SCALES = {  # scale: expected position in the colour map, for shares of the maximum
    "linear": lambda shares: shares,
    "root": np.sqrt,
    "log": lambda shares: np.maximum(1 + np.log10(np.maximum(shares, 1e-9)) / 3, 0),
}
LEGENDS = {"linear": "", "root": "square root scale", "log": "logarithmic scale"}


@pytest.mark.parametrize("scale", SCALES)
def test_colour_scale_shows_small_values_and_is_in_url_and_legend(open_view, scale):
    page = open_view("sinks", f"source=mean&layer=1&colour={scale}")
    values = wait_until_drawn(page, source="mean", run="sinks")["values"]
    colours = page.evaluate(
        """() => { const canvas = document.querySelector("#attention .large canvas");
            const { data } = canvas.getContext("2d").getImageData(0, 0, 14, 14);
            return Array.from({ length: 196 }, (_, i) => [...data.subarray(4 * i, 4 * i + 3)]); }"""
    )
    shades = np.array(page.evaluate(JS_COLOURS))
    expected = np.floor(256 * SCALES[scale](values / values.max())).clip(0, 255).astype(int)
    assert np.abs(np.array(colours) - shades[expected]).max() <= 12  # the next colours
    kind = page.locator("#attention .legend .kind")
    expect(kind).to_have_text(LEGENDS[scale])
    page.locator("#attention").get_by_text("Settings", exact=True).click()
    expect(page.locator("#attention .colour")).to_have_value(scale)
    page.locator("#attention .colour").select_option("root")
    expect(kind).to_have_text("square root scale")
    page.wait_for_url(re.compile("colour=root"))
    page.locator("#attention .colour").select_option("linear")
    page.wait_for_url(lambda url: "colour" not in url)


LAYERS = "#attention .layers"


def test_path_shows_the_prediction_after_each_layer_and_chooses_a_layer(
    open_view, look_of, context_of_kinds
):
    page = open_view("class-token", "source=mean&layer=1")
    trace = look_of("class-token", "assets/photos/cat.jpg")
    model = context_of_kinds.load_model(trace.run)
    lens = logit_lens.compute_logit_lens(model, trace).predictions  # (L+1, C)
    predicted = int(lens[-1].argmax())
    name, shares = trace.run.classes[predicted], lens[:, predicted]
    expect(page.locator("#attention .result")).to_have_text(
        f"class-token predicts {name}, {100 * shares[-1]:.1f}%. "
        "Bright patches are those that it attends to most in layer 1 of 2."
    )
    texts = page.locator(f"{LAYERS} b").all_inner_texts()
    assert texts == [f"{100 * share:.0f}%" for share in shares[1:]]
    path = page.locator(LAYERS)
    path.locator("[data-layer='2']").click()
    wait_until_drawn(page, layer=2)
    assert_draw_equals_trace(page, trace)
    expect(path).to_have_attribute("aria-valuenow", "2")
    path.press("Home")
    wait_until_drawn(page, layer=1)
    path.press("ArrowRight")
    wait_until_drawn(page, layer=2)
    expect(path).to_have_attribute(
        "aria-valuetext", f"layer 2 of 2: {name} {100 * shares[-1]:.1f}%"
    )


def list_drawn_layers(page) -> list[int]:
    """Return the layers of all draws, without repetitions."""
    return page.evaluate("drawn.map((e) => e.layer).filter((l, i, all) => l !== all[i - 1])")


def test_play_shows_all_layers_and_returns_to_the_chosen_one(open_view):
    page = open_view("class-token", "source=head&head=2&layer=2")
    page.locator(ALL_FILES_LOADED).wait_for()
    button = page.locator("#attention .play")
    page.evaluate("drawn.length = 0")
    button.click()
    page.wait_for_function("drawn.some((each) => each.layer === 1)")
    expect(button).to_have_text("▶ Play")
    assert list_drawn_layers(page)[-2:] == [1, 2]
    assert "layer=2" in page.url
    button.evaluate(
        """button => {
            button.click();
            document.body.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
        }"""
    )  # any touch stops at the shown layer
    expect(button).to_have_text("▶ Play")
    page.wait_for_url(re.compile("layer=1(&|$)"))


def test_path_plays_once_at_the_first_visit(browser, kinds_views):
    with browser.new_context(reduced_motion="no-preference") as context:
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(JS_RECORD)
        page.goto(f"{kinds_views}/attention/")
        button = page.locator("#attention .play")
        expect(button).to_have_text("■ Stop")
        expect(button).to_have_text("▶ Play")
        layers = list_drawn_layers(page)
        assert layers[-3:] == [1, 2, layers[0]] or layers[-2:] == [1, 2]
        page.goto(f"{kinds_views}/attention/")
        page.locator(ALL_FILES_LOADED).wait_for()
        expect(button).to_have_text("▶ Play")


def test_shared_image_has_the_sentence_the_path_and_the_map(open_view):
    page = open_view("class-token", "source=head&head=3&layer=2")
    page.locator(ALL_FILES_LOADED).wait_for()
    image, name = download_image(page, page.get_by_role("button", name="Share this image"))
    assert name == "vitdemo-class-token-path.png"
    assert image.width == 2 * (640 + 40) and image.height > 2 * (640 + 88)


HINT = "#attention .hint"


def assert_hint_stays_hidden(page) -> None:
    expect(page.locator(HINT)).to_be_hidden()
    page.goto(page.url)
    wait_until_drawn(page)
    expect(page.locator(HINT)).to_be_hidden()


def test_hint_on_the_map_is_shown_until_the_first_use(open_view):
    page = open_view("class-token", is_new=True)
    expect(page.locator(HINT)).to_have_text("Point at a patch to see its map")
    point_at_patch(page, 1, 2, 4)
    wait_until_drawn(page, token="1,2")
    assert_hint_stays_hidden(page)


def test_hint_for_the_keyboard_is_shown_until_the_first_use(open_view):
    page = open_view("class-token", is_new=True)
    press_tab_until_map(page)
    expect(page.locator(HINT)).to_have_text("Press an arrow key to choose a patch")
    page.keyboard.press("ArrowRight")
    assert_hint_stays_hidden(page)


def test_model_change_keeps_nearest_patch_and_reports_low_attention(open_view, look_of):
    page = open_view("fourteen", "token=12,3&source=mean&layer=1")
    wait_until_drawn(page, token="12,3")
    set_model(page, "registers")
    wait_until_drawn(page, run="registers", token="4,3")
    page.locator("#attention .large").press("Escape")
    text = page.locator("#attention .pointed")
    for model, is_low in (("class-token", False), ("crowded", True)):
        set_model(page, model)
        wait_until_drawn(page, run=model, layer=1, source="mean", token="t0")
        trace = look_of(model, "assets/photos/cat.jpg")
        share = float(trace.attention[0, :, 0, trace.num_prefix_tokens :].sum(-1).mean())
        assert (share < 0.2) == is_low
        expect(text).to_contain_text("Maximum: row")
        assert ("All patches together receive only" in text.inner_text()) == is_low
        assert ("with care" in text.inner_text()) == is_low
    set_model(page, "resnet")
    expect(page.locator("#attention .sentence")).to_contain_text("has no attention. Use Grad-CAM")
    expect(page.locator("#attention .large")).to_be_hidden()
    set_model(page, "class-token")
    expect(page.locator("#attention .large")).to_be_visible()
    expect(page.locator("#attention .sentence")).to_be_hidden()


def test_attention_concentrated_on_few_patches_is_reported(open_view, look_of, context_of_kinds):
    page = open_view("fourteen", "source=mean&layer=1")
    text = page.locator("#attention .little")
    for model, concentrated in (("fourteen", False), ("sinks", True)):
        set_model(page, model)
        wait_until_drawn(page, run=model, layer=1, source="mean", token="t0")
        trace = look_of(model, "assets/photos/cat.jpg")
        patches = trace.attention[0, :, 0, trace.num_prefix_tokens :].mean(0)
        share = float(patches.topk(3).values.sum() / patches.sum())
        assert (share >= 1 / 3) == concentrated
        message = f"The three most attended of 196 patches receive {100 * share:.1f}%"
        expect(text).to_contain_text(message) if concentrated else expect(text).to_have_text("")
    products = context_of_kinds.value_products(trace)
    select_source(page, "norm")
    wait_until_drawn(page, source="norm")
    norm_values = compute_expected_values(trace, get_last_draw(page), products)
    norm_share = float(norm_values[patches.topk(3).indices].sum() / norm_values.sum())
    norm_message = (
        f"{100 * share:.1f}% of the attention on patches, and have {100 * norm_share:.1f}% of the "
        "sum of norms"
    )
    expect(text).to_contain_text(norm_message)
    select_source(page, "mean")
    page.locator("#attention .large").press("ArrowRight")  # a patch query shows no such text
    expect(text).to_have_text("")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("token=99,99&layer=99&head=99&source=head", {"layer": 2, "head": 3, "token": "4,4"}),
        ("token=t9&head=-3&layer=0&source=<b>&opacity=7&order=x", {"head": 1, "token": "t0"}),
        ("section=rollout&layer=1&read=patches", {"source": "rollout", "token": "mean"}),  # old URL
    ],
)
def test_invalid_url_values_become_the_nearest_valid_ones(open_view, query, expected):
    page = open_view("class-token", query, is_new=True)
    wait_until_drawn(page, **expected)
