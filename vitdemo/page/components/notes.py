"""What is written beside figures: headings, sentences, lists, tables, and what unfolds.

    words = Notes(elem_id="learning")
    words.pick(handler, ...)             # handler(event: gr.EventData, ...): event.pick

The value is a list of blocks, drawn one below the other. A block is one of

    {"title": str}, {"text": str}, {"quiet": str}, {"notice": str}, {"link": str, "pick": str},
    {"items": [[in bold, the rest], ...]},
    {"fold": str, "blocks": [block, ...]},
    {"head": [str, ...], "rows": [[str, ...], ...], "file": name to save it by, or missing,
     "raw": [[...], ...] rows to save as CSV in place of those shown, or missing,
     "whole": [header, row, ...] to save in place of all that is shown, or missing}

of which the last is a table, saved as CSV and as Markdown.
"""

import gradio as gr

from vitdemo.page.components import drawn_by


class Notes(gr.HTML):
    """See the module. Its event: `pick` a link."""

    def __init__(self, **options):
        super().__init__(None, **drawn_by("notes"), **options)

    def preprocess(self, payload) -> None:
        """What is picked comes with the event."""

    def postprocess(self, value: list[dict] | None) -> list[dict] | None:
        return value
