"""The URL of the page: it follows the user's choices and restores them."""

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.actions import (
    choose_layer,
    choose_model,
    download,
    open_fold,
    open_tab,
    upload,
    wait_until_drawn,
)
from tests.support.factories import make_run
from vitdemo import runs
from vitdemo.page.state_keys import STATE_KEYS


def wait_until_ready(page):
    wait_until_drawn(page)
    return page


def get_selected_model(page) -> str:
    return page.locator("#model select").input_value()


def test_choices_are_written_to_the_url_and_a_link_is_copied(shared_page, photo):
    page = shared_page
    file = download(page, page.get_by_role("button", name="Download all maps"))
    assert file.suggested_filename == "vitdemo-maps-timm.npz"
    with np.load(file.path()) as maps:
        assert maps["attention"].shape == (2, 3, 17, 17)
    choose_model(page, "vit")
    wait_until_drawn(page, run="vit")
    choose_layer(page, 2)
    page.locator("#rollout-settings summary").click()
    page.get_by_role("radio", name="max").check()
    page.wait_for_url(re.compile(r"\?(?=.*model=vit)(?=.*layer=2)(?=.*fusion=max)"))
    page.get_by_role("radio", name="mean", exact=True).check()
    page.wait_for_url(lambda url: "fusion" not in url)  # defaults are left out
    page.locator("#offers .photos").get_by_role("button", name="bus").click()
    page.wait_for_url(re.compile("picture=photo:bus"))
    toast = page.locator(".toast-body")

    def copy_link(text: str | re.Pattern) -> None:
        """Copy the link, and close the message, because gradio folds messages of one kind."""
        page.get_by_role("button", name="Copy a link").click()
        expect(toast).to_contain_text(text)
        toast.locator(".toast-close").click()
        expect(toast).to_have_count(0)

    copy_link(re.compile("Link copied.(?! The link)"))
    upload(page, photo)
    expect(page.locator("#picture .about")).to_have_text("Your photo.")
    copy_link("The link does not contain your photo")
    for failure in ("writeText = () => Promise.reject()", "writeText = null"):
        page.evaluate(f"() => {{ navigator.clipboard.{failure}; }}")
        copy_link("Copy the link from the address bar")


def test_url_restores_model_layer_rollout_and_image(open_views, shown_views):
    query = "model=vit&layer=1&source=mean&fusion=max&discard=0.5&picture=photo:tower&crop=0.10"
    page = open_views(shown_views, "model+picture+attention", query, is_new=True)
    wait_until_drawn(page, run="vit", layer=1, source="mean")
    assert get_selected_model(page) == "vit"
    page.locator("#attention .source").select_option("rollout")
    page.locator("#rollout-settings summary").click()
    expect(page.locator("#fusion").get_by_role("radio", name="max")).to_be_checked()
    expect(page.locator("#picture .crop")).to_have_attribute("aria-valuenow", "10")
    page.wait_for_url(re.compile(r"(?=.*layer=1)(?=.*discard=0.5)(?=.*picture=photo:tower)"))


def test_former_url_selects_the_explained_class(open_page, page_url):
    page = open_page(page_url + "?tab=look&section=why&why=ship&not=cat")
    expect(page.locator("#attribution-maps")).to_contain_text("Why ship and not cat?")
    expect(page.locator("#explained-class input")).to_have_value("ship")
    open_fold(page, "Details", "#second-class input")
    expect(page.locator("#second-class input")).to_have_value("cat")
    page.wait_for_url(re.compile("section=class-attribution"))
    page = open_page(page_url + "?section=class-attribution&explained_class=<b>unicorn</b>")
    expect(page.get_by_text("has no class '<b>unicorn</b>'")).to_be_visible()
    expect(page.locator("#attribution-maps figure")).not_to_have_count(0)  # for the predicted class
    page.wait_for_url(lambda url: "unicorn" not in url)


# Values of former parameters that differ from the start values.
FORMER_VALUES = {"choice": lambda key: [*key.choices][-1], "number": lambda key: key.low + key.step}
RENAMED = [(old, key) for key in STATE_KEYS.values() for old in key.former]


@pytest.mark.parametrize(("old", "key"), RENAMED, ids=[old for old, _ in RENAMED])
def test_former_parameters_open_the_same_view(old, key, open_views, shown_views):
    value = FORMER_VALUES.get(key.kind, lambda key: "vit")(key)
    page = open_views(shown_views, "model+picture", f"{old}={value}&picture=photo:cat")
    found = page.evaluate("name => vitdemo.store.state[name]", key.name)
    assert found == (["vit"] if key.kind == "names" else value)
    assert old not in parse_qs(urlsplit(page.url).query)


def test_url_of_a_damaged_model_shows_an_error(open_views, view_runs, tmp_path):
    make_run(tmp_path / "runs" / "vit")
    (make_run(tmp_path / "runs" / "cut").path / runs.WEIGHTS_FILE).write_bytes(b"half a file")
    page = open_views(view_runs(), "model+attention", "model=cut&layer=2")
    expect(page.get_by_text("The weights of 'cut' cannot be loaded")).not_to_have_count(0)
    assert get_selected_model(page) == "cut"
    choose_model(page, "vit")
    wait_until_ready(page)


@pytest.mark.parametrize(
    "query",
    [
        "?model=nobody&layer=999&fusion=none&discard=2&view=&section=nowhere&picture=test:99",
        "?tab=constructor&layer=1&discard=1e999&picture=test:<script>alert(1)</script>&x="
        + "y" * 9000
        + "&%ff=%00&model",
    ],
)
def test_invalid_url_opens_the_default_view(open_page, page_url, query):
    page = wait_until_ready(open_page(page_url + query))
    assert get_selected_model(page) == "timm"
    expect(page.locator("#attention .wall .cell")).to_have_count(6)
    expect(find_tab(page, "Explore")).to_have_attribute("aria-selected", "true")
    page.wait_for_url(lambda url: "tab=" not in url and ("layer=1" in url) == ("layer=1&" in query))


def test_unknown_model_in_the_url_is_reported(open_views, shown_views):
    page = open_views(shown_views, "model+picture+attention", "model=nobody", is_new=True)
    wait_until_ready(page)
    about = page.locator("#picture .about")
    expect(about).to_contain_text("There is no model 'nobody'.")
    choose_model(page, "vit")
    expect(about).not_to_contain_text("nobody")


# Start a task before the first answer of the server.
JS_START_TASK = """document.addEventListener("vitdemo:started", () => {
  window.messages = [];
  const [listen, needs] = [(each) => messages.push(each), ["image", "model", "explained_class"]];
  vitdemo.store.startTask("class_attribution.faithfulness", listen, needs);
});"""


@pytest.mark.parametrize(
    "refused", [("model=nobody", "explained_class=unicorn"), ("picture=test:99",)]
)
def test_refused_values_of_the_url_do_not_cancel_a_task(refused, open_page, page_url):
    query = f"?section=class-attribution&{'&'.join(refused)}"
    page = open_page(page_url + query, script=JS_START_TASK)
    page.wait_for_function("window.messages?.at(-1)?.end")
    end = page.evaluate("messages.at(-1)")
    assert not end.get("cancelled") and end["error"] is None
    assert get_selected_model(page) == "timm"
    page.evaluate("vitdemo.store.invalidate('class_attribution')")
    expect(page.locator("#attribution-maps .verdict")).to_contain_text("Better than random orders")
    page.wait_for_url(lambda url: not any(value in url for value in refused))


# --- the other tabs ------------------------------------------------------------------------------


def find_tab(page, name):
    return page.get_by_role("tab", name=name, exact=True)


def test_back_returns_to_the_previous_tab_and_keeps_the_view(shared_page):
    page = shared_page
    explore, compare, models = (
        find_tab(page, "Explore"),
        find_tab(page, "Compare models"),
        page.locator("#model-scatter"),
    )
    open_tab(page, "Compare models")
    page.wait_for_url(re.compile(r"\?(.*&)?tab=compare$"))
    find_tab(page, "Data").click()
    page.wait_for_url(re.compile("tab=data"))
    page.go_back()
    expect(compare).to_have_attribute("aria-selected", "true")
    expect(models.locator(".dot")).to_have_count(3)
    page.go_back()  # to the section that Results opens first
    expect(find_tab(page, "Per-class metrics")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(explore).to_have_attribute("aria-selected", "true")
    assert "tab=" not in page.url
    page.go_forward()
    page.go_forward()
    expect(compare).to_have_attribute("aria-selected", "true")
    page.go_back()
    page.go_back()
    expect(explore).to_have_attribute("aria-selected", "true")
    choose_model(page, "vit")
    page.wait_for_url(re.compile("model=vit"))
    find_tab(page, "Data").click()
    page.wait_for_url(re.compile("tab=data"))
    explore.click()
    page.wait_for_url(lambda url: "tab=" not in url)
    choose_model(page, "timm")
    page.wait_for_url(re.compile("model=timm"))
    page.go_back()
    page.wait_for_url(re.compile("tab=data"))
    page.go_back()
    page.wait_for_url(lambda url: "tab=" not in url and "model=timm" in url)  # the current view


def test_url_opens_its_tab_and_all_tabs_fit_a_phone(open_page, page_url):
    page = open_page(f"{page_url}?tab=compare&layer=1", width=390)
    models = page.locator("#model-scatter .dot")
    expect(models).to_have_count(3)
    assert "tab=compare" in page.url and "layer=1" in page.url
    find_tab(page, "Explore").click()
    wait_until_ready(page)
    names = page.get_by_role("tab")
    expect(names).to_have_count(6 + 4)
    for name in names.all():
        box = name.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    open_tab(page, "Compare models")
    expect(models).to_have_count(3)
    page.wait_for_url(re.compile("tab=compare"))
    page.go_back()
    page.wait_for_url(lambda url: "tab=" not in url)
    expect(page.locator("#attention .large")).to_be_visible()


def test_url_of_the_former_section_side_by_side_opens_its_fold(open_page, page_url):
    page = open_page(f"{page_url}?section=side", width=390)
    expect(page.locator("#side-by-side h3").first).to_be_visible()
    page = open_page(page_url, width=390)
    wait_until_drawn(page)
    assert page.evaluate("scrollY") == 0
