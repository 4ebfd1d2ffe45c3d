"""The form and the live run of the tab Train in a real Chromium, from start to animation."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.actions import START_MS, open_fold
from tests.support.factories import write_noise_images
from tests.support.serving import serve
from vitdemo.jobs import JobQueue

IMAGE_COUNTS = {"train/ant": 120, "train/bee": 120, "test/ant": 5, "test/bee": 5}
STATE = "#live .state"


@pytest.fixture
def site(tmp_path):
    """Address of a page without runs, with images for training."""
    source = write_noise_images(tmp_path / "data", IMAGE_COUNTS)
    with serve("--runs", str(tmp_path / "runs"), "--data", str(source)) as address:
        yield address
        jobs = JobQueue(tmp_path / "runs")
        for job in jobs.list_jobs():  # a failed test must not leave a training run
            jobs.delete(job.name)


def press(page, name, place="#live"):
    page.locator(place).get_by_role("button", name=name).first.click()


def test_a_training_run_from_start_to_animation(site, open_page):  # the page ends before its server
    page = open_page(f"{site}?tab=training", width=1366)
    page.set_viewport_size({"width": 1366, "height": 768})
    expect(page.locator("#cost")).to_contain_text(re.compile("minutes.*Measured speed"))
    open_fold(page, "More settings", "#model-size")
    expect(page.locator("#model-size")).to_contain_text(re.compile(r"0\.\d+ M parameters"))
    # Slow enough to be stopped on a busy machine, before all epochs have ended.
    for name, value in {"epochs": "200", "embed-dim": "64", "num-heads": "2", "depth": "4"}.items():
        field = page.locator(f"#option-{name} input")
        field.fill(value)
        field.press("Tab")
    start = page.locator("#start-training")
    start.click()
    page.locator("#live").get_by_role("button", name="Stop").first.press("Enter")
    expect(page.locator("#live li")).to_have_count(0)
    expect(start).to_be_focused()
    start.press("Enter")
    expect(page.locator(STATE)).to_have_text("training", timeout=START_MS)
    page.evaluate("window.scrollTo(0, 0)")
    expect(page.locator("#live figure").first).to_be_in_viewport(ratio=1)  # the accuracy
    expect(page.locator("#live").get_by_role("button", name="Pause")).to_be_in_viewport()
    when = page.locator("#film .when")
    expect(when).to_contain_text("first-steps-1 after epoch", timeout=START_MS)

    page.close()  # a reload would abort a request in flight, which gradio's client reports
    page = open_page(f"{site}?tab=training")
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
    expect(page.locator(STATE)).to_have_text("stopped", timeout=START_MS)  # the result stays first
    expect(page.locator("#live .words")).to_contain_text("test accuracy")
    expect(page.locator("#trainings li")).to_have_count(0)

    urls = []
    page.on("request", lambda request: urls.append(request.url))
    slider = page.locator("#film .at input")
    slider.fill("0")
    expect(page.locator("#film .when")).to_contain_text("after epoch 1:")
    page.locator("#film .play").click()
    expect(page.locator("#film .when")).not_to_contain_text("after epoch 1:")
    assert not [url for url in urls if ".safetensors" in url or "/file=" in url]
    page.locator("#film .tile").first.click()
    expect(page.locator("#film .when")).to_contain_text("after epoch 1:")

    press(page, "Delete", "#live")
    delete = page.locator("#live").get_by_role("button", name="Delete").first
    expect(delete).to_have_accessible_name("Delete first-steps-1 permanently")
    expect(delete).to_be_focused()
    press(page, "Do not delete first-steps-1", "#live")
    expect(delete).to_have_accessible_name("Delete: first-steps-1")
    expect(delete).to_be_focused()
    press(page, "Delete", "#live")
    press(page, "Delete first-steps-1 permanently", "#live")
    expect(page.locator("#live li")).to_have_count(0)
