"""Filter buttons with counts, and an explanation below.

    kinds = FilterButtons("Images to show", elem_id="errors-kinds")
    kinds.pick(handler, ...)          # handler(event: gr.EventData, ...): event.pick

The script receives the following value, in which all keys except `chips` are optional:

    {"chips": [{"pick", "words", "count", "pressed", "off": why disabled, "spoken"}, ...],
     "only": description of further filters, with a button that picks `CLEAR_PICK` to reset them,
     "words": [sentence, ...], "sentence": str}
"""

from vitdemo.page.components import View

CLEAR_PICK = "clear"


class FilterButtons(View):
    """Component described in the module docstring, with a `group` name and a `title` above."""

    def __init__(self, group: str, title: str = "", **options):
        super().__init__(group=group, title=title, **options)
