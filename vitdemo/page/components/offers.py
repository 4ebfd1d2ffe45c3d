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

from vitdemo.page.components import View, serve_image


@dataclass(frozen=True)
class ThumbnailRow:
    """Square `images` (N, S, S, 3) uint8, with the source and the title of each."""

    images: np.ndarray
    sources: list[str]
    titles: list[str]


@dataclass(frozen=True)
class Examples:
    """All example images; `sentence` explains why there is no test image."""

    photos: ThumbnailRow | None
    tests: ThumbnailRow | None
    sentence: str = ""


class ExampleImages(View):
    """Thumbnails of example images, see the module. Its events: `ask`, `others`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))  # declared here so that `gr.on` accepts it

    def to_payload(self, value: Examples) -> dict:
        groups = {"photos": self._group(value.photos), "tests": self._group(value.tests)}
        return {**groups, "sentence": value.sentence}

    def _group(self, group: ThumbnailRow | None) -> dict | None:
        if group is None or not group.sources:
            return None
        sheet = np.concatenate(list(group.images), axis=1)  # (S, N * S, 3)
        return {
            "sources": group.sources,
            "words": group.titles,
            "sheet": serve_image(self, sheet),
        }
