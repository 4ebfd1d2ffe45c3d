"""The layout of the page as HTML without gradio.

`build_layout` translates gradio's rows, columns, tabs, accordions, texts and buttons. Elements with
the attribute `data-place` remain empty: `main.js` mounts the views and controls of the page there.
Components that need Python are left out, with rows and accordions that contain nothing else. A card
(`CARDS`) replaces the parts that a reader would miss.
"""

from collections.abc import Collection, Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import gradio as gr
from gradio.blocks import Block, BlockContext
from gradio.layouts import Form
from markdown_it import MarkdownIt

from vitdemo.page.components.offers import ExampleImages
from vitdemo.page.header import HeaderView

# Parts of the page that need Python, by element id: the sentence of a card, or "" without a card.
CARDS = {
    "own-columns": "Custom classes fine-tune a model on your photos.",
    "train-here": "The full version trains models on your computer.",
    "more-models": "The full version opens other timm models, and checkpoints from a file.",
    "class-examples": "The full version shows the images of CIFAR-10.",
    "similar-patches": "The full version finds similar patches in the test images.",
    "tsne": "The full version arranges the test images by their similarity.",
    "ranking-results": "",
    "near": "",
    "similar-model": "",
    "similar-count": "",
    "upload-model": "",
    "results-tests": "",
    "test-set": "",
    "dataset": "",
    "hand-outs": "",
}
COMMAND = "make app"
MARKDOWN = MarkdownIt()


def build_layout(page: gr.Blocks, places: Collection[str]) -> str:
    """Return the HTML of `page`; `places` are the ids of views and controls that can be mounted."""
    elements = LayoutBuilder(page, places).build(page.children)
    return "".join(ElementTree.tostring(each, "unicode", "html") for each in elements)


class LayoutBuilder:
    """Builds the elements of parts of a page."""

    def __init__(self, page: gr.Blocks, places: Collection[str]):
        self.places = places
        self.listeners = {  # id of a component -> its listeners of the event "click"
            number: [each for each in page.fns.values() if (number, "click") in each.targets]
            for number in page.blocks
        }

    def build(self, blocks: Iterable[Block]) -> list[Element]:
        return [each for each in map(self.build_block, blocks) if each is not None]

    def build_block(self, block: Block) -> Element | None:
        """Return the element of a block, or None if it needs Python or contains nothing."""
        if getattr(block, "visible", True) is not True:
            return None
        if block.elem_id in CARDS:
            return build_card(block.elem_id)
        if block.elem_id in self.places or isinstance(block, HeaderView | ExampleImages):
            place = Element("div", {"class": "html-container", "data-place": ""})
            return make_element("div", [place], **describe(block, "block"))
        if isinstance(block, gr.Markdown):
            content = parse_markdown(block.value)
            return make_element("div", content, **describe(block, "block prose"))
        if isinstance(block, gr.Button):
            return self.build_button(block)
        if isinstance(block, gr.Tabs):
            return self.build_tabs(block)
        return self.build_container(block) if isinstance(block, BlockContext) else None

    def build_container(self, block: BlockContext) -> Element | None:
        if not (content := self.build(block.children)):
            return None
        if isinstance(block, gr.Accordion):
            title = make_element("summary", text=block.label, **{"class": "label-wrap"})
            return make_element("details", [title, *content], **describe(block, "block"))
        if isinstance(block, gr.Row):
            name = "row" if block.equal_height else "row unequal-height"
        else:
            name = "form" if isinstance(block, Form) else "column"
        size = {}
        if isinstance(block, gr.Column):
            width = f"min({block.min_width}px, 100%)"
            size = {"style": f"flex-grow: {block.scale}; min-width: {width}"}
        return make_element("div", content, **describe(block, name), **size)

    def build_tabs(self, block: gr.Tabs) -> Element:
        tabs = {tab: content for tab in block.children if (content := self.build(tab.children))}
        buttons, panels = [], []
        for tab, content in tabs.items():
            name = f"{block.elem_id}-{tab.id}"
            link = {"id": f"{name}-tab", "data-tab-id": tab.id, "aria-controls": f"{name}-panel"}
            kind = {"role": "tab", "type": "button"}
            buttons.append(make_element("button", text=tab.label, **kind, **link))
            column = make_element("div", content, **{"class": "column"})
            link = {"id": f"{name}-panel", "aria-labelledby": f"{name}-tab"}
            kind = {"role": "tabpanel", "class": "tabitem"}
            panels.append(make_element("div", [column], **kind, **link))
        strip = make_element("div", buttons, **{"class": "tab-container", "role": "tablist"})
        wrapper = make_element("div", [strip], **{"class": "tab-wrapper"})
        return make_element("div", [wrapper, *panels], **describe(block, "tabs"))

    def build_button(self, block: gr.Button) -> Element | None:
        """Return a button whose listener runs in the browser only, or None for another button."""
        listeners = self.listeners[block._id]
        if len(listeners) != 1 or listeners[0].fn is not None or not listeners[0].js:
            return None
        listener = {"class": "vd-download", "onclick": f"({listeners[0].js})()"}
        return make_element("button", text=str(block.value), type="button", **listener)


def build_card(name: str) -> Element | None:
    """Return the card that replaces the part `name`, or None for a part without a card."""
    if not (sentence := CARDS[name]):
        return None
    text = f"{sentence} Start it with `{COMMAND}` in a copy of the repository."
    return make_element("div", parse_markdown(text), **{"class": "vd-full-version", "id": name})


def parse_markdown(text: str | None) -> list[Element]:
    root = "div"
    return [*ElementTree.fromstring(f"<{root}>{MARKDOWN.render(text or '')}</{root}>")]


def make_element(
    tag: str, children: Iterable[Element] = (), text: str | None = None, **attributes: str
) -> Element:
    element = Element(tag, attributes)
    element.text = text
    element.extend(children)
    return element


def describe(block: Block, names: str) -> dict[str, str]:
    """Return the attributes `class` and `id` of a block."""
    attributes = {"class": " ".join([names, *(block.elem_classes or [])])}
    return attributes | ({"id": block.elem_id} if block.elem_id else {})
