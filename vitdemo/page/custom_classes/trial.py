"""Predictions of the user's classifier for new images, from the camera or from a file.

The payload:

    {"model": name of the classifier or "", "is_current": whether it was trained on the present
     images, "shares": [[class, probability], ...] of the last image, highest probability first}
"""

import base64
import binascii
import tempfile
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from vitdemo.context import AppContext
from vitdemo.custom_classes import classify_image
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.errors import DataError
from vitdemo.page.components import are_uploads
from vitdemo.page.custom_classes.session import TRIAL_VIEW, CustomClassesSession

JPEG_PREFIX = "data:image/jpeg;base64,"
MAX_PHOTO_CHARACTERS = 500_000  # maximum length of a camera photo in base64
NO_IMAGE_MESSAGE = "The image was not received. Choose it again, or reload the page."


def payload(session: CustomClassesSession) -> dict:
    folder = session.probe_folder if session.probe else None
    return {
        "model": folder.name if folder else "",
        "is_current": session.is_probe_current,
        "shares": [[name, round(share, 4)] for name, share in session.shares],
    }


def predict(
    context: AppContext, session: CustomClassesSession, fields: Mapping[str, object]
) -> list[str]:
    """Predict the class of an image from the browser. An action of the bridge.

    The image is in the field "photo" (a JPEG as a data URL) or "path" (the path of an upload).
    Raises `VitdemoError` if there is no classifier, or if the image cannot be read.
    """
    probe, image = session.require_probe(), read_browser_image(fields)
    shares = classify_image(context, probe, crop_visible_square(image))  # (C,)
    named = zip(probe.classes, shares.tolist(), strict=True)
    session.shares = tuple(sorted(named, key=lambda item: -item[1]))
    return [TRIAL_VIEW]


def read_browser_image(fields: Mapping[str, object]) -> Image.Image:
    """Read the image of an untrusted request. Raises `DataError` or `ImageError`."""
    photo, path = fields.get("photo"), fields.get("path")
    if isinstance(path, str) and are_uploads([path]):
        return load_image(path)
    is_short = isinstance(photo, str) and len(photo) <= MAX_PHOTO_CHARACTERS
    if not is_short or not photo.startswith(JPEG_PREFIX):
        raise DataError(NO_IMAGE_MESSAGE)
    try:
        content = base64.b64decode(photo.removeprefix(JPEG_PREFIX), validate=True)
    except binascii.Error as error:
        raise DataError(NO_IMAGE_MESSAGE) from error
    with tempfile.TemporaryDirectory() as folder:  # a file gets the same checks as an upload
        file = Path(folder) / "photo.jpg"
        file.write_bytes(content)
        return load_image(file)
