"""The picture that all models answer, its ways in, and the square of it that the models see.

    given = Picture(elem_id="picture")
    given.ask(handler, ...)            # handler(event: gr.EventData, ...): `asked(event)`

A handler returns a `Shown`, or a sentence where the file could not be shown: the picture before
stays then. The value that reaches the script:

    {"picture": file, "size": [width, height], "at": 0..1, "source": "own", "photo:NAME" or
     "test:NUMBER", "path": of an own one or None, "words": str, "label": str | None,
     "sentence": str | None}
"""

import hashlib
import io
import math
from dataclasses import dataclass

import gradio as gr
from gradio.events import EventListener
from PIL import Image

from vitdemo.errors import ImageError
from vitdemo.page.components import Drawing, are_uploads, sent, served

OWN = "own"
PREVIEW = 640  # pixels of the longer side that the browser shows


@dataclass(frozen=True)
class Asked:
    """Which picture the browser asks for: its `source`, a `path` of an own one, and where the
    square stands along its longer side, `at` 0..1."""

    source: str
    path: str | None = None
    at: float = 0.5


@dataclass(frozen=True)
class Shown:
    """A picture that was opened, `whole` as it was given, in `words`; `label` is its true class."""

    asked: Asked
    whole: Image.Image
    words: str
    label: str | None = None


class Picture(Drawing):
    """See the module. Its event: `ask`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))  # listed, so that `gr.on` takes it

    def drawn(self, value: Shown) -> dict:
        content = _encoded(value.whole)
        name = f"{hashlib.blake2b(content, digest_size=12).hexdigest()}.img"
        return {
            "picture": served(self, "pictures", name, lambda: content),
            "size": list(value.whole.size),
            "at": value.asked.at,
            "source": value.asked.source,
            "path": value.asked.path,
            "words": value.words,
            "label": value.label,
        }


def asked(event: gr.EventData) -> Asked:
    """What a browser asks for, as hostile as a file. Raises `ImageError`."""
    data = sent(event)
    source, path, at = data.get("source"), data.get("path"), data.get("at", 0.5)
    if not isinstance(source, str) or len(source) > 200:
        raise ImageError("That is no picture of this page: choose one.")
    if source != OWN:
        return Asked(source, None, share(at))
    if not isinstance(path, str):
        raise ImageError("No picture was sent: choose one.")
    if not are_uploads([path]):
        raise ImageError("That picture is no longer here: choose it again.")
    return Asked(OWN, path, share(at))


def share(value) -> float:
    """A number within 0..1; 0.5 for what is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(max(float(value), 0.0), 1.0) if is_number and math.isfinite(value) else 0.5


def _encoded(whole: Image.Image) -> bytes:
    """For the browser: exact while small, else a JPEG of `PREVIEW` pixels."""
    buffer = io.BytesIO()
    if max(whole.size) <= 128:
        whole.save(buffer, format="PNG")
    else:
        share = min(1.0, PREVIEW / max(whole.size))
        size = tuple(max(round(share * side), 1) for side in whole.size)
        small = whole if share == 1 else whole.resize(size, Image.Resampling.BILINEAR)
        small.save(buffer, format="JPEG", quality=85)
    return buffer.getvalue()
