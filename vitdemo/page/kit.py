"""Helpers for several tabs: queues, permissions, error messages, downloads."""

import functools
import inspect
import ipaddress
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

import gradio as gr
import torch
from gradio.components import Component

from vitdemo.errors import JobError, VitdemoError
from vitdemo.installation import APP_NAME, TRAIN_COMMAND
from vitdemo.jobs import JobQueue
from vitdemo.page.state_key import ChoiceKey, FlagKey, NamesKey, NumberKey, StateKey

# At most one model request per core runs at a time, and their forward passes share the cores (see
# `AppContext`). gradio admits twice as many requests, since a request may wait for another request
# of its session (see `AppBlocks`) and must not block other sessions.
MAX_CONCURRENT_REQUESTS = min(4, torch.get_num_threads())
MODEL_QUEUE = {"concurrency_id": "model", "concurrency_limit": 2 * MAX_CONCURRENT_REQUESTS}
# Long computations (curves, occlusion, t-SNE) have their own queue, so they do not block clicks.
LONG_QUEUE = {"concurrency_id": "long", "concurrency_limit": 1}
# Handlers that change the state of the same session run one at a time (see `AppBlocks`), because
# each handler needs the previous result. Other sessions do not wait.
SERIAL_QUEUE = {"concurrency_id": "turns", "concurrency_limit": None}
# Queues with one running request per session, and the limit for all sessions together.
SESSION_QUEUES = {
    MODEL_QUEUE["concurrency_id"]: MAX_CONCURRENT_REQUESTS,
    SERIAL_QUEUE["concurrency_id"]: SERIAL_QUEUE["concurrency_limit"],
}
# Reading run folders is quick and needs no queue.
LIGHT_QUEUE = {"concurrency_limit": None}
# Files that the user saves. They do not wait for long computations.
SAVE_QUEUE = {"concurrency_id": "save", "concurrency_limit": MAX_CONCURRENT_REQUESTS}
NO_API = {"api_visibility": "private"}  # the event is not an API endpoint
NO_PROGRESS = {**NO_API, "show_progress": "hidden"}
# Event that refreshes a tab: of many quick clicks, only the last click is handled.
REFRESH_EVENT = {**NO_PROGRESS, "trigger_mode": "always_last", **LIGHT_QUEUE}
# Event that runs models: of several waiting requests, only the latest is handled.
MODEL_EVENT = {"trigger_mode": "always_last", **NO_PROGRESS, **MODEL_QUEUE}
JS_DOWNLOAD_BUTTON = (
    'vitdemo.load("components/download_button.js").then('
    "({ mount }) => mount(element, LABEL, NAME));"
)
NO_EVALUATION_MESSAGE = (
    "No run has been evaluated yet. A training run is evaluated when it ends. To evaluate a run "
    f"again, use `{TRAIN_COMMAND} evaluate runs/NAME`."
)
NO_TRAINED_MODEL_MESSAGE = "There is no trained model. Train one first."
NO_OTHER_MODEL_LABEL = "no other model"
TRAINING_NOT_ALLOWED_MESSAGE = (
    f"Only this computer can train models. To allow other users, start {APP_NAME} with "
    "--allow-training."
)


class Controls(dict[str, Component]):
    """Controls of gradio by the name of their state key."""

    def add(
        self, key: StateKey, component: type[Component], *arguments: object, **options: object
    ) -> Component:
        """Build and return the control of `key`; `options` override the options of the key."""
        self[key.name] = built = component(*arguments, **_control_options(key) | options)
        return built


def _control_options(key: StateKey) -> dict:
    """Return the arguments of a gradio component that shows `key`."""
    options = {"label": key.label, "elem_id": key.element_id}
    options |= {"info": key.help} if key.help else {}
    if isinstance(key, NumberKey):
        options |= {"minimum": key.low, "maximum": key.high, "step": key.step}
    if isinstance(key, ChoiceKey | NamesKey) and key.choices:
        options["choices"] = [(label, value) for value, label in key.choices.items()]
    if isinstance(key, NumberKey | ChoiceKey | FlagKey):
        options["value"] = key.start
    elif isinstance(key, NamesKey) and key.choices:
        options["value"] = [*key.start]
    return options


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


def add_download_button(label: str, elem_id: str, download: str) -> gr.HTML:
    """Add a button that saves the file of `download`, see `Feature`."""
    js = JS_DOWNLOAD_BUTTON.replace("LABEL", json.dumps(label))
    js = js.replace("NAME", json.dumps(download))
    looks = {"apply_default_css": False, "padding": False, "elem_id": elem_id}
    return gr.HTML(html_template="<div>", js_on_load=js, **looks)


def make_cache_folder(component: Component) -> Path:
    """Create a folder for files of `component` in gradio's cache, which deletes old files."""
    cache = Path(component.GRADIO_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=cache))
