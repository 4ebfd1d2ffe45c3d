"""Requests of the browser for the data of its views, and the responses.

`store.js` holds the view state: the image, the model and the layer. If visible views need new data,
the store sends one event with the current state and the names of these views. The bridge responds
with one payload per view:

    {"id": int, "models": the models if they have changed, "model": layers of the chosen model,
     "views": {name: {"key": str, "data": dict} or {"key": str, "error": str}}}

A payload function takes an `AppContext` and a `ViewState`, and returns JSON data. The decorator
`view_state.needs` declares the state keys that the function reads. An `ImageFile` in the data
becomes a file. The view shows the message of a `VitdemoError`. The store ignores responses with an
old key.

A long computation is a task: a function of an `AppContext`, a `ViewState` and a function
`report(done, total, text)`. The bridge sends progress messages, and a last message with the result:

    {"id": int, "done": int, "total": int, "text": str}
    {"id": int, "end": True, "data": JSON and files, "error": str or None}

A short change of the user's data on the server is an action: a function of an `AppContext`, a
`ViewState` and the action's arguments. An action returns the names of the changed views, and the
bridge responds with their payloads:

    {"id": int, "views": {name: {"data": dict} or {"error": str}}, "error": str or None}

A download is a function of an `AppContext`, a `ViewState` and an empty folder. It writes a file
there and returns its path. A download cancels no task:

    {"id": int, "name": str, "file": file, "error": str or None}
"""

import contextvars
import json
import logging
import queue
import secrets
import tempfile
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
from gradio.components import Component
from gradio.events import EventListener
from gradio.utils import LRUCache
from PIL import Image

from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.cache import make_key
from vitdemo.context import AppContext
from vitdemo.data.perturb.changes import RemovedPatches
from vitdemo.documents import DocumentBlock
from vitdemo.documents.payload import blocks_to_json
from vitdemo.errors import ImageError, RunError, Stopped, VitdemoError
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.models import count_parameters
from vitdemo.page.components import CachedFile as CachedFile
from vitdemo.page.components import ImageFile, event_payload, serialise_payload, serve_file
from vitdemo.page.components import NumbersFile as NumbersFile
from vitdemo.page.components.run_choice import group_runs
from vitdemo.page.feature import (
    Action,
    Download,
    Feature,
    PageSetup,
    Payload,
    Task,
    ViewData,
    merge_features,
)
from vitdemo.page.gradio_patches import session_id
from vitdemo.page.graph import (
    Choice,
    Constant,
    Hidden,
    Inserted,
    Matrices,
    Output,
    Outputs,
    Patches,
    Pixels,
    Positions,
)
from vitdemo.page.image_sources import (
    ImageRequest,
    PreparedImage,
    get_truth_task,
    prepare_image,
)
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    LONG_QUEUE,
    MODEL_EVENT,
    NO_PROGRESS,
    SAVE_QUEUE,
    SERIAL_QUEUE,
)
from vitdemo.page.state_key import NOT_CHOSEN, NamesKey, StateKey
from vitdemo.page.state_keys import LAYER, STATE_KEYS
from vitdemo.page.view_state import ViewState, get_needs, parse_view_state
from vitdemo.runs import Run
from vitdemo.test_sets.context import load_test_image

# Above this size, hundreds of passes take more than about ten seconds on a CPU core.
MAX_QUICK_PARAMETERS = 10_000_000
MAX_CANCELLED = 2000  # remembered tasks: more than can wait (app.py) or run at the same time
JS_CONNECT = (
    "vitdemo.loaded.then(({ store }) => store.connect({ trigger, watch, props }, DESCRIPTION));"
)
JS_CONNECT_TASKS = "vitdemo.loaded.then(({ store }) => store.connectTasks({ watch, props }));"
JS_CONNECT_ACTIONS = "vitdemo.loaded.then(({ store }) => store.connectActions({ watch, props }));"
JS_CONNECT_DOWNLOADS = (
    "vitdemo.loaded.then(({ store }) => store.connectDownloads({ watch, props }));"
)
# gradio recognises an event by its quoted name.
JS_MOUNT = (
    "vitdemo.loaded.then(({ store }) => "
    "store.mount(NAME, element, { upload, trigger, events: EVENTS }));"
)
# An empty field has the initial value of its control.
JS_SET_STATE = (
    "value => vitdemo.loaded.then(({ controls }) => controls.takeInput(NAME, value ?? INITIAL))"
)
JS_UPDATE_CONTROLS = "() => vitdemo.controls.takeUpdates(NAMES)"
TRUTH_GROUP = "Ground truth"  # label in the menu of models
UNEXPECTED_ERROR_MESSAGE = "An unexpected error occurred. The log of the server has the details."
LOGGER = logging.getLogger(__name__)


class Channel(gr.HTML):
    """Hidden component that `js` connects to the store, for example to receive payloads."""

    def __init__(self, js: str, elem_id: str):
        super().__init__(
            html_template="<i>",
            js_on_load=js,
            apply_default_css=False,
            padding=False,
            elem_id=elem_id,
        )

    def postprocess(self, value: dict | None) -> dict | None:
        """Return `value` unchanged, because handlers return a result of `serialise`.

        gradio calls this method in its event loop, where writing files would delay all other users.
        """
        return value

    def serialise(self, value: dict) -> dict:
        """Write the files of a response, and return the value that the browser receives."""
        return serialise_payload(value, partial(serve_file, self))


class Bridge(Channel):
    """Hidden component that sends the browser's requests, and receives the data of views.

    The events `ask`, `act`, `start` and `save` begin a request, an action, a task and a download.
    `cancel` stops a task or an outdated request, and `controls` sends updates of controls.
    """

    EVENTS = (
        *gr.HTML.EVENTS,
        *map(EventListener, ("ask", "act", "start", "save", "cancel", "controls")),
    )

    responder: "Responder"  # not an argument, since gradio copies the arguments of components

    def __init__(
        self,
        descriptions: Mapping[str, dict] | None = None,
        needs: Mapping[str, Sequence[str]] | None = None,
    ):
        self.descriptions, self.needs = descriptions or {}, needs or {}
        self.shown: dict[str, Component] = {}  # components that the store updates but never reads
        description = json.dumps(self.description)
        super().__init__(JS_CONNECT.replace("DESCRIPTION", description), "bridge")

    @property
    def description(self) -> dict:
        """Return the controls and the needs of views, as `store.connect` takes them."""
        return {"controls": self.descriptions, "needs": self.needs}

    def preprocess(self, payload):
        """Return None, since handlers read the request from the event."""


def round_numbers(values: np.ndarray, digits: int) -> list:
    """Return `values` as nested lists of numbers with at most `digits` decimals."""
    return values.astype(float).round(digits).tolist()


def fill(data: dict, outputs: Outputs) -> dict:
    """Write `outputs` into `data` by their paths, as `own_images.js` does, and return `data`."""
    for path, output in outputs.items():
        if isinstance(output, Hidden):
            continue
        *parents, last = path.split(".")
        place: Any = data
        for name in parents:
            place = place[int(name) if isinstance(place, list) else name]
        if isinstance(output, Inserted):
            place.insert(int(last), dict(output.value))
        else:
            place[int(last) if isinstance(place, list) else last] = convert_output(output)
    return data


def convert_output(output: Output) -> object:
    """Return the part of a payload for an output of a function of tensors."""
    if isinstance(output, Constant):
        return output.value
    is_float = output.values.is_floating_point()
    values = (output.values.float() if is_float else output.values).cpu().numpy()
    if isinstance(output, Pixels):
        return ImageFile(np.ascontiguousarray(values.transpose(1, 2, 0)))
    if isinstance(output, Matrices):
        return NumbersFile(values, output.exact)
    if isinstance(output, Patches):
        return RemovedPatches(values.shape, tuple(np.flatnonzero(values).tolist())).encode
    if isinstance(output, Positions):
        return (np.argwhere(values) + 1).tolist()
    if isinstance(output, Choice):
        chosen = [output.choices[i] for i in values.flatten().tolist() if i >= 0]
        return chosen if values.ndim else chosen[0]
    if not is_float:
        return values.tolist()
    return round_numbers(values[~np.isnan(values)] if values.ndim == 1 else values, output.digits)


def document_payload(blocks: Sequence[DocumentBlock]) -> list:
    """Return the payload of a document, for `defineDocument` of `components/documents.js`."""
    return blocks_to_json(list(blocks), ImageFile)


def add_view(name: str, elem_id: str, events: Sequence[str] = ()) -> gr.HTML:
    """Add the HTML element of the view `name`, which `store.js` fills.

    The script of the view triggers `events`, whose listeners are methods of the result.
    """
    element = gr.HTML(
        html_template="<div>",
        js_on_load=JS_MOUNT.replace("NAME", json.dumps(name)).replace("EVENTS", json.dumps(events)),
        apply_default_css=False,
        padding=False,
        elem_id=elem_id,
    )
    element.view_name = name
    return element


def list_places(page: gr.Blocks) -> dict[str, str]:
    """Return element id -> name of the view, for all views of `page`."""
    blocks = page.blocks.values()
    return {each.elem_id: each.view_name for each in blocks if hasattr(each, "view_name")}


def build(setup: PageSetup, features: Sequence[Feature]) -> Bridge:
    """Add the bridge, and connect it to the functions of `features` and to the controls of `setup`.

    The value of each control is part of the view state, under its name.
    """
    controls = setup.controls
    descriptions = {
        name: describe_control(STATE_KEYS[name], each) for name, each in controls.items()
    }
    responder = Responder(setup.context, merge_features(features))
    bridge = Bridge(descriptions, responder.list_needs())
    bridge.responder = responder
    bridge.shown = dict(setup.shown)
    progress = Channel(JS_CONNECT_TASKS, "tasks")
    answers = Channel(JS_CONNECT_ACTIONS, "actions")
    files = Channel(JS_CONNECT_DOWNLOADS, "downloads")

    def answer(event: gr.EventData) -> dict:
        return bridge.serialise(responder.answer(event_payload(event)))

    def act(event: gr.EventData) -> dict:
        return answers.serialise(responder.act(event_payload(event)))

    def save(event: gr.EventData) -> dict:
        return files.serialise(responder.save(event_payload(event)))

    def run_task(event: gr.EventData) -> Iterator[dict]:
        with closing(responder.runner.run(event_payload(event))) as messages:
            for message in messages:
                yield progress.serialise(message)

    def cancel(event: gr.EventData) -> None:
        responder.runner.cancel(event_payload(event).get("id"))

    bridge.ask(answer, None, bridge, **MODEL_EVENT)
    bridge.act(act, None, answers, trigger_mode="multiple", **NO_PROGRESS, **SERIAL_QUEUE)
    bridge.start(run_task, None, progress, trigger_mode="multiple", **NO_PROGRESS, **LONG_QUEUE)
    bridge.save(save, None, files, trigger_mode="multiple", **NO_PROGRESS, **SAVE_QUEUE)
    bridge.cancel(cancel, None, None, trigger_mode="multiple", **NO_PROGRESS, **LIGHT_QUEUE)
    for name, control in controls.items():
        js = JS_SET_STATE.replace("NAME", json.dumps(name))
        js = js.replace("INITIAL", json.dumps(descriptions[name]["start"]))
        control.input(None, control, None, js=js, **NO_PROGRESS)
    updated = {**controls, **setup.shown}
    js = JS_UPDATE_CONTROLS.replace("NAMES", json.dumps(list(updated)))
    bridge.controls(None, None, [*updated.values()], js=js, **NO_PROGRESS)
    return bridge


def describe_control(key: StateKey, control: Component) -> dict:
    """Return the element id, start value and choices of a control."""
    start = key.start if control.value is None else control.value
    if isinstance(key, NamesKey):
        start = control.value or [*NOT_CHOSEN]
    described = {"element": control.elem_id, "start": start}
    if isinstance(control, gr.Dropdown | gr.Radio):
        described["choices"] = [value for _, value in control.choices]
    return described


class TaskRunner:
    """Runs the tasks of all sessions, and cancels tasks and requests."""

    def __init__(self, context: AppContext, tasks: Mapping[str, Task]):
        self.context, self.tasks = context, tasks
        self._cancelled: LRUCache[tuple, bool] = LRUCache(MAX_CANCELLED)  # (session, task id)

    def cancel(self, number: object) -> None:
        """Cancel a task of this session at its next report, or a request before its next view."""
        self._cancelled[session_id(), repr(number)] = True

    def is_cancelled(self, number: object) -> bool:
        return (session_id(), repr(number)) in self._cancelled

    def run(self, request: dict) -> Generator[dict, None, None]:
        """Run the task of an untrusted `request`; yield the messages in the module docstring."""
        number, task = request.get("id"), self.tasks.get(str(request.get("task")))
        key = (session_id(), repr(number))
        reports: queue.SimpleQueue[tuple | None] = queue.SimpleQueue()
        end = {"id": number, "end": True, "data": None, "error": None}

        def report(done: int, total: int, text: str) -> None:
            if key in self._cancelled:
                raise Stopped
            reports.put((done, total, text))

        def work() -> None:
            try:
                report(0, 1, "")
                end["data"] = task(self.context, parse_view_state(request.get("state")), report)
            except VitdemoError as error:
                end["error"] = str(error)
            except Stopped:
                pass
            finally:
                reports.put(None)

        if task is not None:
            threading.Thread(target=contextvars.copy_context().run, args=(work,)).start()
            try:
                for done, total, text in iter(partial(_take_newest, reports), None):
                    yield {"id": number, "done": done, "total": total, "text": text}
            finally:
                self._cancelled[key] = True  # gradio closes this generator if the page is closed
        yield end


def _take_newest(reports: queue.SimpleQueue[tuple | None]) -> tuple | None:
    """Wait for reports, and return the newest one; None if the task has ended.

    On a busy server, messages wait longer than the task needs for a step.
    """
    newest = reports.get()
    for _ in range(reports.qsize()):
        newest = reports.get()
    return newest


class Responder:
    """Answers the browser's requests, actions and tasks with the functions of `feature`."""

    def __init__(self, context: AppContext, feature: Feature):
        self.context, self.payloads, self.actions = context, feature.payloads, feature.actions
        self.downloads = feature.downloads
        self.runner = TaskRunner(context, feature.tasks)

    def list_needs(self) -> dict[str, list[str]]:
        """Return the names of the state keys that each view needs."""
        return {
            name: [key.name for key in get_needs(payload).watched]
            for name, payload in self.payloads.items()
        }

    def answer(self, request: dict) -> dict:
        is_outdated = partial(self.runner.is_cancelled, request.get("id"))
        return answer_request(self.context, self.payloads, request, is_outdated)

    def act(self, request: dict) -> dict:
        return run_action(self.context, self.payloads, self.actions, request)

    def save(self, request: dict) -> dict:
        return write_download(self.context, self.downloads, request)


def answer_request(
    context: AppContext,
    payloads: Mapping[str, Payload],
    request: dict,
    is_outdated: Callable[[], bool] = lambda: False,
) -> dict:
    """Return the payloads for an untrusted `request` of the browser.

    The stamp and all payloads describe the same runs. A new run changes the next stamp. When the
    request `is_outdated`, no further payload is computed.
    """
    views = request.get("views")
    views = views if isinstance(views, dict) else {}
    state = request.get("state")
    known = state.get("models") if isinstance(state, dict) else None
    with context.list_once():
        return {
            "id": request.get("id"),
            "models": list_new_models(context, known),
            "model": describe_depth(context, state),
            "views": {
                name: {"key": views[name], **_compute_payload(payload, context, state)}
                for name, payload in payloads.items()
                if name in views and not is_outdated()
            },
        }


def run_action(
    context: AppContext,
    payloads: Mapping[str, Payload],
    actions: Mapping[str, Action],
    request: dict,
) -> dict:
    """Run the action of an untrusted `request`; return the response in the module docstring."""
    answer = {"id": request.get("id"), "views": {}, "error": None}
    changed: Collection[str] = ()
    action, fields = actions.get(str(request.get("action"))), request.get("fields")
    if action is None:
        return answer
    with _note_error(answer):
        state = parse_view_state(request.get("state"))
        changed = action(context, state, fields if isinstance(fields, dict) else {})
    views = {name: _compute_payload(payloads[name], context, request["state"]) for name in changed}
    return answer | {"views": views}


def write_download(context: AppContext, downloads: Mapping[str, Download], request: dict) -> dict:
    """Write the file of an untrusted `request`; return the response in the module docstring."""
    answer = {"id": request.get("id"), "name": "", "file": None, "error": None}
    with _note_error(answer), tempfile.TemporaryDirectory() as folder:
        write = downloads[str(request.get("download"))]
        path = write(context, parse_view_state(request.get("state")), Path(folder))
        content = path.read_bytes()
        file = CachedFile(f"{secrets.token_hex(12)}/{path.name}", lambda: content)
        answer |= {"name": path.name, "file": file}
    return answer


@contextmanager
def _note_error(answer: dict) -> Iterator[None]:
    """Write the message of an error into `answer`."""
    try:
        yield
    except VitdemoError as error:
        answer["error"] = str(error)
    except Exception:
        LOGGER.exception("A request of the browser failed.")
        answer["error"] = UNEXPECTED_ERROR_MESSAGE


def list_new_models(context: AppContext, known: object) -> dict | None:
    """Return the available models and their stamp, or None if the stamp is still `known`.

    The stamp changes if a run is added, removed or trained again, or if the dataset is downloaded.
    "others" are the names of the runs that have only results. "missing" contains "weights" if no
    model can be explained, and "runs" if there are no runs.
    """
    runs = context.list_runs_and_models()[0]
    content = runs, context.is_dataset_missing()
    stamp = f"{hash(make_key(content)):x}"
    if stamp == known:
        return None
    explainable = context.explainable_runs()
    names = {run.name for run in explainable}
    others = [run.name for run in context.evaluated_runs() if run.name not in names]
    groups = {"weights": explainable, "runs": runs}
    return {
        "stamp": stamp,
        "groups": group_models(context),
        "others": others,
        "missing": [name for name, found in groups.items() if not found],
    }


def group_models(context: AppContext) -> list[tuple[str, list[str]]]:
    """Return the menu of models: the groups of all models, and then the ground truth models."""
    truth = [run.name for run in context.ground_truth_runs()]
    return [*group_runs(context.explainable_runs()), *([(TRUTH_GROUP, truth)] if truth else [])]


def list_image_runs(
    context: AppContext, image: ImageRequest | None, list_all: Callable[[], list[Run]]
) -> list[Run]:
    """Return the models for an image: those of `list_all`, or that of a ground truth image."""
    truth = get_truth_task(image)
    return [context.find_run(truth)] if truth else list_all()


def describe_depth(context: AppContext, state: object) -> dict | None:
    """Return the state's model, and the model's depth and initial layer (0 without attention)."""
    name = state.get("model") if isinstance(state, dict) else None
    try:
        run = context.find_run(name) if isinstance(name, str) else None
        layers = context.count_layers(run) if run else 0
        first = choose_first_map(context, run)[1] if layers else 0
    except VitdemoError:  # the payloads report this error
        return {"name": name, "layers": 0, "layer": 0}
    return {"name": name, "layers": layers, "layer": first}


def _compute_payload(payload: Payload, context: AppContext, state: object) -> dict:
    answer = {}
    with _note_error(answer):  # an error in one view must not block the others
        answer |= compute_view(payload, context, state)
    return answer


def compute_view(payload: Payload, context: AppContext, state: object) -> dict:
    """Return the fields of a `ViewData` for an untrusted `state`. Raises `VitdemoError`."""
    found = payload(context, parse_view_state(state).restrict(get_needs(payload)))
    return vars(found) if isinstance(found, ViewData) else {"data": found}


def load_prepared_image(context: AppContext, request: ImageRequest | None) -> PreparedImage:
    """Return crop and preview of an image, cached. Raises `ImageError` or `DataError`."""
    if request is None:
        raise ImageError("No image is chosen. Choose an image first.")
    return context.cache.get_or_compute(
        (load_prepared_image, request.source, request.path, request.crop_position),
        lambda: prepare_image(request, partial(load_test_image, context)),
    )


def load_square(context: AppContext, request: ImageRequest | None) -> Image.Image:
    """Return the RGB square of an image, cached. Raises `ImageError` or `DataError`."""
    return load_prepared_image(context, request).square


def load_trace(context: AppContext, state: ViewState) -> ImageTrace:
    """Return the trace of the view state's image through its model. Raises `VitdemoError`."""
    return context.trace_image(context.find_run(state.model), load_square(context, state.image))


def is_quick(context: AppContext, run: Run) -> bool:
    """Return whether hundreds of forward passes take seconds, so that the browser starts them."""
    is_small = count_parameters(context.load_model(run)) <= MAX_QUICK_PARAMETERS
    return is_small or context.device.type != "cpu"


def choose_layer(context: AppContext, state: ViewState, run: Run) -> int:
    """Return the chosen layer of `run`, clamped to 1..L.

    If the user chose no layer, return the layer of the map with the highest mean score. Raises
    `RunError` if the model has no attention.
    """
    layers = context.count_layers(run)
    if not layers:
        raise RunError(f"'{run.name}' has no attention. Choose a Vision Transformer.")
    chosen = min(round(state[LAYER] or 0), layers)
    return chosen or choose_first_map(context, run)[1]
