"""The layout of the page as HTML without gradio.

`build_layout` translates gradio's rows, columns, tabs, accordions, texts and buttons. Elements with
the attribute `data-place` remain empty: `main.js` mounts the views and controls of the page there.
Components that need Python are left out, with rows and accordions that contain nothing else. A card
(`CARDS`) replaces the parts that a reader would miss.
"""

import html
from collections.abc import Collection, Iterable

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
    "tsne": "The full version arranges the test images by their similarity.",
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
    return LayoutBuilder(page, places).build(page.children)


class LayoutBuilder:
    """Builds the HTML of parts of a page."""

    def __init__(self, page: gr.Blocks, places: Collection[str]):
        self.places = places
        self.listeners = {  # id of a component -> its listeners of the event "click"
            number: [each for each in page.fns.values() if (number, "click") in each.targets]
            for number in page.blocks
        }

    def build(self, blocks: Iterable[Block]) -> str:
        return "".join(map(self.build_block, blocks))

    def build_block(self, block: Block) -> str:
        if getattr(block, "visible", True) is not True:
            return ""
        if block.elem_id in CARDS:
            return build_card(block.elem_id)
        if block.elem_id in self.places or isinstance(block, HeaderView | ExampleImages):
            place = '<div class="html-container" data-place></div>'
            return f"<div{format_attributes(block, 'block')}>{place}</div>"
        if isinstance(block, gr.Markdown):
            content = MARKDOWN.render(block.value or "")
            return f"<div{format_attributes(block, 'block prose')}>{content}</div>"
        if isinstance(block, gr.Button):
            return self.build_button(block)
        if isinstance(block, gr.Tabs):
            return self.build_tabs(block)
        return self.build_container(block) if isinstance(block, BlockContext) else ""

    def build_container(self, block: BlockContext) -> str:
        if not (content := self.build(block.children)):
            return ""
        if isinstance(block, gr.Accordion):
            title = f'<summary class="label-wrap">{html.escape(block.label or "")}</summary>'
            return f"<details{format_attributes(block, 'block')}>{title}{content}</details>"
        if isinstance(block, gr.Row):
            name = "row" if block.equal_height else "row unequal-height"
        else:
            name = "form" if isinstance(block, Form) else "column"
        size = ""
        if isinstance(block, gr.Column):
            size = f' style="flex-grow: {block.scale}; min-width: min({block.min_width}px, 100%)"'
        return f"<div{format_attributes(block, name)}{size}>{content}</div>"

    def build_tabs(self, block: gr.Tabs) -> str:
        contents = {tab: content for tab in block.children if (content := self.build(tab.children))}
        buttons, panels = [], []
        for tab, content in contents.items():
            name = f"{block.elem_id}-{tab.id}"
            buttons.append(
                f'<button role="tab" type="button" id="{name}-tab" data-tab-id="{tab.id}" '
                f'aria-controls="{name}-panel">{html.escape(tab.label)}</button>'
            )
            panels.append(
                f'<div role="tabpanel" class="tabitem" id="{name}-panel" '
                f'aria-labelledby="{name}-tab"><div class="column">{content}</div></div>'
            )
        strip = f'<div class="tab-container" role="tablist">{"".join(buttons)}</div>'
        attributes = format_attributes(block, "tabs")
        return f'<div{attributes}><div class="tab-wrapper">{strip}</div>{"".join(panels)}</div>'

    def build_button(self, block: gr.Button) -> str:
        """Return a button whose listener runs in the browser only, or "" for another button."""
        listeners = self.listeners[block._id]
        if len(listeners) != 1 or listeners[0].fn is not None or not listeners[0].js:
            return ""
        script, label = html.escape(f"({listeners[0].js})()"), html.escape(str(block.value))
        return f'<button type="button" class="vd-download" onclick="{script}">{label}</button>'


def build_card(name: str) -> str:
    """Return the card that replaces the part `name`, or "" for a part without a card."""
    if not (sentence := CARDS[name]):
        return ""
    command = f"Start it with <code>{COMMAND}</code> in a copy of the repository."
    return f'<p class="vd-full-version" id="{name}">{sentence} {command}</p>'


def format_attributes(block: Block, names: str) -> str:
    classes = [names, *(block.elem_classes or [])]
    name = f' id="{block.elem_id}"' if block.elem_id else ""
    return f'{name} class="{" ".join(classes)}"'
