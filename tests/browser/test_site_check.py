"""The check of the exported site: results of graphs in the browser, compared with PyTorch's."""

import json
import re

import pytest
import torch
from playwright.sync_api import Page, Route, expect

from tests.browser.test_own_images import choose_own_photo
from tests.browser.test_static_site import open_site as open_site
from tests.browser.test_static_site import remove_graphs, wait_for_views
from tests.browser.test_static_site import site_url as site_url
from vitdemo.site.document import read_runtime
from vitdemo.site.states import list_images

CHECK_MS = 300_000  # the check runs all graphs of a model
AGREES = "agree with PyTorch within the tolerance of 0.001"
DIFFERS = re.compile("values of vit differs? from PyTorch by more than the tolerance of 0.001")


def start_check(page: Page) -> None:
    wait_for_views(page)
    page.locator("#browser-check summary").click()
    page.locator("#browser-check button").click()


def read_rows(page: Page) -> dict[str, list[str]]:
    """Return the number of values, the largest difference and the count of faults by result."""
    texts = [row.split("\t") for row in page.locator("#browser-check tbody tr").all_inner_texts()]
    return {name: cells for name, *cells in texts}


def change_weights(route: Route) -> None:
    """Answer with weights whose last values are changed, with the same number of bytes."""
    content = bytearray(route.fetch().body())
    content[-64:] = bytes(each ^ 0x30 for each in content[-64:])
    route.fulfill(body=bytes(content))


def change_probabilities(route: Route) -> None:
    """Answer with recorded probabilities that differ by 0.002."""
    answer = route.fetch().json()
    data = json.loads(answer["text"])
    for model in data.get("data", {}).get("models", []):
        if isinstance(model, dict) and "probabilities" in model:
            model["probabilities"][0] += 0.002
    route.fulfill(json=answer | {"text": json.dumps(data)})


@pytest.mark.parametrize("model", ["vit", "resnet"])
def test_all_results_agree_and_versions_are_shown(open_site, model):
    page = open_site(f"model={model}")
    start_check(page)
    check = page.locator("#browser-check")
    expect(check).to_contain_text(AGREES, timeout=CHECK_MS)
    expect(check).to_contain_text(f"Inputs: {len(list_images())} example photos")
    expect(check).to_contain_text(f"PyTorch {torch.__version__}")
    runtime = read_runtime()["site/vendor/ort.wasm.min.mjs"][:100].decode()
    expect(check).to_contain_text(re.search(r"ONNX Runtime Web v([\d.]+)", runtime)[1])
    rows = read_rows(page)
    assert len(list_images()) == 5
    assert int(rows["Probabilities"][0]) >= 3 * len(list_images())
    assert ("Attention maps" in rows) == (model == "vit")
    assert all(faults == "0" for _, _, faults in rows.values())


def test_check_can_be_repeated_and_keeps_the_own_photo(open_site):
    page = open_site("model=vit")
    wait_for_views(page)
    choose_own_photo(page)
    start_check(page)
    expect(page.locator("#browser-check")).to_contain_text(AGREES, timeout=CHECK_MS)
    page.locator("#model select").select_option("timm")
    page.get_by_role("button", name="Check timm").click()
    expect(page.locator("#browser-check")).to_contain_text(
        f"values of timm {AGREES}", timeout=CHECK_MS
    )
    page.locator("#picture .crop").focus()
    page.keyboard.press("ArrowRight")
    wait_for_views(page)
    expect(page.locator("#attention .title")).to_be_visible()
    expect(page.locator("#answers .card").first).to_be_visible()


@pytest.mark.parametrize(
    ("files", "change", "result"),
    [
        ("**/data/graphs/*.bin", change_weights, "Attention maps"),
        ("**/data/answers/*.json", change_probabilities, "Probabilities"),
    ],
    ids=["weights", "recorded"],
)
def test_differences_are_reported(open_site, files, change, result):
    page = open_site("model=vit")
    page.route(files, change)
    page.reload()
    start_check(page)
    expect(page.locator("#browser-check .vd-notice")).to_contain_text(DIFFERS, timeout=CHECK_MS)
    expect(page.locator("#browser-check .vd-notice")).to_contain_text("not reliable")
    assert read_rows(page)[result][2] != "0"


@pytest.mark.parametrize("files", ["inputs.json", "*.bin"])
def test_files_that_do_not_arrive_are_reported_and_loaded_again(browser, site_url, files):
    page = browser.new_page()
    page.route(f"**/data/graphs/{files}*", lambda route: route.abort())
    page.goto(f"{site_url}?model=vit")
    start_check(page)
    expect(page.locator("#browser-check .vd-notice")).to_contain_text("then try again")
    page.unroute(f"**/data/graphs/{files}*")
    page.locator("#browser-check button").click()
    expect(page.locator("#browser-check")).to_contain_text(AGREES, timeout=CHECK_MS)
    page.close()


def test_a_site_without_graphs_has_no_check(open_site):
    page = open_site()
    page.route("**/?model=vit", remove_graphs)
    page.goto(f"{page.url.partition('?')[0]}?model=vit")
    wait_for_views(page)
    expect(page.locator("#browser-check")).to_have_count(0)
