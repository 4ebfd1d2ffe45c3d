"""Buttons that say how many there are of each, of which some are chosen, and what that means.

    kinds = Chips("Which pictures", elem_id="errors-kinds")
    kinds.pick(handler, ...)          # handler(event: gr.EventData, ...): event.pick

The value that reaches the script; all but `chips` may be left out:

    {"chips": [{"pick", "words", "count", "pressed", "off": why not, "spoken"}, ...],
     "only": what else is asked of what is counted, which a button picks `CLEAR` to take away,
     "words": [sentence, ...], "problem": sentence}
"""

import gradio as gr

from vitdemo.page.components import drawn_by

CLEAR = "clear"


class Chips(gr.HTML):
    """See the module; `group` is the name of the buttons, `title` a heading above them."""

    def __init__(self, group: str, title: str = "", **options):
        super().__init__(None, group=group, title=title, **drawn_by("chips"), **options)

    def preprocess(self, payload) -> None:
        """What is picked comes with the event."""

    def postprocess(self, value: dict | None) -> dict | None:
        return value
