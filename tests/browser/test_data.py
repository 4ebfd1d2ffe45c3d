"""The Data tab in a real Chromium, with a custom dataset of three imbalanced classes."""

import re
import signal

import pytest
from playwright.sync_api import expect

import train
from tests.browser.actions import fits_window, list_image_sources, open_tab, wait_for_change
from tests.conftest import TINY_RECIPE, write_noise_images
from tests.serving import serve
from vitdemo.training.recipes import RECIPES

COUNTS = {
    **{"train/<b>ant": 12, "train/bee": 24, "train/cow": 18},
    **{"test/<b>ant": 3, "test/bee": 9, "test/cow": 6},
}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Address of a page over a model that train.py has trained on these images."""
    root, handler = tmp_path_factory.mktemp("own"), signal.getsignal(signal.SIGTERM)
    data = write_noise_images(root / "pictures", COUNTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", TINY_RECIPE)
        arguments = ["--data", str(data), "--epochs", "1", "--device", "cpu"]
        assert train.main(["tiny", *arguments, "--out", str(root / "runs" / "own")]) == 0
        signal.signal(signal.SIGTERM, handler)
    with serve("--runs", str(root / "runs"), "--data", str(data)) as address:
        yield address


@pytest.fixture(scope="module")
def page(own, open_shared):  # the page ends before its server
    page = open_shared(own)
    page.locator("#answers .card").first.wait_for()
    return page


def test_every_tab_shows_a_custom_dataset(page):
    expect(page.locator("#answers")).to_contain_text("The models have 3 classes")
    expect(page.locator("#answers")).to_contain_text("<b>ant")
    open_tab(page, "Train")
    expect(page.locator("#learning")).to_contain_text("own")
    expect(page.locator("#plots svg")).to_have_count(3)
    open_tab(page, "Per-class metrics")
    page.locator("#per-class").get_by_text("Table of all metrics").click()
    names = page.locator("#per-class tbody").get_by_role("rowheader")
    expect(names).to_have_text(["<b>ant", "bee", "cow"])
    open_tab(page, "Calibration")
    expect(page.locator("#calibration")).to_contain_text("own is ")
    open_tab(page, "Compare models")
    expect(page.locator("#models tbody")).to_contain_text("own")
    open_tab(page, "Data")
    rows = page.locator("#classes tbody").first.locator("tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("<b>ant")
    expect(rows.first).to_contain_text("12 (22.2%)")
    expect(rows.first).to_contain_text("3 (16.7%)")
    expect(page.locator("#classes")).to_contain_text("The classes are imbalanced: 'bee' has 24")
    expect(page.locator("#classes figure")).to_have_count(4)  # colours and one mean image per class
    assert fits_window(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.documentElement.scrollWidth <= 390")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_patches_and_augmentation_use_the_explored_image(page):
    open_tab(page, "Data", "Patches")
    expect(page.locator("#patches figure")).to_have_count(7)
    expect(page.locator("#patches")).to_contain_text("2 × 2 patches of 8 × 8 pixels")
    expect(page.locator("#patches")).to_contain_text("a vector of 16 numbers")
    open_tab(page, "Augmentation")
    steps = page.locator("#augmentation .vd-row")
    expect(steps).to_have_count(7)
    expect(steps.last.locator("figure")).to_have_count(6)
    expect(steps.last).to_contain_text(re.compile(r"\d+% (your image|<b>ant|bee|cow)"))
    before = list_image_sources(page, "#augmentation")
    page.locator("#draw-again").click()
    after = wait_for_change(page, "#augmentation", before)
    expect(page.locator("#seed input")).to_have_value("1")
    assert len(after) == len(before)
    seed = page.locator("#seed input")
    seed.fill("0")
    seed.press("Enter")
    assert wait_for_change(page, "#augmentation", after) == before


def test_dots_and_neighbours_open_their_images(page):
    open_tab(page, "Data", "Similar images")
    page.locator("#lay-out").click()
    planes = page.locator("#tsne .plane")
    expect(planes).to_have_count(2)
    expect(planes.first.locator(".dot")).to_have_count(18)
    expect(page.locator("#parting tbody tr")).to_have_count(2)
    assert planes.first.locator(".dot[tabindex='0']").count() == 1
    dot = planes.nth(1).locator(".dot").nth(4)
    dot.focus()
    image = "dot => getComputedStyle(dot, '::after').backgroundImage"
    assert re.search(r'url\("http.*\.jpg"\)', dot.evaluate(image))
    page.keyboard.press("ArrowRight")
    number = page.evaluate("document.activeElement.dataset.pick")
    label = page.evaluate("document.activeElement.ariaLabel")
    page.get_by_role("radio", name=re.compile("bee")).last.check()
    faded = planes.first.locator(".dot.k0").first
    assert faded.evaluate("dot => getComputedStyle(dot).opacity") == "0.12"
    page.locator(f"#tsne .plane >> nth=1 >> [data-pick='{number}']").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#picture .about")).to_contain_text(f"Test image {number}")
    expect(page.locator("#picture .about")).to_contain_text(label.split(",")[0])
    expect(page.locator("#attention .large")).to_be_visible()
    open_tab(page, "Data", "Similar images")
    page.locator("#find-near").click()
    near = page.locator("#near figure")
    expect(near).to_have_count(8)
    expect(near.first).to_contain_text("cosine")
    button = near.nth(2).get_by_role("button")
    number = button.get_attribute("data-pick")
    button.click()
    expect(page.locator("#picture .about")).to_contain_text(f"Test image {number}")


def test_without_a_dataset_the_tab_explains_how_to_get_one(open_page, page_url):
    page = open_page(page_url)
    page.locator("#answers .card").first.wait_for()
    open_tab(page, "Data")
    expect(page.locator("#data-missing")).to_contain_text("python train.py download")
    button = page.locator("#data-download").get_by_text("Download", exact=True)
    expect(button).to_be_visible()
    page.locator("#data-download").get_by_role("button", name="Download").click()
    expect(page.get_by_text("CIFAR-10 could not be downloaded").first).to_be_visible()
    expect(button).to_be_visible()
    open_tab(page, "Patches")
    expect(page.locator("#patches figure")).to_have_count(7)
    open_tab(page, "Augmentation")
    expect(page.locator("#augmentation .vd-row").last.locator("figure")).to_have_count(6)
    open_tab(page, "Similar images")
    page.locator("#lay-out").click()
    message = page.get_by_text("Set --data to a folder with train/<class>/ and test/<class>/")
    expect(message.filter(visible=True)).to_have_count(2)  # above the sections and as a toast
    open_tab(page, "Compare models")
    expect(page.locator("#robust-models").get_by_role("checkbox").first).to_be_checked()
    page.get_by_role("button", name="Measure robustness").click()
    expect(page.locator("#robustness .vd-notice").first).to_contain_text("train.py download")
