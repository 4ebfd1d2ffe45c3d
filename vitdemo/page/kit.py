"""Helpers of several tabs: queues, components without value checks, error messages."""

import asyncio
import base64
import copy
import functools
import inspect
import ipaddress
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import gradio as gr
import torch
from gradio.components import Component
from gradio.components.image import ImageData
from gradio.context import LocalContext
from gradio.exceptions import InvalidPathError
from gradio.state_holder import SessionState
from gradio.utils import LRUCache
from httpx import HTTPError

from vitdemo.data.image_files import MAX_FILE_BYTES
from vitdemo.errors import JobError, RunError, VitdemoError
from vitdemo.jobs import JobQueue

# At most one model request per core runs at a time, and their forward passes share the cores (see
# `AppContext`). gradio admits twice as many requests, since a request may wait for another request
# of its session (see `AppBlocks`) and must not block other sessions.
MAX_CONCURRENT_REQUESTS = min(4, torch.get_num_threads())
MODEL_QUEUE = {"concurrency_id": "model", "concurrency_limit": 2 * MAX_CONCURRENT_REQUESTS}
# Computations of several seconds (curves, occlusion, t-SNE) have a queue that blocks no clicks.
LONG_QUEUE = {"concurrency_id": "long", "concurrency_limit": 1}
# Handlers that change the state of one session run one at a time, since each needs the previous
# result. Other sessions do not wait.
SERIAL_QUEUE = {"concurrency_id": "turns", "concurrency_limit": None}
SERIALIZED_QUEUES = (MODEL_QUEUE["concurrency_id"], SERIAL_QUEUE["concurrency_id"])
# Reading run folders is quick and needs no queue.
LIGHT_QUEUE = {"concurrency_limit": None}
NO_API = {"api_visibility": "private"}  # not an API endpoint
NO_PROGRESS = {**NO_API, "show_progress": "hidden"}
# Event that refreshes a tab: of many quick clicks, only the last click is handled.
REFRESH_EVENT = {**NO_PROGRESS, "trigger_mode": "always_last", **LIGHT_QUEUE}
# Event that runs models: of several waiting requests, only the latest is handled.
MODEL_EVENT = {"trigger_mode": "always_last", **NO_PROGRESS, **MODEL_QUEUE}
STATE_LIFETIME = 6 * 3600  # seconds until gradio deletes a user's choices in a State
NO_EVALUATION_MESSAGE = (
    "No run has been evaluated yet. A training run is evaluated when it ends. To evaluate a run "
    "again, use `python train.py evaluate runs/NAME`."
)
NO_OTHER_MODEL_LABEL = "no other model"
NOT_A_FILE_MESSAGE = (
    "Send the image as gradio_client.handle_file(path), not as a plain path or another value."
)
TRAINING_NOT_ALLOWED_MESSAGE = (
    "Only this computer can train models. To allow others, start app.py with --allow-training."
)
MAX_STORED_EVENTS = 2000  # more requests than can wait (app.py) or run at the same time
_session: ContextVar[SessionState | None] = ContextVar("session", default=None)


class TempFileNames(set):
    """Set of names of temporary files, which gradio deletes every hour.

    gradio adds names to these sets during the iteration. Its cleanup then stops for good with
    "Set changed size during iteration". gradio also keeps the names of deleted files. This class
    iterates over a copy and removes the names of deleted files.
    """

    def __iter__(self):
        for name in frozenset(self):  # `frozenset` copies without a call of `__iter__`
            if os.path.lexists(name):
                yield name
            else:
                self.discard(name)


class AppBlocks(gr.Blocks):
    """`gr.Blocks` with cheaper skipped outputs, file cleanup and serial requests per session.

    gradio creates a new component for each output that is `gr.skip()`. A new image has outputs for
    all sections but draws only one, and the skipped outputs took a quarter of the time. This class
    skips them without new components, and deletes old files (`TempFileNames`) and old requests. It
    runs a session's requests in the queues `SERIALIZED_QUEUES` one at a time.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._session_locks = WeakKeyDictionary()  # gradio's session state -> queue -> lock
        self._model_semaphore = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    def __exit__(self, *raised):
        super().__exit__(*raised)
        self.upload_file_set = TempFileNames()
        self.temp_file_sets = [self.upload_file_set]
        for block in self.blocks.values():
            if isinstance(block, Component):
                block.temp_files = TempFileNames(block.temp_files)
                self.temp_file_sets.append(block.temp_files)

    def queue(self, *arguments, **options):
        """Limit the number of stored events; gradio would store all events until it exits."""
        queued = super().queue(*arguments, **options)
        self._queue.event_ids_to_events = LRUCache(MAX_STORED_EVENTS)
        return queued

    async def process_api(self, block_fn, inputs, state=None, *more, **options):
        """Run the requests of one session in the queues `SERIALIZED_QUEUES` one at a time.

        Otherwise, the response to an older request could arrive last, and the page would show it.
        """
        _session.set(state)
        queue = (self.fns[block_fn] if isinstance(block_fn, int) else block_fn).concurrency_id
        async with AsyncExitStack() as turns:
            if state is not None and queue in SERIALIZED_QUEUES:
                locks = self._session_locks.setdefault(state, defaultdict(asyncio.Lock))
                await turns.enter_async_context(locks[queue])
            if queue == MODEL_QUEUE["concurrency_id"]:
                await turns.enter_async_context(self._model_semaphore)
            return await super().process_api(block_fn, inputs, state, *more, **options)

    async def preprocess_data(self, block_fn, inputs, state, *more, **options):
        """Work around a memory leak of gradio, which stores each rebuilt component of a session."""
        for block in block_fn.inputs if state else ():
            if held := state.blocks_config.blocks.get(block._id):
                held._id = block._id
        images = [isinstance(block, PathImage) for block in block_fn.inputs]
        for is_image, value in zip(images, inputs, strict=False):
            if is_image:
                check_uploaded_file(value)
        try:
            return await super().preprocess_data(block_fn, inputs, state, *more, **options)
        # a path on the server that was not uploaded, or a URL that does not respond
        except (InvalidPathError, HTTPError) as error:
            if not any(images):
                raise
            raise gr.Error(NOT_A_FILE_MESSAGE, print_exception=False) from error

    async def postprocess_data(self, block_fn, predictions, state):
        outputs = block_fn.outputs
        if not isinstance(predictions, list | tuple) or len(predictions) != len(outputs):
            return await super().postprocess_data(block_fn, predictions, state)
        kept = [i for i, value in enumerate(predictions) if not is_skip(value)]
        if len(kept) in (0, 1, len(outputs)):  # gradio passes a single value without a list
            return await super().postprocess_data(block_fn, predictions, state)
        few = copy.copy(block_fn)
        few.outputs = [outputs[i] for i in kept]
        found = await super().postprocess_data(few, [predictions[i] for i in kept], state)
        drawn = [None if block.stateful else gr.skip() for block in outputs]
        for i, value in zip(kept, found, strict=True):
            drawn[i] = value
        return drawn


def check_uploaded_file(value: object) -> None:
    """Raise `gr.Error` if `value`, sent by a script as an image, is not an uploaded file or None.

    gradio itself would only respond "An error occurred".
    """
    if value is None or isinstance(value, ImageData):
        return
    meta = value.get("meta") if isinstance(value, dict) else None
    is_file = isinstance(meta, dict) and meta.get("_type") == "gradio.FileData"
    places = [value.get(key) for key in ("path", "url")] if is_file else []
    if not any(places) or not all(isinstance(place, str | None) for place in places):
        raise gr.Error(NOT_A_FILE_MESSAGE, print_exception=False)


def is_skip(value: object) -> bool:
    return isinstance(value, dict) and len(value) == 1 and value == gr.skip()


class PathImage(gr.Image):
    """`gr.Image` that passes the path of the uploaded file to the handler.

    `gr.Image` would open the file with Pillow without our checks, and would not check data URLs and
    `.gif` files. With this class, handlers load every upload with `load_image`.
    """

    is_template = True  # the browser draws this class like `gr.Image`

    def preprocess(self, payload) -> str | None:
        if payload is None:
            return None
        if payload.url and payload.url.startswith("data:"):
            path = _save_data_url(payload.url, self.GRADIO_CACHE)
            self.temp_files.add(path)  # so that gradio deletes the file later, like an upload
            return path
        return payload.path


class UncheckedSlider(gr.Slider):
    """`gr.Slider` that passes the browser's value to the handler without a range check.

    `gr.Slider` rejects a value above the maximum. After a change to a model with fewer layers, the
    browser may still send a layer of the deeper model. The handler must clamp the value.
    """

    is_template = True

    def preprocess(self, payload) -> float | None:
        """Return `payload` if it is a finite number, else None."""
        is_number = isinstance(payload, int | float) and not isinstance(payload, bool)
        return payload if is_number and math.isfinite(payload) else None


class UncheckedDropdown(gr.Dropdown):
    """`gr.Dropdown` that passes the browser's value to the handler without a check.

    `gr.Dropdown` rejects a value that is not a choice. After a change to a model with other
    classes, the browser may still send a class of the previous model. The handler must check it.
    """

    is_template = True

    def preprocess(self, payload) -> str | None:
        return payload if isinstance(payload, str) else None


class UncheckedRadio(gr.Radio):
    """`gr.Radio` that passes the browser's value to the handler, see `UncheckedDropdown`."""

    is_template = True
    preprocess = UncheckedDropdown.preprocess


def _save_data_url(url: str, folder: str) -> str:
    if len(url) > 4 * MAX_FILE_BYTES // 3 + 1000:
        raise gr.Error("The image is too large. Choose a smaller image.", print_exception=False)
    try:
        content = base64.b64decode(url.partition(",")[2], validate=True)
    except ValueError as error:
        raise gr.Error(
            "The image's data URL is not valid base64.", print_exception=False
        ) from error
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".upload", delete=False) as file:
        file.write(content)
    return file.name


def current_request() -> gr.Request | None:
    """Return the request of the current event, or None outside an event."""
    return LocalContext.request.get(None)


def session_id() -> str | None:
    """Return the session id of the current event, or None outside an event."""
    return getattr(current_request(), "session_hash", None)


def session_value(component: gr.State) -> Any:
    """Return the value of `component` in the current session, and restart its time to live.

    Unlike an input of an event, the value is available in each payload, action and task of
    bridge.py. Raises `RunError` outside a session.
    """
    if (session := _session.get()) is None:
        raise RunError("This action needs a browser session. Reload the page and try again.")
    value = session[component._id]
    session[component._id] = value
    return value


def is_local_request(request: gr.Request | None) -> bool:
    """Return whether the request comes from this computer, without a proxy.

    A proxy without forwarding headers is detected by a Host or Origin that is not local.
    """
    if request is None:
        return False
    headers = {name.lower(): value for name, value in request.headers.items()}
    forwarded = any(name.startswith(("x-forwarded", "forwarded")) for name in headers)
    named = [f"//{headers.get('host', '')}", *filter(None, [headers.get("origin")])]
    hosts = [urlsplit(address).hostname or "" for address in named]
    client = request.client.host if request.client else ""
    return not forwarded and all(map(is_loopback_host, [client, *hosts]))


def check_training_allowed(jobs: JobQueue, request: gr.Request) -> None:
    """Raise `JobError` if only this computer may train and the request comes from elsewhere."""
    if not jobs.for_all and not is_local_request(request):
        raise JobError(TRAINING_NOT_ALLOWED_MESSAGE)


def is_loopback_host(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def show_user_errors(handler: Callable) -> Callable:
    """Wrap a handler to show a `VitdemoError` as a message and leave the outputs unchanged."""

    @functools.wraps(handler)
    def wrapped(*args):
        with _as_gradio_error():
            return handler(*args)

    @functools.wraps(handler)
    def generator(*args):
        with _as_gradio_error():
            yield from handler(*args)

    return generator if inspect.isgeneratorfunction(handler) else wrapped


@contextmanager
def _as_gradio_error() -> Iterator[None]:
    try:
        yield
    except VitdemoError as error:
        # The message is rendered as HTML, so file names and train/<class>/ need escaping.
        words = escape(str(error), quote=False)
        raise gr.Error(words, duration=8, print_exception=False) from error


def add_download_button(
    label: str, elem_id: str, make: Callable[..., str], inputs: Sequence, queue: dict
) -> gr.Button:
    """Add a download button; `make(folder, *inputs)` writes the file and returns its path."""
    button = gr.Button(label, size="sm", elem_id=elem_id)
    made = gr.DownloadButton(visible="hidden", elem_id=f"{elem_id}-file")
    click = f"() => document.querySelector('#{elem_id}-file').click()"

    def written(*values) -> str:
        return make(make_cache_folder(made), *values)

    ready = button.click(show_user_errors(written), inputs, made, **NO_API, **queue)
    ready.success(None, js=click, **NO_API)
    return button


def make_cache_folder(component: Component) -> Path:
    """Create a folder for files of `component` in gradio's cache, which deletes old files."""
    cache = Path(component.GRADIO_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=cache))


def clamp_layer(layer: float, layers: int) -> int:
    """Clamp the value of a layer slider to 1..`layers`."""
    return min(max(round(layer or 1), 1), layers)
