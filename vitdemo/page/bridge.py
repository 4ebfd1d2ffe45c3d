"""Requests of the browser for the data of its views, and the responses.

`store.js` holds the view state: the image, the model and the layer. If visible views show another
state, the store sends one event with the current state and the names of these views. The bridge
responds with one payload per view:

    {"id": int, "views": {name: {"key": str, "data": dict} or {"key": str, "error": str}}}

A payload function takes an `AppContext` and a `ViewState`, and returns JSON data. An `ImageFile` in
the data becomes a file. The store ignores a response whose key is no longer current.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import gradio as gr
import numpy as np
import torch
from gradio.data_classes import FileData
from gradio.events import EventListener
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.errors import ImageError, VitdemoError
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.page.components import event_payload, serialise_payload, serve_image, serve_numbers
from vitdemo.page.components.article import DocumentBlock, blocks_to_json
from vitdemo.page.components.picture import ImageRequest, parse_image_fields
from vitdemo.page.image_sources import crop_to_square, load_requested_image
from vitdemo.page.kit import MODEL_EVENT

MAX_NAME_LENGTH = 300  # maximum number of characters of a model's name in a request
Payload = Callable[[AppContext, "ViewState"], dict | list]


@dataclass(frozen=True)
class ViewState:
    """Requested image, name of the model, and the `options` of views by name (unchecked texts)."""

    image: ImageRequest | None
    model: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ImageFile:
    """Image of a payload, (height, width, 3) uint8, which the browser receives as a file."""

    pixels: np.ndarray


@dataclass(frozen=True, eq=False)
class NumbersFile:
    """Matrices of a payload, (P, Q), which the browser receives as a file of `matrix_file`."""

    values: np.ndarray


class Bridge(gr.HTML):
    """Hidden component that receives the browser's requests for payloads.

    Its events are `ask` (a request) and `layer` (the user chose a layer in a view).
    """

    EVENTS = (*gr.HTML.EVENTS, EventListener("ask"), EventListener("layer"))

    def __init__(self):
        super().__init__(
            html_template="<i>",
            js_on_load="vitdemo.store.connect({ trigger, watch, props });",
            apply_default_css=False,
            padding=False,
            elem_id="bridge",
        )

    def preprocess(self, payload):
        """Return None, since handlers read the request from the event."""

    def postprocess(self, value):
        return None if value is None else serialise_payload(value, self._serve)

    def _serve(self, value: ImageFile | NumbersFile) -> FileData:
        if isinstance(value, ImageFile):
            return serve_image(self, value.pixels)
        return serve_numbers(self, torch.from_numpy(value.values)[None, None])


def round_numbers(values: np.ndarray, digits: int) -> list:
    """Return `values` as nested lists of numbers with at most `digits` decimals."""
    return values.astype(float).round(digits).tolist()


def document_payload(blocks: Sequence[DocumentBlock]) -> list:
    """Return the payload of a document, which `defineDocument` of `store.js` draws."""
    return blocks_to_json(list(blocks), ImageFile)


def add_view(name: str, elem_id: str) -> gr.HTML:
    """Add the HTML element of the view `name`, which `store.js` fills."""
    return gr.HTML(
        html_template="<div>",
        js_on_load=f'vitdemo.store.mount("{name}", element);',
        apply_default_css=False,
        padding=False,
        elem_id=elem_id,
    )


def build(context: AppContext, payloads: Mapping[str, Payload]) -> Bridge:
    """Add the bridge, and connect it to the payload function of each view."""
    bridge = Bridge()

    def answer(event: gr.EventData) -> dict:
        return answer_request(context, payloads, event_payload(event))

    bridge.ask(answer, None, bridge, **MODEL_EVENT)
    return bridge


def answer_request(context: AppContext, payloads: Mapping[str, Payload], request: dict) -> dict:
    """Return the payloads for an untrusted `request` of the browser."""
    views = request.get("views")
    views = views if isinstance(views, dict) else {}
    state = request.get("state")
    results = {
        name: {"key": key, **_compute_payload(payloads[name], context, state)}
        for name, key in views.items()
        if name in payloads
    }
    return {"id": request.get("id"), "views": results}


def _compute_payload(payload: Payload, context: AppContext, state: object) -> dict:
    try:
        return {"data": payload(context, parse_view_state(state))}
    except VitdemoError as error:
        return {"error": str(error)}


def parse_view_state(fields: object) -> ViewState:
    """Parse the browser's view state. Raises `VitdemoError` if a field is invalid."""
    fields = fields if isinstance(fields, dict) else {}
    image, model = fields.get("image"), fields.get("model")
    if not isinstance(model, str) or len(model) > MAX_NAME_LENGTH:
        raise VitdemoError("The request contains no model. Reload the page.")
    options = {n: v for n, v in fields.items() if n != "model" and isinstance(v, str)}
    return ViewState(parse_image_fields(image) if isinstance(image, dict) else None, model, options)


def load_square(context: AppContext, request: ImageRequest | None) -> Image.Image:
    """Return the RGB square of an image, cached. Raises `ImageError` or `DataError`."""
    if request is None:
        raise ImageError("No image is chosen. Choose an image first.")
    return context.cache.get_or_compute(
        (load_square, request.source, request.path, request.crop_position),
        lambda: crop_to_square(load_requested_image(request, context.load_test_image)),
    )


def load_trace(context: AppContext, state: ViewState) -> ImageTrace:
    """Return the trace of the view state's image through its model. Raises `VitdemoError`."""
    return context.trace_image(context.find_run(state.model), load_square(context, state.image))
