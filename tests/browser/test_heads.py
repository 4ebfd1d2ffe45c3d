"""The head wall and the asked patch, by mouse and by keyboard, on every kind of model."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.doing import saved, sources, upload, wait_for_change

PRESSED = "[aria-pressed=true]"


def opened(open_page, url, query: str, width: int = 1280, scheme: str = "light"):
    page = open_page(f"{url}?{query}", width, scheme)
    page.locator("#asked figure").wait_for()
    return page


def picks(page) -> list[str]:
    """The heads of the wall, "layer,head", in the order in which they stand."""
    return page.locator("#wall [data-pick]").evaluate_all("all => all.map(b => b.dataset.pick)")


@pytest.mark.parametrize("width", [1280, 768, 390])
@pytest.mark.parametrize(("model", "side"), [("class-token", 4), ("fourteen", 14)])
def test_a_click_hits_the_patch_under_the_mouse(open_page, kinds_url, model, side, width):
    page = opened(open_page, kinds_url, f"model={model}", width)
    stage = page.locator("#asked .vd-stage")
    expect(stage.locator("[data-pick]")).to_have_count(side * side)
    for row, column, inside in [(1, 1, 0.2), (side, side, 0.8), (2, side - 1, 0.5), (side, 1, 0.1)]:
        stage.scroll_into_view_if_needed()
        box = stage.bounding_box()  # of the picture, wherever it stands now
        assert width < 600 or box["width"] >= 384
        x = box["x"] + (column - 1 + inside) * box["width"] / side
        y = box["y"] + (row - 1 + inside) * box["height"] / side
        page.mouse.click(x, y)
        pressed = stage.locator(f".vd-cells {PRESSED}")
        expect(pressed).to_have_attribute("data-pick", f"{row},{column}")
        expect(page.locator("#asked h4")).to_contain_text(
            f"the patch in row {row}, column {column}"
        )
        outline = pressed.bounding_box()
        assert outline["x"] - 1 <= x <= outline["x"] + outline["width"] + 1
    expect(page.locator("#row input[type=number]")).to_have_value(str(side))
    expect(page.locator("#column input[type=number]")).to_have_value("1")


def test_a_thumbnail_opens_its_head(page):
    before = sources(page, "#asked")
    page.locator("#wall [data-pick='1,3']").click()
    wait_for_change(page, "#asked", before)
    expect(page.locator("#asked h4")).to_have_text(
        "What the class token attends to: layer 1, head 3"
    )
    expect(page.locator(f"#wall {PRESSED}")).to_have_attribute("data-pick", "1,3")
    expect(page.locator("#layer input[type=number]")).to_have_value("1")
    expect(page.locator("#head input[type=number]")).to_have_value("3")


def test_a_thumbnail_is_where_its_buttons_are(page):
    wall = page.locator("#wall .vd-heads")
    box = wall.locator("img").bounding_box()
    for pick in picks(page):
        layer, head = map(int, pick.split(","))
        own = wall.locator(f"[data-pick='{pick}']").bounding_box()
        assert own["x"] == pytest.approx(box["x"] + (head - 1) * box["width"] / 3, abs=1)
        assert own["y"] == pytest.approx(box["y"] + (layer - 1) * box["height"] / 2, abs=1)
        assert own["width"] == pytest.approx(own["height"], abs=1)


def test_the_keyboard_alone_reaches_heads_and_patches(page):
    page.locator("#order input:checked").focus()
    for _ in range(5):
        page.keyboard.press("Tab")  # over the orders and checkboxes into the wall, on its one stop
    assert page.evaluate("document.activeElement.dataset.pick") == "2,1"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#asked h4")).to_contain_text("layer 1, head 2")
    assert page.evaluate("document.activeElement.dataset.pick") == "1,2"
    page.locator("#asked .vd-cells [tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(page.locator("#asked h4")).to_contain_text("the patch in row 2, column 2")
    assert page.evaluate("document.activeElement.dataset.pick") == "2,2"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # over the button that saves the figure
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("#asked h4")).to_contain_text("What the class token attends to")


def test_two_sliders_ask_a_patch(page):
    page.locator("#row input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#asked h4")).to_contain_text("the patch in row 2, column 1")
    page.locator("#column input[type=number]").fill("4")
    page.locator("#column input[type=number]").press("Enter")
    expect(page.locator("#asked h4")).to_contain_text("the patch in row 2, column 4")
    expect(page.locator(f"#asked .vd-cells {PRESSED}")).to_have_attribute("data-pick", "2,4")


def test_the_head_slider_and_the_sources(page):
    page.locator("#head input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#asked h4")).to_contain_text("layer 2, head 2")
    page.get_by_role("radio", name="Mean of the layer's heads").check()
    expect(page.locator("#asked h4")).to_contain_text("layer 2, mean of 3 heads")
    expect(page.locator(f"#wall {PRESSED}")).to_have_count(0)
    page.get_by_role("radio", name="Rollout up to the layer").check()
    expect(page.locator("#asked h4")).to_contain_text("rollout, layers 1 to 2")
    expect(page.locator("#asked .vd-caption")).to_contain_text(
        "Rollout does not depend on the class"
    )
    page.locator("#wall [data-pick='2,3']").click()
    expect(page.locator("#asked h4")).to_contain_text("layer 2, head 3")
    expect(page.get_by_role("radio", name="One head")).to_be_checked()


def test_who_attends_to_a_patch_is_another_map(page):
    page.locator("#asked [data-pick='3,2']").click()
    expect(page.locator("#asked h4")).to_contain_text(
        "What the patch in row 3, column 2 attends to"
    )
    row, wall = sources(page, "#asked"), sources(page, "#wall")
    page.get_by_role("radio", name="Who attends to it").check()
    assert wait_for_change(page, "#asked", row) != row
    assert sources(page, "#wall") != wall
    expect(page.locator("#asked h4")).to_contain_text("Who attends to the patch in row 3, column 2")
    expect(page.locator("#asked .vd-caption")).to_contain_text("need not add up to 100 %")


def test_the_wall_is_ordered_by_the_numbers_it_tells(page):
    rows = page.locator("#wall .vd-table tbody tr").evaluate_all(
        "all => all.map(r => [...r.children].map(c => c.textContent))"
    )
    assert len(rows) == 6
    numbers = {
        ",".join(re.findall(r"\d+", name)): (float(distance), float(entropy))
        for name, distance, entropy in rows
    }
    assert picks(page) == list(numbers)
    page.get_by_role("checkbox", name="Order across layers").check()
    for column, name in enumerate(("Attention distance", "Entropy")):
        before = sources(page, "#wall")
        page.get_by_role("radio", name=name).check()
        wait_for_change(page, "#wall", before)
        values = [numbers[pick][column] for pick in picks(page)]
        assert values == sorted(values)
    for pick in picks(page):
        spoken = page.locator(f"#wall [data-pick='{pick}']").get_attribute("aria-label")
        distance, entropy = numbers[pick]
        assert f"distance {distance:.2f} patches, entropy {entropy:.2f} bits" in spoken
    page.get_by_role("checkbox", name="Order across layers").uncheck()
    expect(page.locator("#wall .vd-sides span").first).to_have_text("layer 1")
    assert [pick[0] for pick in picks(page)] == ["1", "1", "1", "2", "2", "2"]


def test_one_colour_scale_is_of_the_whole_wall(page):
    before = sources(page, "#wall")
    page.get_by_role("checkbox", name="One colour scale").check()
    wait_for_change(page, "#wall", before)
    expect(page.locator("#wall .vd-caption")).to_contain_text("All are on one scale, up to")
    top = page.locator("#asked .vd-legend").inner_text()
    page.locator("#wall [data-pick='1,1']").click()
    expect(page.locator("#asked h4")).to_contain_text("layer 1, head 1")
    assert page.locator("#asked .vd-legend").inner_text() == top


def test_raw_shows_the_map_alone_without_asking_again(page):
    image, before = page.locator("#asked .vd-stage > img"), sources(page, "#asked")
    expect(image).to_have_css("opacity", "0.6")
    page.get_by_role("radio", name="Raw").check()
    expect(image).to_have_css("opacity", "1")
    expect(page.locator("#wall .vd-heads > img")).to_have_css("opacity", "1")
    page.get_by_role("radio", name="Overlay").check()
    page.get_by_role("slider", name="range slider for Opacity").fill("0.25")
    expect(image).to_have_css("opacity", "0.25")
    assert sources(page, "#asked") == before


BACKGROUND = "place => getComputedStyle(document.querySelector(place)).backgroundImage"


def test_every_map_lies_over_the_picture_that_was_seen(page, photo):
    first = page.evaluate(BACKGROUND, "#asked .vd-stage")
    assert first.startswith('url("data:image/png')
    before = sources(page, "#asked")
    upload(page, photo)
    wait_for_change(page, "#asked", before)
    second = page.evaluate(BACKGROUND, "#asked .vd-stage")
    assert second.startswith('url("data:image/png') and second != first
    assert page.evaluate(BACKGROUND, "#wall .vd-heads") == second


def test_a_saved_wall_has_its_labels(page):
    wall = page.locator("#wall figure")
    maps, tops = wall.locator(".vd-heads").bounding_box(), wall.locator(".vd-tops").bounding_box()
    image, _ = saved(page, wall)
    picture = np.asarray(image.convert("L")).astype(int)
    rows, columns = picture.shape
    assert columns > 2 * maps["width"] and rows >= 2 * (maps["height"] + tops["height"]) - 2
    beside = picture[rows - round(2 * maps["height"]) :, : columns - round(2 * maps["width"])]
    assert np.ptp(beside) > 100  # words on an even ground
    assert np.ptp(beside[:, 0]) < 100


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("class-token", ["class token"]),
        ("distilled", ["class token", "distillation token"]),
        ("registers", ["class token", *(f"register {i}" for i in range(1, 5))]),
        ("average-pooled", []),
    ],
)
def test_tokens_that_are_no_patch_are_buttons_beside_the_picture(
    open_page, kinds_url, model, names
):
    page = opened(open_page, kinds_url, f"model={model}")
    others = page.locator("#asked .vd-others button")
    both = ["both tokens together"] if model == "distilled" else []  # its answer is of both
    expect(others).to_have_count(len([*names, *both]) + 1)
    for button, name in zip(others.all(), [*names, *both, "all patches together"], strict=True):
        assert button.inner_text().startswith(name)
    start = "the class token attends" if names else "all patches together attend"
    start = f"{both[0]} attend" if both else start
    expect(page.locator("#asked h4")).to_contain_text(f"What {start} to")
    page.locator("#asked [data-pick='2,3']").click()
    expect(page.locator("#asked h4")).to_contain_text("the patch in row 2, column 3")
    last = others.nth(len(names) - 1 if names else 0)
    last.click()
    expect(last).to_have_attribute("aria-pressed", "true")
    expect(page.locator(f"#asked .vd-cells {PRESSED}")).to_have_count(0)
    name = names[-1] if names else "all patches together"
    expect(page.locator("#asked h4")).to_contain_text(name)


def test_a_resnet_is_told_to_have_no_attention(page):
    page.locator("#model").get_by_role("radio", name="resnet").check()
    expect(page.locator("#wall")).to_contain_text(
        "'resnet' is no Vision Transformer: it has no attention to show. Grad-CAM"
    )
    expect(page.locator("#asked figure")).to_have_count(0)
    page.locator("#model").get_by_role("radio", name="vit", exact=True).check()
    expect(page.locator("#asked figure")).to_have_count(1)


def test_a_patch_of_a_finer_model_becomes_the_nearest(open_page, kinds_url):
    page = opened(open_page, kinds_url, "model=fourteen&token=12,3")
    expect(page.locator("#asked h4")).to_contain_text("row 12, column 3")
    page.locator("#model").get_by_role("radio", name="registers").check()
    expect(page.locator("#asked h4")).to_contain_text("row 4, column 3")
    expect(page.locator("#row input[type=range]")).to_have_attribute("max", "4")


def test_the_address_opens_the_same_question(open_page, kinds_url):
    query = "model=distilled&layer=1&head=2&token=3,4&direction=incoming&order=entropy"
    page = opened(open_page, kinds_url, query)
    title = "Who attends to the patch in row 3, column 4: layer 1, head 2"
    expect(page.locator("#asked h4")).to_have_text(title)
    expect(page.get_by_role("radio", name="Entropy")).to_be_checked()
    page.locator("#asked [data-pick='t1']").click()
    page.wait_for_url(re.compile("token=t1"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(open_page, kinds_url, scheme):
    page = opened(open_page, kinds_url, "model=fourteen", 390, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
