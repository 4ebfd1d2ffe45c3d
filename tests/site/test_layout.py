"""The layout of the page as HTML without gradio."""

from collections.abc import Callable
from html.parser import HTMLParser

import gradio as gr
import pytest

from tests.support.loops import call_in_loop
from vitdemo.page import bridge, build_page
from vitdemo.site.controls import list_controls
from vitdemo.site.layout import CARDS, build_layout

VOID = {"input", "img", "br", "hr"}


class Elements(HTMLParser):
    """Collects the attributes of elements, and checks that each element is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[dict] = []
        self.opened: list[str] = []
        self.feed(text)
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.found.append(dict(attrs))
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


@pytest.fixture(scope="module")
def page(shown) -> gr.Blocks:
    return call_in_loop(build_page, shown)


@pytest.fixture(scope="module")
def elements(page) -> list[dict]:
    return Elements(build_layout(page, bridge.list_places(page) | list_controls(page))).found


def list_ids_below(block: gr.blocks.Block) -> set[str]:
    below = {name for each in getattr(block, "children", ()) for name in list_ids_below(each)}
    return below | {block.elem_id}


def test_each_view_and_control_has_one_place(page, elements):
    ids = [each["id"] for each in elements if "id" in each]
    assert len(ids) == len({*ids})
    replaced = {
        name
        for block in page.blocks.values()
        if block.elem_id in CARDS
        for name in list_ids_below(block)
    }
    places = bridge.list_places(page) | list_controls(page)
    assert {*places} - {*ids} <= replaced
    assert len({*places} & {*ids}) > 80


def test_cards_replace_parts_of_the_page(page, elements):
    known = {each.elem_id for each in page.blocks.values()}
    assert {*CARDS} <= known
    shown = {each["id"] for each in elements if each.get("class") == "vd-full-version"}
    assert shown == {name for name, sentence in CARDS.items() if sentence}


def test_tabs_name_their_panels(elements):
    panels = {each["id"]: each for each in elements if each.get("role") == "tabpanel"}
    tabs = [each for each in elements if each.get("role") == "tab"]
    assert {each["aria-controls"] for each in tabs} == {*panels}
    assert all(panels[each["aria-controls"]]["aria-labelledby"] == each["id"] for each in tabs)


def build_small_page(fill: Callable[[], None]) -> gr.Blocks:
    def build() -> gr.Blocks:
        with gr.Blocks() as page:
            fill()
        return page

    return call_in_loop(build)


def test_only_buttons_that_need_no_server_remain():
    def fill():
        browser, server, both = (gr.Button(name) for name in ("browser", "server", "both"))
        browser.click(None, js="() => vitdemo.draw('<a>')")
        server.click(lambda: None)
        both.click(lambda: None, js="() => 1")

    (button,) = Elements(build_layout(build_small_page(fill), ())).found
    assert button["onclick"] == "(() => vitdemo.draw('<a>'))()"


def test_parts_without_content_are_left_out():
    def fill():
        with gr.Row(), gr.Accordion("Upload"):
            gr.Textbox()
        with gr.Column(visible=False):
            gr.Markdown("hidden")
        gr.Markdown("1 < 2, *shown*")

    assert build_layout(build_small_page(fill), ()) == (
        '<div class="block prose"><p>1 &lt; 2, <em>shown</em></p>\n</div>'
    )
