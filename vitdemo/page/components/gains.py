"""Differences with their intervals around a line at 0, the first at the top.

The value that reaches the script; numbers are percentage points:

    {"label": str, "signs": what the signs mean,
     "rows": [{"words", "gain", "low", "high", "clear": bool}, ...]}
"""

import gradio as gr

from vitdemo.page.components import drawn_by


class Gains(gr.HTML):
    """See the module."""

    def __init__(self, **options):
        super().__init__(None, **drawn_by("gains"), **options)

    def preprocess(self, payload) -> None:
        """Nobody asks the browser what was drawn."""

    def postprocess(self, value: dict | None) -> dict | None:
        return value
