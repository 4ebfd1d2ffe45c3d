"""The number of requests that each action of a user sends to gradio's queue."""

import pytest
from playwright.sync_api import expect

from tests.browser.actions import (
    choose_layer,
    choose_model,
    fill_slider,
    open_tab,
    record_model_requests,
    wait_until_drawn,
    wait_until_idle,
)

TABS = (
    "Lessons",
    "Train",
    "Per-class metrics",
    "Confusion matrix",
    "Errors",
    "Compare models",
    "Data",
    "Custom classes",
)
# Upper bounds. Target: 1 for a new image, another model, and the first opening of a tab or section;
# 0 for a layer, a head and a patch.
MAX_REQUESTS = {
    "new image": 1,
    "other model": 1,
    "layer": 0,
    "head": 0,
    "patch under the pointer": 0,
    "section, first time": 1,
    "back to Attention": 0,
    "section, second time": 0,
    "part with layers": 1,
    "layer in a part with layers": 1,
    "part without layers": 1,
    **{f"{name}, first time": 1 for name in TABS},
    "back to Explore": 1,
    "tab, second time": 1,
}


@pytest.fixture(scope="module")
def counts(open_shared, page_url):
    """Count the requests of each action, one after the other on one page."""
    page = open_shared(page_url)
    wait_until_drawn(page)
    requests, counts = record_model_requests(page), {}
    wait_until_idle(page)
    requests.clear()
    for action, act in ACTIONS.items():
        before = len(requests)
        act(page)
        wait_until_idle(page)
        counts[action] = len(requests) - before
    return counts


@pytest.mark.parametrize("action", MAX_REQUESTS)
def test_action_sends_at_most_so_many_requests(counts, action):
    assert counts[action] <= MAX_REQUESTS[action]


def choose_image(page) -> None:
    page.locator("#offers .photos").get_by_role("button", name="bus").click()
    expect(page.locator("#picture .about")).to_contain_text("bus")


def choose_other_model(page) -> None:
    choose_model(page, "vit")
    wait_until_drawn(page, run="vit")


def move_layer(page, layer: int) -> None:
    choose_layer(page, layer)
    wait_until_drawn(page, layer=layer)


def choose_head(page) -> None:
    page.locator("#attention .wall").get_by_role("gridcell", name="Layer 1, head 2:").click()
    wait_until_drawn(page, head=2)


def point_at_patches(page) -> None:
    large = page.locator("#attention .large")
    for place in (20, 60, 100):
        large.hover(position={"x": place, "y": place})
    wait_until_drawn(page, run="vit")
    page.mouse.move(0, 0)


def open_explore_tab(page) -> None:
    open_tab(page, "Explore")
    expect(page.locator("#model")).to_be_visible()


def open_inside(page) -> None:
    page.locator("#sections").get_by_role("tab", name="Inside the model", exact=True).click()
    expect(page.locator("#diagram .flow")).to_be_visible()


def open_attention(page) -> None:
    page.locator("#sections").get_by_role("tab", name="Attention", exact=True).click()
    expect(page.locator("#attention .large")).to_be_visible()


def open_part(page, title: str, name: str) -> None:
    page.locator("#part select").select_option(title)
    expect(page.locator(f"#part-{name}")).to_be_visible()


ACTIONS = {
    "new image": choose_image,
    "other model": choose_other_model,
    "layer": lambda page: move_layer(page, 2),
    "head": choose_head,
    "patch under the pointer": point_at_patches,
    "section, first time": open_inside,
    "back to Attention": open_attention,
    "section, second time": open_inside,
    "part with layers": lambda page: open_part(page, "One head", "one_head"),
    "layer in a part with layers": lambda page: fill_slider(page, "#layer", 3),
    "part without layers": lambda page: open_part(page, "Embeddings", "embeddings"),
    **{f"{name}, first time": lambda page, name=name: open_tab(page, name) for name in TABS},
    "back to Explore": open_explore_tab,
    "tab, second time": lambda page: open_tab(page, TABS[-1]),
}
