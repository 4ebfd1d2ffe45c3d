"""A grid of heads that the user switches off and on, coloured by their effect on the prediction.

    off = gr.Textbox(...)                           # "3.1 4.2": layer.head of heads that are off
    wall = HeadSwitches(elem_id="head-effects")
    wall.toggle(None, None, off, js=HEADS_OFF)      # the user switched a head
    off.change(None, off, None, js=SET_HEADS)       # a URL or a button changed the heads
    wall.toggle(handler, [off, ...], ..., js=WITH_HEADS)    # handler(text, ...)

A handler returns a `HeadSwitchData`, or a message if there is nothing to draw. The payload:

    {"name": str, "change": (L, H), "probability": (L, H), "words": str, "off": str}
"""

from dataclasses import dataclass

from vitdemo.analyses.head_ablation import AblationEffects
from vitdemo.page.components import View

JS_HEADS_OFF = "() => vitdemo.headsOff"
JS_SET_HEADS = "(text) => document.dispatchEvent(new CustomEvent('vitdemo:heads', {detail: text}))"
# The last of several quick clicks sends the result of all of them.
JS_INPUTS_WITH_HEADS = "(_, ...values) => [vitdemo.headsOff, ...values]"
EFFECT_DIGITS = 7  # of a change, so that the browser rounds to the same hundredths as Python


@dataclass(frozen=True, eq=False)
class HeadSwitchData:
    """Effects with a caption, and the initial heads that are off, as text."""

    effects: AblationEffects
    caption: str
    heads_off: str = ""


class HeadSwitches(View):
    """Grid of head switches, see the module. Its event: `toggle`."""

    def to_payload(self, value: HeadSwitchData) -> dict:
        found = value.effects
        return {
            "name": found.run.classes[found.target],
            "change": found.logit_change.astype(float).round(EFFECT_DIGITS).tolist(),
            "probability": found.probability_change.astype(float).round(EFFECT_DIGITS).tolist(),
            "words": value.caption,
            "off": value.heads_off,
        }
