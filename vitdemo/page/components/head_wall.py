"""A wall of heads that a person switches off and on, coloured by what each does to the answer.

    off = gr.Textbox(...)                           # "3.1 4.2": layer.head of those that are off
    wall = HeadWall(elem_id="head-effects")
    wall.toggle(None, None, off, js=HEADS_OFF)      # a head was switched
    off.change(None, off, None, js=SET_HEADS)       # by an address, or a button
    wall.toggle(handler, [off, ...], ..., js=WITH_HEADS)    # handler(text, ...)

A handler returns a `Drawn`, or a sentence that says why there is none. The value that reaches the
script:

    {"name": str, "change": (L, H), "probability": (L, H), "words": str, "off": str}
"""

from dataclasses import dataclass

from vitdemo.inside.head_ablation import Effects
from vitdemo.page.components import Drawing

HEADS_OFF = "() => vitdemo.headsOff"
SET_HEADS = "(text) => document.dispatchEvent(new CustomEvent('vitdemo:heads', {detail: text}))"
# Of quick clicks the last question reads what all of them came to.
WITH_HEADS = "(_, ...values) => [vitdemo.headsOff, ...values]"
DIGITS = 7  # of a change: hundredths of a point are to be rounded as Python rounds them


@dataclass(frozen=True, eq=False)
class Drawn:
    """Effects with the `words` above them, drawn first with the heads of the text `off` off."""

    effects: Effects
    words: str
    off: str = ""


class HeadWall(Drawing):
    """See the module. Its event: `toggle`."""

    def drawn(self, value: Drawn) -> dict:
        found = value.effects
        return {
            "name": found.run.classes[found.target],
            "change": found.logit_change.astype(float).round(DIGITS).tolist(),
            "probability": found.probability_change.astype(float).round(DIGITS).tolist(),
            "words": value.words,
            "off": value.off,
        }
