"""A section of the Data tab: what it draws, and when."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import gradio as gr
from gradio.components import Component

from vitdemo.errors import VitdemoError
from vitdemo.page import html
from vitdemo.page.kit import LIGHT_QUEUE

PRIVATE = {"api_visibility": "private"}


@dataclass(frozen=True)
class Section:
    """`draw(*inputs)` gives the values of `outputs` as a list, whenever `tab` is opened.

    The last output is an HTML; there stands, in words, what a `VitdemoError` says.
    """

    tab: gr.Tab
    draw: Callable[..., list]
    inputs: Sequence[Component]
    outputs: Sequence[Component]
    queue: dict = field(default_factory=lambda: LIGHT_QUEUE)

    def draw_on(self, *events: Callable) -> None:
        for event in events:
            event(
                self._in_words(),
                inputs=list(self.inputs),
                outputs=list(self.outputs),
                trigger_mode="always_last",
                **PRIVATE,
                **self.queue,
            )

    def _in_words(self) -> Callable:
        @functools.wraps(self.draw)
        def drawn(*args):
            try:
                values = self.draw(*args)
            except VitdemoError as error:
                values = [gr.skip()] * (len(self.outputs) - 1) + [html.notice(str(error))]
            return values[0] if len(values) == 1 else values  # one output's list is its value

        return drawn
