"""Example images as thumbnails: included photos, and some test images.

    offers.ask(handler, ...)       # handler(event: gr.EventData, ...), see `picture.asked`
    offers.others(handler, ...)    # the user wants other test images

The payload is {"photos": group, "tests": group or None, "sentence": str}. Each group is
{"sources": ["photo:cat", ...], "words": [...], "sheet": file}; the sheet shows all its images next
to each other.
"""

from dataclasses import dataclass

import gradio as gr
import numpy as np
from gradio.events import EventListener

from vitdemo.page.components import Drawing, served_picture


@dataclass(frozen=True)
class Group:
    """Square `pictures` (N, S, S, 3) uint8, with the source and the title of each."""

    pictures: np.ndarray
    sources: list[str]
    words: list[str]


@dataclass(frozen=True)
class Offered:
    """All example images; `sentence` explains why there is no test image."""

    photos: Group | None
    tests: Group | None
    sentence: str = ""


class Offers(Drawing):
    """Thumbnails of example images, see the module. Its events: `ask`, `others`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))  # declared here so that `gr.on` accepts it

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
