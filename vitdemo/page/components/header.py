"""The page's head: its name, and what is true of this page.

The value that reaches the script: {"words": str, "problems": [str]}.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import gradio as gr

from vitdemo.page.components import drawn_by


@dataclass(frozen=True)
class Facts:
    """`words` beside the name, and a sentence for each thing that is damaged or missing."""

    words: str
    problems: Sequence[str] = ()


class Header(gr.HTML):
    """See the module."""

    def __init__(self, value: Facts, **options):
        super().__init__(value, **drawn_by("header"), **options)

    def preprocess(self, payload) -> None:
        """Nobody asks the browser what was drawn."""

    def postprocess(self, value: Facts) -> dict:
        return asdict(value)
