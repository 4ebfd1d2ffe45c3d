"""Buttons that say how many there are of each, of which some are chosen, and what that means.

    kinds = Chips("Which pictures", elem_id="errors-kinds")
    kinds.pick(handler, ...)          # handler(event: gr.EventData, ...): event.pick

The value that reaches the script; all but `chips` may be left out:

    {"chips": [{"pick", "words", "count", "pressed", "off": why not, "spoken"}, ...],
     "only": what else is asked of what is counted, which a button picks `CLEAR` to take away,
     "words": [sentence, ...], "sentence": str}
"""

from vitdemo.page.components import Drawing

CLEAR = "clear"


class Chips(Drawing):
    """See the module; `group` is the name of the buttons, `title` a heading above them."""

    def __init__(self, group: str, title: str = "", **options):
        super().__init__(group=group, title=title, **options)
