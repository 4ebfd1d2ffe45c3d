"""The panel "Train here" in a real Chromium: a training of a tiny set, from Start to its film."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.doing import open_tab, requests
from tests.conftest import write_pictures
from vitdemo.jobs import Jobs

PICTURES = {"train/ant": 120, "train/bee": 120, "test/ant": 5, "test/bee": 5}
STATE = "#trainings .state"


@pytest.fixture
def site(serve_runs, tmp_path):
    """The address of a page over no run yet, with pictures to train on."""
    yield serve_runs(data=write_pictures(tmp_path / "data", PICTURES))
    jobs = Jobs(tmp_path / "runs")
    for job in jobs.all():  # of a test that failed: no training outlives it
        jobs.discard(job.name)


def press(page, words):
    page.locator("#trainings").get_by_role("button", name=words).first.click()


def test_a_training_from_start_to_film(site, open_page):
    page = open_page(site)
    open_tab(page, "Training progress")
    page.get_by_role("button", name="Train here").click()
    expect(page.locator("#cost")).to_contain_text(re.compile(r"0\.\d+ M parameters.*minutes"))
    page.get_by_role("button", name="Ingredients").click()
    for name, value in {"epochs": "60", "embed-dim": "32", "num-heads": "2", "depth": "2"}.items():
        field = page.locator(f"#option-{name} input")
        field.fill(value)
        field.press("Tab")
    page.locator("#start-training").click()
    expect(page.locator(STATE)).to_have_text("training")
    expect(page.locator("#film .when")).to_contain_text("first-steps-1 after epoch")

    page.reload()
    open_tab(page, "Training progress")  # the panel opens by itself
    expect(page.locator(STATE)).to_have_text("training")
    press(page, "Pause")
    expect(page.locator(STATE)).to_have_text("paused")
    press(page, "Resume")
    expect(page.locator(STATE)).to_have_text("training")
    expect(page.locator("#live figure")).to_have_count(2)
    expect(page.locator("#film .play")).to_be_enabled()  # a second epoch has ended
    press(page, "Stop and keep")
    expect(page.locator(STATE)).to_have_text("stopped")
    expect(page.locator("#trainings .words")).to_contain_text("of the test pictures")

    asked = requests(page)
    page.locator("#film .at input").fill("0")
    expect(page.locator("#film .when")).to_contain_text("after epoch 1:")
    page.locator("#film .play").click()
    expect(page.locator("#film .when")).not_to_contain_text("after epoch 1:")
    assert not [url for url in asked if ".safetensors" in url or "/file=" in url]

    press(page, "Discard")
    press(page, "Keep first-steps-1")
    press(page, "Discard")
    press(page, "Discard first-steps-1 for good")
    expect(page.locator("#trainings .none")).to_be_visible()
