"""The Data tab in a real Chromium, with a custom dataset of three imbalanced classes."""

import os
import re
import threading

import pytest
from playwright.sync_api import expect

from tests.browser.actions import fits_window, list_image_sources, open_tab, wait_for_change
from tests.browser.conftest import INCLUDED_RUNS
from tests.data.test_cifar10 import encode_parquet
from tests.support import hub_page
from tests.support.factories import TINY_RECIPE, run_train_py, write_noise_images
from tests.support.hub import serve_hub
from tests.support.serving import serve
from vitdemo.data.cifar10 import PARQUET_FILES
from vitdemo.training.recipes import RECIPES

COUNTS = {
    **{"train/<b>ant": 12, "train/bee": 24, "train/cow": 18},
    **{"test/<b>ant": 3, "test/bee": 9, "test/cow": 6},
}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Address of a page over a model that train.py has trained on these images."""
    root = tmp_path_factory.mktemp("own")
    data = write_noise_images(root / "pictures", COUNTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", TINY_RECIPE)
        options = ("--data", data, "--epochs", 1, "--device", "cpu")
        assert run_train_py("tiny", *options, "--out", root / "runs" / "own") == 0
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
    page.locator("#learning summary").click()
    expect(page.locator("#learning .article")).to_contain_text("own")
    expect(page.locator("#plots svg")).to_have_count(3)
    open_tab(page, "Per-class metrics")
    page.locator("#per-class").get_by_text("Table of all metrics").click()
    names = page.locator("#per-class tbody").get_by_role("rowheader")
    expect(names).to_have_text(["<b>ant", "bee", "cow"])
    expect(page.locator("#calibration")).to_contain_text("own is ")
    open_tab(page, "Compare models")
    expect(page.locator("#model-scatter")).to_contain_text("own")
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


def test_augmentation_uses_the_explored_image(page):
    open_tab(page, "Data", "Augmentation")
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
    near = page.locator("#near figure")
    expect(near).to_have_count(8)
    expect(near.first).to_contain_text("cosine")
    button = near.nth(2).get_by_role("button")
    number = button.get_attribute("data-pick")
    button.click()
    expect(page.locator("#picture .about")).to_contain_text(f"Test image {number}")


def test_every_part_without_a_dataset_offers_the_download(open_page, page_url):
    page = open_page(page_url)
    page.locator("#answers .card").first.wait_for()
    offers = page.locator(".vd-dataset").filter(visible=True)
    expect(offers).to_have_count(2)  # above all tabs, and below the example photos
    for section, place in {
        "Errors": "#errors-pictures",
        "Compare models": "#robustness",
        "Data": "#class-examples",
        "Similar images": "#tsne",
    }.items():
        open_tab(page, section)
        card = page.locator(place).locator(".vd-dataset")
        expect(card.get_by_role("button", name="Download CIFAR-10 (170 MB)")).to_be_visible()
        expect(page.locator(place)).not_to_contain_text("train.py")
    open_tab(page, "Train")
    expect(page.locator("#train-dataset").get_by_role("button", name="Download")).to_be_visible()
    open_tab(page, "Data", "Augmentation")
    expect(page.locator("#augmentation .vd-row").last.locator("figure")).to_have_count(6)


def test_failed_download_is_reported_in_its_cards(open_page, serve_runs, shown_runs):
    """The page has its own server, since all users of a server see the failed download."""
    page = open_page(f"{serve_runs(shown_runs)}?tab=data")
    card = page.locator("#class-examples .vd-dataset")
    card.get_by_role("button", name="Download").click()
    expect(card).to_contain_text("could not be downloaded, because its servers")
    again = card.get_by_role("button", name="Try again")
    expect(again).to_be_focused()
    banner = page.locator("#dataset")
    expect(banner).to_contain_text("could not be downloaded")
    again.click()
    expect(again).to_be_focused()
    open_tab(page, "Errors")  # the page still works
    expect(page.locator("#errors-pictures .found")).to_have_text(re.compile("^[0-9]+ images?$"))
    expect(page.locator("#errors-pictures .vd-dataset")).to_contain_text("could not be downloaded")


@pytest.fixture(scope="module")
def hub(cifar10):
    """Files of the Hub with the real images."""
    parts = (cifar10.load(part) for part in ("train", "test"))
    images = [(part.images.permute(0, 2, 3, 1).numpy(), part.labels.tolist()) for part in parts]
    contents = [encode_parquet(*part, order=range(len(part[1]))) for part in images]
    return dict(zip(PARQUET_FILES, contents, strict=True))


def test_download_in_the_background_completes_the_page_without_a_reload(
    hub, open_page, serve_runs, monkeypatch, tmp_path
):
    hurry = threading.Event()
    with serve_hub(monkeypatch, hub, pause=1, hurry=hurry):
        variables = {"HF_ENDPOINT": os.environ["HF_ENDPOINT"], "HF_HOME": str(tmp_path / "hub")}
        (tmp_path / "data").mkdir()
        folders = INCLUDED_RUNS, tmp_path / "data"
        options = {"variables": variables, "program": hub_page.PROGRAM}
        address = serve_runs(*folders, "--download", **options)
        page = open_page(f"{address}?tab=errors")
        banner, images = page.locator("#dataset"), page.locator("#errors-pictures")
        expect(banner).to_contain_text(re.compile(r"in the background: \d+ of \d+ MB"))
        expect(images.locator(".vd-dataset progress")).to_be_visible()
        banner.get_by_role("button", name="Stop").click()
        expect(images.locator(".vd-dataset")).to_contain_text("was stopped")
        images.get_by_role("button", name="Continue the download").click()
        expect(banner).to_contain_text(re.compile(r"\d+ of \d+ MB"))
        hurry.set()
        expect(images.locator(".thumb")).to_have_count(48)
        assert images.locator("button").first.bounding_box()["y"] <= 205
        expect(page.locator(".vd-dataset").filter(visible=True)).to_have_count(0)
        open_tab(page, "Data")
        rows = page.locator("#class-examples .row")
        expect(rows).to_have_count(10)
        assert rows.first.bounding_box()["y"] < 200
        number = rows.nth(3).get_by_role("button").nth(2).get_attribute("data-pick")
        rows.nth(3).get_by_role("button").nth(2).click()
        expect(page.locator("#picture .about")).to_contain_text(f"Test image {number}.")
        expect(page.locator("#picture .about")).to_contain_text("cat")
        expect(page.locator(".offers .tests button[title]")).to_have_count(6)
