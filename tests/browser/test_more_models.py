"""Download of timm models on the page, from a local server with random weights."""

import os
import re
import threading
from contextlib import ExitStack

import pytest
import timm
import torch
from playwright.sync_api import expect
from safetensors.torch import save

from tests.browser.actions import wait_until_drawn
from tests.support import hub_page
from tests.support.foreign_checkpoints import write_checkpoint
from tests.support.hub import serve_hub
from tests.support.serving import serve

TINY = "timm:deit_tiny_patch16_224.fb_in1k"
MISSING = "timm/vit_small_patch16_224.dino"


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def weights() -> bytes:
    torch.manual_seed(0)
    return save(timm.create_model("deit_tiny_patch16_224").state_dict())


@pytest.fixture(scope="module")
def hurry() -> threading.Event:
    """Return an event; until it is set, a download takes more than half a minute."""
    return threading.Event()


@pytest.fixture(scope="module")
def start(patch, weights, hurry, shown_runs, tmp_path_factory):
    """Return a function that starts a page and returns its address.

    The page uses a local Hub that has the weights of DeiT-Tiny under every name except `MISSING`.
    """
    options = {"pause": 1.5, "hurry": hurry, "missing": (MISSING,)}
    with serve_hub(patch, {"model.safetensors": weights}, **options), ExitStack() as pages:

        def start(*arguments: str) -> str:
            variables = {
                "HF_ENDPOINT": os.environ["HF_ENDPOINT"],
                "HF_HOME": str(tmp_path_factory.mktemp("hub")),
            }
            model_options = "--runs", str(shown_runs)
            page = serve(*model_options, *arguments, variables=variables, program=hub_page.PROGRAM)
            return pages.enter_context(page)

        yield start


@pytest.fixture(scope="module")
def address(start):
    """Address of a page that only this computer can open; each test removes its models."""
    return start()


def open_panel(page):
    page.locator("#answers .card").first.wait_for()
    page.get_by_role("button", name="More models").click()
    page.locator("#offered-models li").first.wait_for()


def find_model_row(page, title):
    return page.locator("#offered-models li").filter(has_text=re.compile(f"^{title}"))


def test_a_download_is_stopped_and_resumed_and_the_model_removed(open_page, address, hurry):
    page = open_page(address)
    open_panel(page)
    row = find_model_row(page, "DeiT-Tiny")
    expect(row).to_contain_text("23 MB, apache-2.0")
    before = page.locator("#answers .card").count()
    row.get_by_role("button", name="Add: DeiT-Tiny").click()
    expect(row).to_contain_text(re.compile(r"\d+ of 23 MB, [\d.]+ MB/s, \d+ s left"))
    row.get_by_role("button", name="Stop").click()
    expect(row.get_by_role("button", name="Add")).to_be_visible()
    hurry.set()
    row.get_by_role("button", name="Add").click()
    expect(row.locator(".state")).to_have_text("added")
    wait_until_drawn(page, run=TINY)
    expect(page.locator("#model select")).to_have_value(TINY)
    expect(page.locator("#answers .card")).to_have_count(before + 1)
    other = open_page(address)  # The model was added for all users.
    expect(other.locator("#answers .card")).to_have_count(before + 1)
    row.get_by_role("button", name="Remove").click()
    expect(page.locator("#answers .card")).to_have_count(before)
    expect(page.locator("#model select")).not_to_have_value(TINY)
    expect(row).to_contain_text("already downloaded")


def test_failed_downloads_and_unknown_models_show_an_error(open_page, address):
    page = open_page(address)
    open_panel(page)
    find_model_row(page, "DINO, ").get_by_role("button", name="Add").click()
    row = find_model_row(page, "DINO, ")
    expect(row.locator(".note")).to_contain_text("could not be downloaded")
    expect(row.locator(".note")).to_contain_text("Check the network")
    row.get_by_role("button", name="Try again").click()
    expect(row.get_by_role("button", name="Try again")).to_be_visible()
    page.locator("#model-name").get_by_role("textbox").fill("nonsense")
    page.locator("#add-model").click()
    expect(page.get_by_text("timm has no model 'nonsense'").first).to_be_visible()
    page.locator("#model-name").get_by_role("textbox").fill("vit_tiny_patch16_224.in12k")
    page.locator("#add-model").click()
    expect(page.get_by_text("timm has no weights 'in12k'").first).to_be_visible()


def test_on_a_public_page_a_model_is_added_for_one_user(open_page, start, hurry):
    hurry.set()
    address = start("--host", "0.0.0.0")
    page = open_page(address)
    open_panel(page)
    expect(page.locator("#model-name")).to_be_hidden()
    expect(page.locator("#model-labels")).to_be_hidden()
    expect(page.locator("#upload-model")).to_have_count(0)
    find_model_row(page, "DeiT-Tiny").get_by_role("button", name="Add").click()
    expect(find_model_row(page, "DeiT-Tiny").locator(".state")).to_have_text("added")
    expect(page.locator(f"#model option[value='{TINY}']")).to_have_count(1)
    other = open_page(address)
    other.locator("#answers .card").first.wait_for()
    expect(other.locator(f"#model option[value='{TINY}']")).to_have_count(0)


def test_a_local_folder_is_opened_with_labels(open_page, address, tmp_path):
    page = open_page(address)
    open_panel(page)
    name = page.locator("#model-name").get_by_role("textbox")
    name.fill(f"local:{tmp_path / ('long' * 60)}/nowhere")
    page.locator("#add-model").click()
    row = find_model_row(page, "local:.*nowhere")
    expect(row.locator(".note")).to_contain_text("does not exist. Check the path of the model.")
    expect(row.locator(".note")).to_be_in_viewport()  # the list scrolls to a new error
    rows = page.locator("#offered-models ul")  # the long path wraps and widens no row
    assert rows.evaluate("(list) => list.scrollWidth <= list.clientWidth")
    row.get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    folder = write_checkpoint(tmp_path / "deit", "deit")
    name.fill(f"local:{folder}")
    labels = page.locator("#model-labels").get_by_role("textbox")
    labels.fill("one\ntwo")
    page.locator("#add-model").click()
    problem = page.locator("#offered-models .note").filter(has_text="There are 2 labels")
    expect(problem).to_contain_text("but the model has 5 outputs")
    labels.fill("one\ntwo\nthree\nfour\nfive")
    page.locator("#add-model").click()
    wait_until_drawn(page, run="local:deit")
    expect(page.locator("#model select")).to_have_value("local:deit")
    card = page.locator("#answers .card").filter(has_text="local:deit")
    expect(card).to_contain_text(re.compile("one|two|three|four|five"))
    find_model_row(page, "local:deit").get_by_role("button", name="Remove").click()
    expect(card).to_have_count(0)
