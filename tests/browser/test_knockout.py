"""Attention knock-out below head ablation."""

from playwright.sync_api import Page, expect

from tests.browser.actions import choose_model, fill_slider, fits_window


def find_knockout_result(page: Page):
    return page.locator("#knockout-result")


def test_attention_knockout_updates_the_predictions_and_the_url(open_page, page_url):
    page = open_page(f"{page_url}?section=hands&model=vit&barred_first=2&barred_last=3")  # former
    page.wait_for_url(lambda url: "section=inside" in url and "inside=ablation" in url)
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in layers 2 to 3")
    expect(find_knockout_result(page).locator("tbody tr").first).to_be_visible()
    fill_slider(page, "#barred-first", 1)
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in all 3 layers")
    page.wait_for_url(lambda url: "first_blocked" not in url and "last_blocked=3" in url)
    fill_slider(page, "#barred-last", 0)
    expect(find_knockout_result(page)).to_contain_text("No layer is blocked")
    page.wait_for_url(lambda url: "last_blocked" not in url)
    fill_slider(page, "#barred-last", 3)
    choose_model(page, "timm")  # its two layers limit the slider
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in all 2 layers")
    expect(page.locator("#barred-last input[type=number]")).to_have_value("2")
    choose_model(page, "resnet")
    expect(find_knockout_result(page)).to_contain_text("no attention to block")
    expect(page.locator("#barred-last input[type=number]")).to_be_disabled()
    choose_model(page, "vit")
    expect(find_knockout_result(page)).to_contain_text("cannot attend to patches in layers 1 to 2")
    fill_slider(page, "#barred-last", 0)
    expect(find_knockout_result(page)).to_contain_text("No layer is blocked")
    assert fits_window(page)


def test_former_address_of_the_fold_opens_head_ablation(open_views, shown_views):
    page = open_views(shown_views, "knockout-result", "section=hands&hands=knockout")
    assert page.evaluate("[vitdemo.store.state.section, vitdemo.store.state.inside]") == [
        "inside",
        "ablation",
    ]
    expect(find_knockout_result(page)).to_contain_text("No layer is blocked")
