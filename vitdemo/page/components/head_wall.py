"""A grid of heads that the user switches off and on, coloured by their effect on the prediction.

    off = gr.Textbox(...)                           # "3.1 4.2": layer.head of heads that are off
    wall = HeadWall(elem_id="head-effects")
    wall.toggle(None, None, off, js=HEADS_OFF)      # the user switched a head
    off.change(None, off, None, js=SET_HEADS)       # a URL or a button changed the heads
    wall.toggle(handler, [off, ...], ..., js=WITH_HEADS)    # handler(text, ...)

A handler returns a `Drawn`, or a message if there is nothing to draw. The payload:

    {"name": str, "change": (L, H), "probability": (L, H), "words": str, "off": str}
"""

from dataclasses import dataclass

from vitdemo.inside.head_ablation import Effects
from vitdemo.page.components import Drawing

HEADS_OFF = "() => vitdemo.headsOff"
SET_HEADS = "(text) => document.dispatchEvent(new CustomEvent('vitdemo:heads', {detail: text}))"
# The last of several quick clicks sends the result of all of them.
WITH_HEADS = "(_, ...values) => [vitdemo.headsOff, ...values]"
DIGITS = 7  # of a change, so that the browser rounds to the same hundredths as Python


@dataclass(frozen=True, eq=False)
class Drawn:
    """Effects with a caption, and the initial heads that are off, as text."""

    effects: Effects
    words: str
    off: str = ""


class HeadWall(Drawing):
    """Grid of head switches, see the module. Its event: `toggle`."""

    def drawn(self, value: Drawn) -> dict:
        found = value.effects
        return {
            "name": found.run.classes[found.target],
            "change": found.logit_change.astype(float).round(DIGITS).tolist(),
            "probability": found.probability_change.astype(float).round(DIGITS).tolist(),
            "words": value.words,
            "off": value.off,
        }
