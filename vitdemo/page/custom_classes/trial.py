"""Predictions of the user's classifier for new images, from the camera or from a file.

The payload:

    {"model": name of the classifier or "", "is_current": whether it was trained on the present
     images, "shares": [[class, probability], ...] of the last image, highest probability first,
     "map": {"seen": file, "values": [[...], ...], "signed": bool, "caption": str}
     of the last image, or None}

After a class of the classifier was deleted, there is no prediction to show.

The state key `OWN_MAP` chooses the map: attention, or the map of the predicted class.
"""

import base64
import binascii
import tempfile
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from vitdemo.context import AppContext
from vitdemo.custom_classes import ProbePrediction, classify_image
from vitdemo.data.image_files import crop_visible_square, load_image
from vitdemo.errors import DataError
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, round_numbers
from vitdemo.page.components import are_uploads
from vitdemo.page.custom_classes.session import TRIAL_VIEW, CustomClassesSession
from vitdemo.page.view_state import ViewState

JPEG_PREFIX = "data:image/jpeg;base64,"
MAX_PHOTO_CHARACTERS = 500_000  # maximum length of a camera photo in base64
MAP_DIGITS = 6
CLASS_CAPTION = (
    "{method} for {name}, from your classifier on the features of {base}. {signs}A bright patch is "
    "not proof that the classifier needs it."
)
SIGNS_TEXT = "Orange supports the class, purple opposes it. "
MEAN_CAPTION = "Attention of {reader} in layer {layer} of {layers}, mean of the heads. "
ROLLOUT_CAPTION = "Attention rollout of {reader}, layers 1 to {layer}. "
ATTENTION_LIMIT = "It comes from {base} and is the same for every class."
NO_IMAGE_MESSAGE = "The image was not received. Choose it again, or reload the page."


def payload(session: CustomClassesSession) -> dict:
    folder = session.probe_folder if session.probe else None
    prediction = session.prediction if session.has_probe_classes else None
    return {
        "model": folder.name if folder else "",
        "is_current": session.is_probe_current,
        "shares": list_shares(prediction),
        "map": describe_map(prediction) if prediction else None,
    }


def list_shares(prediction: ProbePrediction | None) -> list[list]:
    """Return classes with probabilities, the highest probability first."""
    if prediction is None:
        return []
    named = zip(prediction.probe.classes, prediction.probabilities.tolist(), strict=True)
    return [[name, round(share, 4)] for name, share in sorted(named, key=lambda item: -item[1])]


def describe_map(prediction: ProbePrediction) -> dict:
    method, trace, base = prediction.method, prediction.trace, prediction.probe.base.name
    is_signed = method is not None and method.is_signed
    if method:
        signs = SIGNS_TEXT if is_signed else ""
        caption = CLASS_CAPTION.format(
            method=method.title, name=prediction.predicted, base=base, signs=signs
        )
    else:
        text = MEAN_CAPTION if prediction.source == "mean" else ROLLOUT_CAPTION
        text = text.format(
            reader=trace.reader_name, layer=prediction.layer, layers=trace.num_layers
        )
        caption = text + ATTENTION_LIMIT.format(base=base)
    return {
        "seen": ImageFile(trace.input_image, exact=False),
        "values": round_numbers(prediction.values, MAP_DIGITS),
        "signed": is_signed,
        "caption": caption,
    }


def predict(
    context: AppContext,
    state: ViewState,
    session: CustomClassesSession,
    fields: Mapping[str, object],
) -> list[str]:
    """Predict the class of an image from the browser. An action of the bridge.

    The image is in the field "photo" (a JPEG as a data URL) or "path" (the path of an upload).
    Raises `VitdemoError` if there is no classifier, or if the image cannot be read.
    """
    probe, image = session.require_probe(), read_browser_image(fields)
    explains_class = state[keys.OWN_MAP] == "class"
    square = crop_visible_square(image)
    session.prediction = classify_image(context, probe, square, explains_class=explains_class)
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
