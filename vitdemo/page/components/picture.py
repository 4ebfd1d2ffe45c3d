"""The image that all models receive: its sources, and the square that the models see.

    given = ImageInput(elem_id="picture")
    given.ask(handler, ...)            # handler(event: gr.EventData, ...): `asked(event)`

A handler returns a `LoadedImage`, or a message if the file could not be shown: then the previous
image stays. The payload:

    {"picture": file, "size": [width, height], "at": 0..1, "source": "own", "photo:NAME" or
     "test:NUMBER", "path": of the user's photo or None, "words": str, "label": str | None,
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
from vitdemo.page.components import View, are_uploads, event_payload, serve_file

USER_PHOTO = "own"
PREVIEW_SIDE = 640  # pixels of the longer side in the browser


@dataclass(frozen=True)
class ImageRequest:
    """Request for an image: its `source`, the `path` of the user's photo, and the crop.

    `at` is the position of the square along the longer side, 0..1.
    """

    source: str
    path: str | None = None
    crop_position: float = 0.5


@dataclass(frozen=True)
class LoadedImage:
    """A loaded image: `whole`, uncropped, its description in `words`, and its true class."""

    request: ImageRequest
    uncropped: Image.Image
    words: str
    label: str | None = None


class ImageInput(View):
    """Image input, see the module. Its event: `ask`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))  # declared here so that `gr.on` accepts it

    def to_payload(self, value: LoadedImage) -> dict:
        content = _encode_preview(value.uncropped)
        name = f"{hashlib.blake2b(content, digest_size=12).hexdigest()}.img"
        return {
            "picture": serve_file(self, "pictures", name, lambda: content),
            "size": list(value.uncropped.size),
            "at": value.request.crop_position,
            "source": value.request.source,
            "path": value.request.path,
            "words": value.words,
            "label": value.label,
        }


def parse_image_request(event: gr.EventData) -> ImageRequest:
    """Parse the browser's request for an image, which is untrusted. Raises `ImageError`."""
    return parse_image_fields(event_payload(event))


def parse_image_fields(data: dict) -> ImageRequest:
    """Parse the untrusted fields "source", "path" and "at". Raises `ImageError`."""
    source, path, at = data.get("source"), data.get("path"), data.get("at", 0.5)
    if not isinstance(source, str) or len(source) > 200:
        raise ImageError("This image does not exist on the page. Choose another image.")
    if source != USER_PHOTO:
        return ImageRequest(source, None, clamp_fraction(at))
    if not isinstance(path, str):
        raise ImageError("The request contains no image. Choose an image.")
    if not are_uploads([path]):
        raise ImageError("This image is no longer available. Choose it again.")
    return ImageRequest(USER_PHOTO, path, clamp_fraction(at))


def clamp_fraction(value) -> float:
    """Clamp a number to 0..1; return 0.5 if it is not a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(max(float(value), 0.0), 1.0) if is_number and math.isfinite(value) else 0.5


def _encode_preview(whole: Image.Image) -> bytes:
    """Encode the image for the browser: as PNG if it is small, else as a reduced JPEG."""
    buffer = io.BytesIO()
    if max(whole.size) <= 128:
        whole.save(buffer, format="PNG")
    else:
        share = min(1.0, PREVIEW_SIDE / max(whole.size))
        size = tuple(max(round(share * side), 1) for side in whole.size)
        small = whole if share == 1 else whole.resize(size, Image.Resampling.BILINEAR)
        small.save(buffer, format="JPEG", quality=85)
    return buffer.getvalue()
