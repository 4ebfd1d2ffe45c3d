"""Workarounds for gradio 6, each with its reason and the upstream issue, if there is one.

`tests/page/test_gradio_patches.py` and `tests/browser/test_plain_gradio.py` reproduce each fault
with plain gradio. If such a test fails, its workaround can be removed. The following workarounds
are in other files. Without a number, no upstream issue is known:

- `gradio_stubs.py`: gradio writes stub files, which takes half of the time of its import.
- `idle.js` ends a count of seconds that continues after the page has been loaded.
- `stream.js` wraps `fetch`, because responses to requests are lost while the stream closes.
- `gradio/accordions.js` opens accordions again that an update of their new tab has closed; the
  moment depends on the machine, so `tests/browser/test_training.py` only tests the workaround.
- `page.js` shows the page when its first data arrive, because gradio's parts move before.
- `gradio/names.js` adds accessible names of tab panels and groups.
- `newest` in `components/shared.js`: the last of several quick events has the data of the first.
- `lessons/panel/spotlight.js` repeats a click on a new accordion, because the first one is lost.
- `page.css` clips the container's overflow, since no element is sticky otherwise (gradio#7540).
- `print.css` is in the head, because gradio drops media rules for elements outside its container.
  Nested rules with `.dark` are not possible, because gradio moves `.dark` to the outer rule.
- `_frontend=False` in `cli/app.py`: the launch fails if a busy machine responds late (gradio#9817).
"""

import asyncio
import base64
import math
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr
from gradio.components import Component
from gradio.components.image import ImageData
from gradio.context import LocalContext
from gradio.exceptions import InvalidPathError
from gradio.state_holder import SessionState
from httpx import HTTPError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitdemo.data.image_files import MAX_FILE_BYTES
from vitdemo.errors import RunError

NOT_A_FILE_MESSAGE = (
    "Send the image as gradio_client.handle_file(path), not as a plain path or another value."
)
PRIVATE_ADDRESS_MESSAGE = (
    "The image's URL is not a public address. Send the image as a data URL or as "
    "gradio_client.handle_file(path)."
)
QUEUE_SECONDS = 0.01  # seconds between two checks of the queue
PROGRESS_SECONDS = 0.1  # seconds between two progress messages
_session: ContextVar[SessionState | None] = ContextVar("session", default=None)
_value_lock = threading.Lock()


class TempFileNames(set):
    """Set of names of temporary files, which gradio deletes every hour.

    gradio adds names to these sets during the iteration. gradio's cleanup then stops permanently
    with "Set changed size during iteration". gradio also keeps the names of files that other code
    has deleted. This class iterates over a copy and removes the names of deleted files.
    """

    def __iter__(self):
        for name in frozenset(self):  # `frozenset` copies without a call of `__iter__`
            if os.path.lexists(name):
                yield name
            else:
                self.discard(name)


class AppBlocks(gr.Blocks):
    """`gr.Blocks` with serial requests per session, file cleanup and clear errors for images.

    Functions that handlers call can use `session_value`. In the queues of `serial_queues`, the
    requests of one session run one at a time. Each value is the maximum number of running requests
    of all sessions, or None.
    """

    def __init__(
        self, *arguments, serial_queues: Mapping[str, int | None] | None = None, **options
    ):
        super().__init__(*arguments, **options)
        self.serial_queues = serial_queues or {}
        self._session_locks = WeakKeyDictionary()  # gradio's session state -> queue -> lock
        self._semaphores = {
            queue: asyncio.Semaphore(limit) for queue, limit in self.serial_queues.items() if limit
        }

    def queue(self, *arguments, **options):
        """Check the queue less often than gradio, which checks it 1,000 times per second."""
        super().queue(*arguments, **options)
        self._queue.sleep_when_free = QUEUE_SECONDS
        self._queue.progress_update_sleep_when_free = PROGRESS_SECONDS
        return self

    def __exit__(self, *raised):
        super().__exit__(*raised)
        self.upload_file_set = TempFileNames()
        self.temp_file_sets = [self.upload_file_set]
        for block in self.blocks.values():
            if isinstance(block, Component):
                block.temp_files = TempFileNames(block.temp_files)
                self.temp_file_sets.append(block.temp_files)

    async def process_api(self, block_fn, inputs, state=None, *more, **options):
        """Run the requests of one session in `serial_queues` one at a time.

        gradio would run them at the same time. The response to an older request could then arrive
        last, and the page would show the older response.
        """
        _session.set(state)
        queue = (self.fns[block_fn] if isinstance(block_fn, int) else block_fn).concurrency_id
        async with AsyncExitStack() as turns:
            if state is not None and queue in self.serial_queues:
                locks = self._session_locks.setdefault(state, defaultdict(asyncio.Lock))
                await turns.enter_async_context(locks[queue])
            if queue in self._semaphores:
                await turns.enter_async_context(self._semaphores[queue])
            return await super().process_api(block_fn, inputs, state, *more, **options)

    async def preprocess_data(self, block_fn, inputs, state, *more, **options):
        """Prevent a memory leak, and raise clear errors for images.

        An update of a component creates a component with another id. If the component is an input,
        gradio stores the new component under both ids, for each update and session.
        """
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
        except ValueError as error:  # gradio does not open an address of the server's own network
            if not any(images):
                raise
            raise gr.Error(PRIVATE_ADDRESS_MESSAGE, print_exception=False) from error


def check_uploaded_file(value: object) -> None:
    """Raise `gr.Error` unless `value`, which a script sent as an image, is an upload or None.

    gradio would only respond "An error occurred".
    """
    if value is None or isinstance(value, ImageData):
        return
    meta = value.get("meta") if isinstance(value, dict) else None
    is_file = isinstance(meta, dict) and meta.get("_type") == "gradio.FileData"
    places = [value.get(key) for key in ("path", "url")] if is_file else []
    if not any(places) or not all(isinstance(place, str | None) for place in places):
        raise gr.Error(NOT_A_FILE_MESSAGE, print_exception=False)


class PageCompression:
    """ASGI middleware that compresses the page and its config to about an eighth of their size.

    gradio compresses only files with a known suffix, so each visit would transfer 490 kB.
    """

    def __init__(self, app: ASGIApp):
        self.app, self.compressed = app, GZipMiddleware(app, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["path"].rpartition("/")[2] in ("", "config")
        await (self.compressed if is_page else self.app)(scope, receive, send)


class EndedSessions:
    """ASGI middleware that ends the response stream of an unknown session without an exception.

    A browser may request such a stream if the server was restarted or the session has ended.
    gradio sends an error message, and then raises an exception, which breaks the connection and
    fills the log (gradio#9169).
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except RuntimeError as error:  # of starlette, because the response has started
            cause = error.__cause__
            if not (isinstance(cause, HTTPException) and scope["path"].endswith("/queue/data")):
                raise
            await send({"type": "http.response.body", "body": b""})


class HeadContent:
    """ASGI middleware that adds `content` to the head of the page's document.

    gradio's client adds the argument `head` of `Blocks.launch` only after its modules have run.
    """

    def __init__(self, app: ASGIApp, content: str):
        self.app, self.content = app, content.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].endswith("/"):
            return await self.app(scope, receive, send)
        start = None  # start message of a document, until the first part arrives

        async def send_extended(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                kind = Headers(scope=message).get("content-type", "")
                if kind.startswith("text/html"):
                    start = message
                    return
            if start is not None:
                body = message["body"].replace(b"<head>", b"<head>" + self.content, 1)
                headers = MutableHeaders(scope=start)
                if "content-length" in headers:
                    length = int(headers["content-length"]) + len(body) - len(message["body"])
                    headers["content-length"] = str(length)
                await send(start)
                start, message = None, {**message, "body": body}
            await send(message)

        await self.app(scope, receive, send_extended)


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
            self.temp_files.add(path)  # gradio later deletes the file, like an upload
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

    `gr.Dropdown` rejects a value that is not a choice (gradio-app/gradio#12246). After a change to
    a model with other classes, the browser may still send a class of the previous model. The
    handler must check the value.
    """

    is_template = True

    def preprocess(self, payload) -> str | None:
        return payload if isinstance(payload, str) else None


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
    """Return the request of the current event, or None outside an event.

    gradio passes the request only to handlers with a parameter of type `gr.Request`, but functions
    that are called by a handler need it.
    """
    return LocalContext.request.get(None)


def session_id() -> str | None:
    """Return the session id of the current event, or None outside an event."""
    return getattr(current_request(), "session_hash", None)


def session_value(component: gr.State) -> Any:
    """Return the value of `component` in the current session, and restart its time to live.

    gradio passes the value only to events with `component` as an input, but each payload, action
    and task of bridge.py needs it. Simultaneous first events of a session get the same value, while
    gradio would create a value for each thread. Raises `RunError` outside a session.
    """
    if (session := _session.get()) is None:
        raise RunError("This action needs a browser session. Reload the page and try again.")
    with _value_lock:
        value = session[component._id]
        session[component._id] = value  # only writing restarts the time to live
    return value
