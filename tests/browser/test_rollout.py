"""The rollout workbench: its strip of steps, its settings, and the line that checks its rows."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.doing import sources, wait_for_change


@pytest.fixture
def rollout(page):
    page.locator("#model").get_by_role("radio", name="vit", exact=True).check()
    page.get_by_role("tab", name="Rollout").click()
    page.locator("#rollout figure").wait_for()
    return page


def test_each_step_opens_large_and_sets_the_layer(rollout):
    steps = rollout.locator("#strip [data-pick]")
    expect(steps).to_have_count(3)
    for number in (1, 3, 2):
        before = sources(rollout, "#rollout")
        steps.nth(number - 1).click()
        wait_for_change(rollout, "#rollout", before)
        expect(steps.nth(number - 1)).to_have_attribute("aria-pressed", "true")
        expect(rollout.locator("#layer input[type=number]")).to_have_value(str(number))
        span = "layer 1" if number == 1 else f"layers 1 to {number}"
        title = f"Rollout of {span}, read from the class token"
        expect(rollout.locator("#rollout h4")).to_have_text(title)


def test_the_keyboard_alone_steps_through_it(rollout):
    rollout.locator("#strip [tabindex='0']").focus()
    rollout.keyboard.press("Home")
    rollout.keyboard.press("Enter")
    expect(rollout.locator("#rollout h4")).to_contain_text("Rollout of layer 1,")
    rollout.keyboard.press("ArrowRight")
    rollout.keyboard.press("Enter")
    expect(rollout.locator("#rollout h4")).to_contain_text("Rollout of layers 1 to 2,")


def test_every_setting_changes_the_map_and_keeps_rows_at_one(rollout):
    deeds = (
        lambda: rollout.get_by_role("radio", name="max").check(),
        lambda: rollout.get_by_role("radio", name="min").check(),
        lambda: rollout.locator("#discard input[type=range]").fill("0.5"),
        lambda: rollout.get_by_role("checkbox", name="Residual").uncheck(),
        lambda: rollout.locator("#first-layer input[type=range]").fill("2"),
        lambda: rollout.get_by_role("radio", name="Mean of the patches").check(),
    )
    for deed in deeds:
        before = sources(rollout, "#rollout")
        deed()
        wait_for_change(rollout, "#rollout", before)
        check = rollout.locator("#rollout .vd-check").inner_text()
        found = re.fullmatch(
            r"✓ All 17 rows of this matrix sum to one; the worst is off by (\S+)\.", check
        )
        assert found and float(found[1]) < 1e-5
    expect(rollout.locator("#rollout h4")).to_contain_text("read from the mean of the patches")


def test_a_later_first_layer_shortens_the_strip(rollout):
    rollout.locator("#first-layer input[type=number]").fill("3")
    rollout.locator("#first-layer input[type=number]").press("Enter")
    expect(rollout.locator("#strip [data-pick]")).to_have_count(1)
    expect(rollout.locator("#rollout h4")).to_contain_text("Rollout of layer 3,")


def test_the_discard_sliders_reset_redraws(rollout):
    first = sources(rollout, "#rollout")
    rollout.locator("#discard input[type=range]").fill("0.8")
    changed = wait_for_change(rollout, "#rollout", first)
    rollout.locator("#discard").get_by_role("button", name="Reset").click()
    assert wait_for_change(rollout, "#rollout", changed) == first


def test_a_layer_below_the_first_one_shows_the_first_step(rollout):
    rollout.locator("#first-layer input[type=range]").fill("2")
    expect(rollout.locator("#strip [data-pick]")).to_have_count(2)
    rollout.locator("#layer input[type=range]").fill("1")
    expect(rollout.locator("#rollout h4")).to_contain_text("Rollout of layer 2,")


def test_a_model_without_a_class_token_reads_the_patches(open_page, kinds_url):
    page = open_page(f"{kinds_url}?model=average-pooled&section=rollout")
    expect(page.locator("#rollout .vd-caption")).to_contain_text("This model has no class token")
    expect(page.locator("#rollout h4")).to_contain_text("read from the mean of the patches")


def test_a_resnet_is_told_to_have_no_attention(rollout):
    rollout.locator("#model").get_by_role("radio", name="resnet").check()
    expect(rollout.locator("#strip")).to_contain_text("'resnet' is no Vision Transformer")
    expect(rollout.locator("#rollout figure")).to_have_count(0)


def test_its_view_is_its_own(rollout):
    image = rollout.locator("#rollout .vd-stage > img")
    rollout.locator("#look-rollout").get_by_role("radio", name="Raw").check()
    expect(image).to_have_css("opacity", "1")
    expect(rollout.locator("#asked .vd-stage > img")).to_have_css("opacity", "0.6")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(open_page, kinds_url, scheme):
    page = open_page(f"{kinds_url}?model=fourteen&section=rollout", 390, scheme)
    page.locator("#rollout figure").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
