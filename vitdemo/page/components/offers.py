"""Pictures to begin with, as thumbnails: photos that ship, and some of the test set.

    offers.ask(handler, ...)       # handler(event: gr.EventData, ...), see `picture.asked`
    offers.others(handler, ...)    # other test pictures are wanted

The value that reaches the script: {"photos": group, "tests": group or None, "sentence": str}, each
group {"sources": ["photo:cat", ...], "words": [...], "sheet": file}: one picture of them all, side
by side.
"""

from dataclasses import dataclass

import gradio as gr
import numpy as np
from gradio.events import EventListener

from vitdemo.page.components import Drawing, served_picture


@dataclass(frozen=True)
class Group:
    """Square `pictures` (N, S, S, 3) uint8, what each is asked for by, and its words."""

    pictures: np.ndarray
    sources: list[str]
    words: list[str]


@dataclass(frozen=True)
class Offered:
    """What there is to choose; `sentence` says why there is no test picture."""

    photos: Group | None
    tests: Group | None
    sentence: str = ""


class Offers(Drawing):
    """See the module. Its events: `ask`, `others`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))  # listed, so that `gr.on` takes it

    def drawn(self, value: Offered) -> dict:
        groups = {"photos": self._group(value.photos), "tests": self._group(value.tests)}
        return {**groups, "sentence": value.sentence}

    def _group(self, group: Group | None) -> dict | None:
        if group is None or not group.sources:
            return None
        sheet = np.concatenate(list(group.pictures), axis=1)  # (S, N * S, 3)
        return {
            "sources": group.sources,
            "words": group.words,
            "sheet": served_picture(self, sheet),
        }
