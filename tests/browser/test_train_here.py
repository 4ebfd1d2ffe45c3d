"""The panel "Train a model" in a real Chromium: a tiny training run, from start to animation."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.factories import write_noise_images
from tests.support.serving import serve
from vitdemo.jobs import JobQueue

IMAGE_COUNTS = {"train/ant": 120, "train/bee": 120, "test/ant": 5, "test/bee": 5}
STATE = "#trainings .state"
START_MS = 300_000  # a training process imports torch, which takes minutes on a busy machine


@pytest.fixture
def site(tmp_path):
    """Address of a page without runs, with images for training."""
    source = write_noise_images(tmp_path / "data", IMAGE_COUNTS)
    with serve("--runs", str(tmp_path / "runs"), "--data", str(source)) as address:
        yield address
        jobs = JobQueue(tmp_path / "runs")
        for job in jobs.list_jobs():  # a failed test must not leave a training run
            jobs.delete(job.name)


def open_panel(open_page, address):
    page = open_page(address)
    page.get_by_role("tab", name="Train", exact=True).click()
    if not page.locator("#trainings").is_visible():
        page.get_by_role("button", name="Train a model").click()
    page.locator("#trainings").wait_for()
    return page


def press(page, name):
    page.locator("#trainings").get_by_role("button", name=name).first.click()


def test_a_training_run_from_start_to_animation(site, open_page):  # the page ends before its server
    page = open_panel(open_page, site)
    expect(page.locator("#cost")).to_contain_text(re.compile(r"0\.\d+ M parameters.*minutes"))
    page.get_by_role("button", name="Recipe settings").click()
    # Slow enough to be stopped on a busy machine, before all epochs have ended.
    for name, value in {"epochs": "200", "embed-dim": "64", "num-heads": "2", "depth": "4"}.items():
        field = page.locator(f"#option-{name} input")
        field.fill(value)
        field.press("Tab")
    page.locator("#start-training").click()
    expect(page.locator(STATE)).to_have_text("training", timeout=START_MS)
    page.locator("#film").scroll_into_view_if_needed()  # the animation is loaded now
    when = page.locator("#film .when")
    expect(when).to_contain_text("first-steps-1 after epoch", timeout=START_MS)

    page.close()  # a reload would abort a request in flight, which gradio's client reports
    page = open_page(site)
    page.get_by_role("tab", name="Train", exact=True).click()  # the panel opens automatically
    expect(page.locator(STATE)).to_have_text("training", timeout=START_MS)
    press(page, "Pause")
    expect(page.locator(STATE)).to_have_text("paused", timeout=START_MS)
    press(page, "Resume")
    expect(page.locator(STATE)).to_have_text("training", timeout=START_MS)
    expect(page.locator("#live figure")).to_have_count(2)
    page.locator("#film").scroll_into_view_if_needed()
    play = page.locator("#film .play")
    expect(play).to_be_enabled(timeout=START_MS)  # a second epoch has ended
    press(page, "Stop and evaluate")
    expect(page.locator(STATE)).to_have_text("stopped", timeout=START_MS)
    expect(page.locator("#trainings .words")).to_contain_text("test accuracy")

    urls = []
    page.on("request", lambda request: urls.append(request.url))
    slider = page.locator("#film .at input")
    slider.fill("0")
    expect(page.locator("#film .when")).to_contain_text("after epoch 1:")
    page.locator("#film .play").click()
    expect(page.locator("#film .when")).not_to_contain_text("after epoch 1:")
    assert not [url for url in urls if ".safetensors" in url or "/file=" in url]

    press(page, "Delete")
    delete = page.locator("#trainings").get_by_role("button", name="Delete").first
    expect(delete).to_have_accessible_name("Delete first-steps-1 permanently")
    expect(delete).to_be_focused()
    press(page, "Do not delete first-steps-1")
    expect(delete).to_have_accessible_name("Delete: first-steps-1")
    expect(delete).to_be_focused()
    press(page, "Delete")
    press(page, "Delete first-steps-1 permanently")
    expect(page.locator("#trainings .none")).to_be_visible()
