"""The picked button of a `PickHTML`, by mouse and by keyboard, in a page of its own."""

import gradio as gr
import pytest
from playwright.sync_api import expect

from vitdemo.page.kit import PickHTML


def cells(pressed: str = "") -> str:
    buttons = (
        f'<button data-pick="c{i}" aria-pressed="{str(pressed == f"c{i}").lower()}">{i}</button>'
        for i in range(8)
    )
    return f'<div data-columns="3">{"".join(buttons)}</div>'


@pytest.fixture(scope="module")
def address():
    with gr.Blocks() as page:
        places = PickHTML(cells("c4"), elem_id="cells")
        said = gr.Textbox(elem_id="said")

        def pick(event: gr.EventData):
            return cells(event.pick), event.pick

        places.pick(pick, outputs=[places, said])
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, ssr_mode=False)
    yield url
    page.close()


@pytest.fixture
def said(open_page, address):
    page = open_page(address)
    page.locator("#cells button").nth(7).wait_for()
    yield page.locator("#said").get_by_role("textbox")
    page.close()


def focus(page) -> str:
    return page.evaluate("document.activeElement.dataset.pick")


def test_a_click_picks_and_keeps_the_focus(said):
    page = said.page
    page.locator("#cells button").nth(5).click()
    expect(said).to_have_value("c5")
    expect(page.locator("#cells [aria-pressed=true]")).to_have_text("5")
    assert focus(page) == "c5"


def test_tab_reaches_one_button_and_arrows_the_others(said):
    page = said.page
    stops = page.locator("#cells button[tabindex='0']")
    expect(stops).to_have_text(["4"])
    stops.focus()
    for key, there in {
        "ArrowUp": "c1",
        "ArrowLeft": "c0",
        "End": "c2",
        "ArrowDown": "c5",
        "Home": "c3",
    }.items():
        page.keyboard.press(key)
        assert focus(page) == there
    page.keyboard.press("ArrowLeft")  # the row's edge holds
    assert focus(page) == "c3"
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")  # there is no button below
    assert focus(page) == "c5"
    page.keyboard.press("Enter")
    expect(said).to_have_value("c5")
    assert focus(page) == "c5"
