"""Linear probes in a real Chromium: the task, stored results, and models without attention."""

import pytest
from playwright.sync_api import expect

from tests.browser.actions import fits_window, set_model
from tests.support.factories import RESNET, make_context, make_run, write_noise_images
from vitdemo import runs
from vitdemo.analyses.linear_probes import LayerProbes, write_probes

IDS = "layer-by-layer+linear-probes"
ACCURACIES = {
    "class token": [0.1, 0.35, 0.8, 0.955],
    "mean of the patches": [0.3, 0.5, 0.7, 0.9],
    "logit lens": [0.1, 0.11, 0.5, 0.95],
}


@pytest.fixture(scope="module")
def probe_views(view_server, tmp_path_factory) -> str:
    """Address of the views of models with and without stored probes, with test images."""
    root = tmp_path_factory.mktemp("probes")
    run = make_run(root / "runs" / "vit")
    write_probes(make_run(root / "runs" / "stored"), LayerProbes(2000, 1000, ACCURACIES))
    make_run(root / "runs" / "resnet", RESNET)
    counts = {f"{part}/{name}": 3 for part in ("train", "test") for name in run.classes}
    data = write_noise_images(root / "data", counts)
    return view_server.add(make_context(root / "runs", data_root=data))


def test_stored_probes_are_compared_with_the_logit_lens(open_views, probe_views):
    page = open_views(probe_views, IDS, "picture=photo:cat&model=stored", is_new=True)
    probes = page.locator("#linear-probes")
    expect(probes).to_contain_text("Accuracy on 1,000 test images")
    expect(probes).to_contain_text(
        "After layer 2, the probe on the class token has an accuracy of 80.0%, and the logit lens "
        "50.0%."
    )
    expect(probes.locator(".vd-layer-legend span")).to_have_text(
        ["probe on the class token", "probe on the mean of the patches", "logit lens"]
    )
    expect(probes.locator("svg")).to_have_count(1)
    expect(page.get_by_role("button", name="Fit linear probes")).to_be_hidden()
    probes.locator("summary", has_text="Accuracy of stored").click()
    rows = probes.locator(".vd-numbers tbody tr")
    expect(rows).to_have_count(4)
    assert rows.last.locator("td").all_inner_texts()[-3:] == ["95.5", "90.0", "95.0"]
    page.set_viewport_size({"width": 390, "height": 844})
    assert fits_window(page)


def test_probes_are_fitted_by_a_task(open_views, probe_views):
    page = open_views(probe_views, IDS, "picture=photo:cat&model=vit", is_new=True)
    expect(page.locator("#linear-probes svg")).to_have_count(0)
    page.get_by_role("button", name="Fit linear probes").click()
    expect(page.locator("#linear-probes")).to_contain_text("Accuracy on 30 test images")
    expect(page.locator("#linear-probes svg")).to_have_count(1)
    set_model(page, "resnet")
    expect(page.locator("#layer-by-layer .vd-notice")).to_be_visible()
    expect(page.locator("#linear-probes")).to_be_hidden()


def test_without_a_dataset_the_download_is_offered(open_views, view_runs, tmp_path):
    run = make_run(tmp_path / "runs" / "vit")
    assert not (run.path / runs.PROBES_FILE).exists()
    page = open_views(view_runs(), IDS, "picture=photo:cat&model=vit", is_new=True)
    expect(page.locator("#linear-probes")).to_contain_text("Download CIFAR-10")
    expect(page.locator("#lens table")).to_be_visible()
