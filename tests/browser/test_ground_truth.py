"""Ground truth images, whose correct attribution map is known."""

import re

from playwright.sync_api import expect

from tests.browser.actions import fits_window
from vitdemo.explain.attributions import METHODS


def test_a_ground_truth_image_chooses_its_model_and_shows_the_correct_map(open_page, page_url):
    page = open_page(f"{page_url}?model=vit&section=class-attribution")
    tiles = page.locator("#offers .truth").get_by_role("button")
    expect(tiles).to_have_count(6)
    tiles.first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("model=one-mark.*picture=truth:one-mark:0"))
    expect(page.locator("#model select")).to_have_value("one-mark")
    expect(page.locator("#answers")).to_contain_text("cross")
    expect(page.locator("#answers")).not_to_contain_text("timm")
    maps = page.locator("#attribution-maps")
    expect(maps.locator(".truth")).to_contain_text("Correct map")
    rows = maps.locator(".comparison tbody tr")
    expect(rows).to_have_count(len(METHODS) + 1)  # and the chance level
    shares = [float(text) for text in rows.locator("td:nth-child(2)").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    occlusion = maps.locator("[data-pick=occlusion]")
    expect(occlusion).to_contain_text("100% on the marks")
    assert fits_window(page)
    page.locator("#offers .photos").get_by_role("button", name="bus").click()
    page.wait_for_url(lambda url: "one-mark" not in url)
    expect(page.locator("#model select")).to_have_value("vit")
    expect(maps.locator(".comparison tbody")).to_have_count(0)
