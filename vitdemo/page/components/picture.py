"""Input of the image that all models receive, from several sources and with a square crop.

    given = ImageInput(elem_id="picture")
    given.ask(handler, ...)            # handler(event: gr.EventData, ...)

A handler reads the event with `parse_image_request`. It returns a `LoadedImage`, or an error
message; then the previous image stays. The payload:

    {"picture": file, "size": [width, height], "at": 0..1, "source": "own", "photo:NAME" or
     "test:NUMBER", "path": path of the user's photo or None, "words": str, "label": str | None,
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
PREVIEW_SIDE = 640  # maximum length of the longer side in the browser, in pixels


@dataclass(frozen=True)
class ImageRequest:
    """Request for an image: its `source`, the `path` of the user's photo, and the crop.

    `crop_position` is the position of the square along the longer side, 0 to 1.
    """

    source: str
    path: str | None = None
    crop_position: float = 0.5


@dataclass(frozen=True)
class LoadedImage:
    """Loaded image before cropping, with a description `words` and the true class if known."""

    request: ImageRequest
    uncropped: Image.Image
    words: str
    label: str | None = None


class ImageInput(View):
    """Image input; the event `ask` means that the user chose an image or moved the square."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"))  # `gr.on` reads this list

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
    """Parse an untrusted request for an image. Raises `ImageError` if it is invalid."""
    return parse_image_fields(event_payload(event))


def parse_image_fields(data: dict) -> ImageRequest:
    """Parse the untrusted fields of an image request. Raises `ImageError` if one is invalid."""
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
    """Clamp a number to the range 0 to 1; return 0.5 for any other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(max(float(value), 0.0), 1.0) if is_number and math.isfinite(value) else 0.5


def _encode_preview(whole: Image.Image) -> bytes:
    """Encode the image for the browser, as PNG if it is small, else as a downscaled JPEG."""
    buffer = io.BytesIO()
    if max(whole.size) <= 128:
        whole.save(buffer, format="PNG")
    else:
        share = min(1.0, PREVIEW_SIDE / max(whole.size))
        size = tuple(max(round(share * side), 1) for side in whole.size)
        small = whole if share == 1 else whole.resize(size, Image.Resampling.BILINEAR)
        small.save(buffer, format="JPEG", quality=85)
    return buffer.getvalue()
