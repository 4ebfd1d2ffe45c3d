"""Grid of switches for attention heads, coloured by the effect of each head on a logit.

    off = gr.Textbox(...)                           # "3.1 4.2": layer.head of heads that are off
    wall = HeadSwitches(elem_id="head-effects")
    wall.toggle(None, None, off, js=HEADS_OFF)      # the user switched a head
    off.change(None, off, None, js=SET_HEADS)       # a URL or a button changed the heads
    wall.toggle(handler, [off, ...], ..., js=WITH_HEADS)    # handler(text, ...)

A handler returns `HeadSwitchData`, or a message if there is nothing to draw. The payload:

    {"name": str, "change": (L, H), "probability": (L, H), "words": str, "off": str}
"""

from dataclasses import dataclass

from vitdemo.analyses.head_ablation import AblationEffects
from vitdemo.page.components import View

JS_HEADS_OFF = "() => vitdemo.headsOff"
JS_SET_HEADS = "(text) => document.dispatchEvent(new CustomEvent('vitdemo:heads', {detail: text}))"
# Each click sends all heads that are off, so the last of several quick clicks is sufficient.
JS_INPUTS_WITH_HEADS = "(_, ...values) => [vitdemo.headsOff, ...values]"
EFFECT_DIGITS = 7  # decimals of a change: enough for equal rounding in the browser and in Python


@dataclass(frozen=True, eq=False)
class HeadSwitchData:
    """Effects of all heads, a caption, and the heads that are off initially, such as "3.1 4.2"."""

    effects: AblationEffects
    caption: str
    heads_off: str = ""


class HeadSwitches(View):
    """Grid of head switches; the event `toggle` means that the user switched a head."""

    def to_payload(self, value: HeadSwitchData) -> dict:
        found = value.effects
        return {
            "name": found.run.classes[found.target],
            "change": found.logit_change.astype(float).round(EFFECT_DIGITS).tolist(),
            "probability": found.probability_change.astype(float).round(EFFECT_DIGITS).tolist(),
            "words": value.caption,
            "off": value.heads_off,
        }
