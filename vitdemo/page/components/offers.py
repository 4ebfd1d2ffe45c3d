"""Example images as thumbnails: included photos, and some test images.

    offers.others(handler, ...)    # the user wants other test images

The payload is {"photos": group, "tests": group or None, "sentence": str}. Each group is
{"sources": ["photo:cat", ...], "words": [...], "sheet": file}. The sheet contains the images of the
group in one row.
"""

from dataclasses import dataclass

import gradio as gr
import numpy as np
from gradio.events import EventListener

from vitdemo.page.components import View, serve_image

TEXTS = {
    "photos": "Photos",
    "test_images": "Test images",
    "show_others": "Show other images",
}


@dataclass(frozen=True)
class ThumbnailRow:
    """Row of square `images` (N, S, S, 3) uint8, with a source and a title per image."""

    images: np.ndarray
    sources: list[str]
    titles: list[str]


@dataclass(frozen=True)
class Examples:
    """Example images; if there are no test images, `sentence` is the reason."""

    photos: ThumbnailRow | None
    tests: ThumbnailRow | None
    sentence: str = ""


class ExampleImages(View):
    """Example images; for the event `others`, see the module docstring."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("others"))

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
