"""A user's own test set in a real Chromium: upload, evaluation, all sections, and Explore."""

import zipfile

import pytest
from playwright.sync_api import expect

from tests.browser.actions import fits_window, wait_until_drawn, wait_until_idle
from tests.support.factories import VIT, make_run, noise
from tests.support.serving import serve

TEST_IMAGES = {"cat": 4, "dog": 3}


@pytest.fixture
def archive(tmp_path):
    """Return a zip file with the paths group/class/image."""
    path = tmp_path / "group.zip"
    with zipfile.ZipFile(path, "w") as file:
        for seed, (name, count) in enumerate(TEST_IMAGES.items()):
            for i in range(count):
                noise(10 * seed + i, (60, 40)).save(tmp_path / "image.png")
                file.write(tmp_path / "image.png", f"group/{name}/{i}.png")
    return path


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Address of a page with two runs and without a dataset."""
    root = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("one", "two")):
        make_run(root / name, VIT, seed=seed)
    with serve("--runs", str(root), "--data", str(root / "none")) as address:
        yield address


@pytest.fixture
def tab(open_page, address):
    """Open the section Per-class metrics."""
    page = open_page(f"{address}?tab=metrics&model=one")
    page.locator("#test-set summary").wait_for()
    return page


def test_an_uploaded_test_set_is_evaluated_and_shown_in_all_sections(tab, archive):
    panel = tab.locator("#test-set")
    panel.get_by_text("Test the models on your own images").click()
    panel.locator(".name").fill("Group 2")
    panel.locator("input.zip").set_input_files(archive)
    # The models are evaluated at once, and the chosen model is compared with its original test set.
    expect(panel.get_by_role("heading", name="Group 2")).to_be_visible()
    expect(panel.locator("tbody tr")).to_have_count(2)
    expect(panel).to_contain_text("7 images of 2 classes: cat, dog.")
    expect(tab.locator("#results-tests select")).to_have_value("Group 2")
    expect(tab.locator("#results-other select")).to_have_value("same model, original test set")
    expect(tab.locator("#per-class")).to_contain_text("of 7 test images")
    expect(tab.locator("#paired-test")).to_contain_text("one on Group 2 and on the original")
    expect(tab.locator("#calibration")).to_contain_text("one (original test set)")
    assert "results.tests=Group" in tab.url
    wait_until_idle(tab)
    tab.set_viewport_size({"width": 390, "height": 844})
    assert fits_window(tab)
    tab.set_viewport_size({"width": 1366, "height": 768})
    assert tab.locator("#results-sections").bounding_box()["y"] < 600

    tab.locator("#results-sections").get_by_role("tab", name="Confusion matrix").click()
    expect(tab.locator("#confusion-matrix")).to_contain_text("differences of percentages")
    expect(tab.get_by_role("radio", name="Percentage of true class")).to_be_checked()
    expect(tab.get_by_role("radio", name="Counts")).to_have_count(0)
    tab.locator("#results-sections").get_by_role("tab", name="Errors").click()
    tab.locator("#errors-kinds").get_by_role("button", name="All images").click()
    images = tab.locator("#errors-pictures .pictures > *")
    expect(images).to_have_count(7)
    images.first.click()  # opens Explore with the user's image
    wait_until_drawn(tab)
    assert "picture=set:" in tab.url
    expect(tab.locator("#picture")).to_contain_text("Test image")

    # Without the test set, everything is as before.
    tab.get_by_role("tab", name="Results").click()
    tab.locator("#results-tests select").select_option("")
    expect(tab.locator("#errors-pictures")).to_contain_text("200")
    expect(tab.locator("#results-other select")).to_have_value("")


def test_problems_of_an_upload_are_shown_and_a_test_set_can_be_removed(tab, archive, tmp_path):
    panel = tab.locator("#test-set")
    panel.get_by_text("Test the models on your own images").click()
    wrong = tmp_path / "wrong.zip"
    with zipfile.ZipFile(wrong, "w") as file:
        file.write(tmp_path / "image.png", "pens/0.png")
    panel.locator("input.zip").set_input_files(wrong)
    expect(panel.get_by_role("status").last).to_contain_text("does not have pens")
    panel.locator("input.zip").set_input_files(archive)
    expect(panel.get_by_role("heading", name="My test set")).to_be_visible()
    expect(panel.locator("tbody tr")).to_have_count(2)
    panel.get_by_role("button", name="Remove this test set").click()
    expect(panel.get_by_role("heading", name="My test set")).to_be_hidden()
    expect(tab.locator("#results-tests select")).to_have_value("")
    expect(tab.locator("#per-class")).to_contain_text("of 200 test images")
