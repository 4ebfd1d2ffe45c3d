"""The fold "Compare with other models": several models under the same controls."""

import re

from playwright.sync_api import expect

from tests.browser.actions import fits_window, list_image_sources, wait_for_change
from tests.support.factories import make_run


def test_model_added_later_can_be_selected(open_page, serve_runs, tmp_path):
    make_run(tmp_path / "runs" / "first")
    page = open_page(f"{serve_runs()}?section=side")
    view, models = page.locator("#side-by-side"), page.locator("#side-models")
    expect(view.locator("h3")).to_have_text(["first"])
    make_run(tmp_path / "runs" / "later", classes=tuple("abcdefghij"))
    page.get_by_role("tab", name="Data").click()
    expect(models).not_to_be_visible()
    page.get_by_role("tab", name="Explore").click()
    models.get_by_role("checkbox", name="later", exact=True).check()
    expect(view.locator("h3")).to_have_text(["first", "later"])
    expect(models.get_by_role("checkbox", name="first", exact=True)).to_be_checked()
    page.get_by_label("Explained class").first.click()
    page.get_by_role("option", name="j", exact=True).click()
    page.get_by_role("radio", name="Relevance").check()
    expect(view).to_contain_text("Relevance for j")
    expect(view).to_contain_text("'first' has no class 'j'.")


def test_models_share_one_depth_slider_and_one_class(open_page, page_url):
    page = open_page(f"{page_url}?section=side", width=390)
    view = page.locator("#side-by-side")
    expect(view.locator("h3")).to_have_text(["timm", "vit", "resnet"])
    view.locator("figure").nth(2).wait_for()
    view.locator("summary", has_text="About").click()
    captions = view.locator("details > p.quiet")  # equal captions of maps are shown once
    expect(captions).to_have_count(3)
    expect(captions.nth(1)).to_contain_text("Attention of the class token to each patch")
    view.locator("figure").first.get_by_text("Values", exact=True).click()
    numbers = view.locator("figure").first.get_by_role("table", name=re.compile("in percent"))
    expect(numbers.get_by_role("rowheader").first).to_have_text("1")
    assert fits_window(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    assert fits_window(page)
    before = list_image_sources(page, "#side-by-side")
    slider = page.get_by_role("slider", name="Relative depth").last
    slider.focus()
    slider.press("Home")
    after = wait_for_change(page, "#side-by-side", before)
    unchanged = [a == b for a, b in zip(after, before, strict=True)]  # image, map, image, ...
    assert unchanged == [True, False, True, False, True, True]
    expect(view).to_contain_text("Attention, layer 1 of 3")
    models = page.locator("#side-models")
    models.get_by_role("checkbox", name="timm").uncheck()
    expect(view.locator("h3")).to_have_text(["vit", "resnet"])
    page.get_by_role("radio", name="Relevance").check()
    page.get_by_role("listbox", name="Class").or_(
        page.get_by_label("Explained class")
    ).first.click()
    page.get_by_role("option", name="frog").click()
    expect(view).to_contain_text("Relevance for frog")
    expect(view).to_contain_text("Grad-CAM for frog")
    page.get_by_role("radio", name="AttnLRP").check()
    expect(view).to_contain_text("AttnLRP for frog")
    expect(view.locator(".legends")).to_contain_text("opposes the class")
    for name in ("vit", "resnet"):
        models.get_by_role("checkbox", name=name).uncheck()
    expect(view).to_contain_text("Choose a model above.")
