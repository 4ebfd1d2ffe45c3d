"""The page as a Hugging Face Space on ZeroGPU, see `tests/support/zero_gpu.py`."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from gradio_client import Client, handle_file
from playwright.sync_api import expect

from tests.support.factories import make_run
from tests.support.serving import ROOT, free_port, run_server


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    folder = tmp_path_factory.mktemp("space")
    make_run(folder / "runs" / "vit")
    port = free_port()
    script = [sys.executable, str(ROOT / "tests" / "support" / "zero_gpu.py"), "--port", str(port)]
    options = ["--runs", str(folder / "runs"), "--data", str(folder / "none")]
    with run_server([*script, *options], port, ROOT, {}, 120) as address:
        yield address


def test_ten_users_are_served_at_once(space):
    photo = handle_file(str(ROOT / "assets" / "photos" / "cat.jpg"))
    clients = [Client(space, verbose=False) for _ in range(10)]
    with ThreadPoolExecutor(10) as pool:
        requests = [pool.submit(client.predict, photo, api_name="/classify") for client in clients]
        predictions = [request.result() for request in requests]
    assert predictions[0]["vit"] and all(prediction == predictions[0] for prediction in predictions)


def test_latency_is_measured_on_the_borrowed_gpu(space, open_page):
    page = open_page(f"{space}?tab=compare")
    page.get_by_role("button", name="Table of all models").click()
    page.get_by_role("button", name="Measure latency on a GPU").click()
    expect(page.locator("#latency")).to_contain_text("passes on the lent GPU-0")
    page.get_by_role("button", name="Measure latency", exact=True).click()
    expect(page.locator("#latency")).to_contain_text(re.compile(r"on .* thread"))
