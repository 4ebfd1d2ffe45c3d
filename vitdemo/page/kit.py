"""What several tabs share: components that leave checks to us, choices of runs, errors."""

import asyncio
import base64
import copy
import functools
import inspect
import ipaddress
import math
import os
import re
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from html import escape
from pathlib import Path
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import gradio as gr
import torch
from gradio.components import Component
from gradio.context import LocalContext
from gradio.utils import LRUCache

from vitdemo.cache import as_key
from vitdemo.errors import Stopped, VitdemoError
from vitdemo.inputs import MAX_BYTES

# As many questions at a time as there are cores, which their passes share (see `Workbench`). gradio
# hands out twice as many: one that waits for another of its own visit (see `Page`) takes no other's
# turn, and who waits in its queue is told their place.
AT_ONCE = min(4, torch.get_num_threads())
MODEL_QUEUE = {"concurrency_id": "model", "concurrency_limit": 2 * AT_ONCE}
# Curves, occlusion, t-SNE: what takes seconds waits for its like, and blocks nobody's clicks.
LONG_QUEUE = {"concurrency_id": "long", "concurrency_limit": 1}
# What changes what a person has collected: each of their steps begins with what the last one left.
TURNS = {"concurrency_id": "turns", "concurrency_limit": None}
IN_TURN = (MODEL_QUEUE["concurrency_id"], TURNS["concurrency_id"])
# Reading run folders is quick and needs no turn.
LIGHT_QUEUE = {"concurrency_limit": None}
PRIVATE = {"api_visibility": "private"}  # no endpoint for scripts
HIDDEN = {**PRIVATE, "show_progress": "hidden"}
# A tab that redraws itself: nobody else's business, and of many clicks the last one counts.
QUIET = {**HIDDEN, "trigger_mode": "always_last", **LIGHT_QUEUE}
# A question to models: of several the last one counts.
ASKED = {"trigger_mode": "always_last", **HIDDEN, **MODEL_QUEUE}
KEPT_SECONDS = 6 * 3600  # what a person has chosen, in a State
KEPT_EVENTS = 2000  # more than may wait (app.py) or run


Choice = str | tuple[str, str]  # of a radio or a dropdown: its value, or (label, value)


class FileNames(set):
    """Names of files that gradio deletes in their time (`delete_files_created_by_app`).

    gradio goes over them while it adds others, which ends its hourly round for good with "Set
    changed size during iteration", and it keeps the names of files that are gone. Here it goes over
    a copy, and what is gone is forgotten.
    """

    def __iter__(self):
        for name in frozenset(self):  # copied at once: its own iterator is not asked
            if os.path.lexists(name):
                yield name
            else:
                self.discard(name)


class Page(gr.Blocks):
    """`gr.Blocks` in which what a handler skips costs nothing, old files go (`FileNames`),
    questions that were answered are forgotten, and those of one person that are `IN_TURN` come so.

    gradio's own builds a component anew, with its configuration, for each output that is
    `gr.skip()`: a quarter of the work of a new picture, which has an output for all that any
    section may draw and draws the open one.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._turns = WeakKeyDictionary()  # locks by gradio's state of a visit, and by queue
        self._at_once = asyncio.Semaphore(AT_ONCE)

    def __exit__(self, *raised):
        super().__exit__(*raised)
        self.upload_file_set = FileNames()
        self.temp_file_sets = [self.upload_file_set]
        for block in self.blocks.values():
            if isinstance(block, Component):
                block.temp_files = FileNames(block.temp_files)
                self.temp_file_sets.append(block.temp_files)

    def queue(self, *arguments, **options):
        """As gradio's, which keeps every event with its request for as long as the page runs."""
        queued = super().queue(*arguments, **options)
        self._queue.event_ids_to_events = LRUCache(KEPT_EVENTS)
        return queued

    async def process_api(self, block_fn, inputs, state=None, *more, **options):
        """As gradio's; but of two questions of one visit to models, the second begins when the
        first is answered, and so with `TURNS`. Else what the older one gives could come last, and
        stay."""
        queue = (self.fns[block_fn] if isinstance(block_fn, int) else block_fn).concurrency_id
        async with AsyncExitStack() as turns:
            if state is not None and queue in IN_TURN:
                locks = self._turns.setdefault(state, defaultdict(asyncio.Lock))
                await turns.enter_async_context(locks[queue])
            if queue == MODEL_QUEUE["concurrency_id"]:
                await turns.enter_async_context(self._at_once)
            return await super().process_api(block_fn, inputs, state, *more, **options)

    async def preprocess_data(self, block_fn, inputs, state, *more, **options):
        """As gradio's, which would keep a component that was built anew a second time, by the
        number that it was built with, for as long as the visit lasts."""
        for block in block_fn.inputs if state else ():
            if held := state.blocks_config.blocks.get(block._id):
                held._id = block._id
        return await super().preprocess_data(block_fn, inputs, state, *more, **options)

    async def postprocess_data(self, block_fn, predictions, state):
        outputs = block_fn.outputs
        if not isinstance(predictions, list | tuple) or len(predictions) != len(outputs):
            return await super().postprocess_data(block_fn, predictions, state)
        kept = [i for i, value in enumerate(predictions) if not is_skip(value)]
        if len(kept) in (0, 1, len(outputs)):  # gradio takes the value of a single one bare
            return await super().postprocess_data(block_fn, predictions, state)
        few = copy.copy(block_fn)
        few.outputs = [outputs[i] for i in kept]
        found = await super().postprocess_data(few, [predictions[i] for i in kept], state)
        drawn = [None if block.stateful else gr.skip() for block in outputs]
        for i, value in zip(kept, found, strict=True):
            drawn[i] = value
        return drawn


def is_skip(value: object) -> bool:
    return isinstance(value, dict) and len(value) == 1 and value == gr.skip()


class PathImage(gr.Image):
    """`gr.Image` whose handler gets the path of the upload, undecoded.

    gradio's own opens the file with Pillow before any check of ours, and lets a data URL or a
    `.gif` past its checks. Here every upload reaches `inputs.load_image` as it came.
    """

    is_template = True  # the browser draws it as gradio's own image component

    def preprocess(self, payload) -> str | None:
        if payload is None:
            return None
        if payload.url and payload.url.startswith("data:"):
            path = _save_data_url(payload.url, self.GRADIO_CACHE)
            self.temp_files.add(path)  # so that it is deleted in its time, as an upload is
            return path
        return payload.path


class LayerSlider(gr.Slider):
    """`gr.Slider` whose handler gets the value as it stands in the browser.

    gradio's own refuses a value above the maximum, and between two models of different depth the
    browser may still send the deeper one's layer. The handler takes the nearest layer there is.
    """

    is_template = True

    def preprocess(self, payload) -> float | None:
        """A number, whatever its size; None for what is none."""
        is_number = isinstance(payload, int | float) and not isinstance(payload, bool)
        return payload if is_number and math.isfinite(payload) else None


class FreeDropdown(gr.Dropdown):
    """`gr.Dropdown` whose handler gets the value as it stands in the browser.

    gradio's own refuses what the choices do not hold, and between two models of different classes
    the browser may still send the other one's. The handler says in words what is wrong.
    """

    is_template = True

    def preprocess(self, payload) -> str | None:
        return payload if isinstance(payload, str) else None


class FreeRadio(gr.Radio):
    """`gr.Radio` whose handler gets the value as it stands in the browser: see `FreeDropdown`."""

    is_template = True
    preprocess = FreeDropdown.preprocess


def _save_data_url(url: str, folder: str) -> str:
    if len(url) > 4 * MAX_BYTES // 3 + 1000:
        raise gr.Error("The picture is too large.", print_exception=False)
    try:
        content = base64.b64decode(url.partition(",")[2], validate=True)
    except ValueError as error:
        raise gr.Error("The data URL is no valid base64.", print_exception=False) from error
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".upload", delete=False) as file:
        file.write(content)
    return file.name


def visitor() -> str | None:
    """Whose event is being answered, a name of this visit; None outside of events."""
    return getattr(LocalContext.request.get(None), "session_hash", None)


def came_from_here(request: gr.Request | None) -> bool:
    """Whether it came from this machine, by its own name and through no proxy.

    Of a proxy that tells nothing of itself, a browser's visits tell by the page's own address.
    """
    if request is None:
        return False
    headers = {name.lower(): value for name, value in request.headers.items()}
    forwarded = any(name.startswith(("x-forwarded", "forwarded")) for name in headers)
    named = [f"//{headers.get('host', '')}", *filter(None, [headers.get("origin")])]
    hosts = [urlsplit(address).hostname or "" for address in named]
    client = request.client.host if request.client else ""
    return not forwarded and all(map(is_here, [client, *hosts]))


def is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Stops:
    """One person's long work at a time: `button` begins it, `stop` or their next question ends it
    at its next step, even while it waits its turn.
    """

    def __init__(self):
        # By visitor: what was asked for, and whether it is over
        self._asked: LRUCache[str | None, tuple[Hashable, threading.Event]] = LRUCache(KEPT_EVENTS)

    def button(self, begin: gr.Button, work: Callable, inputs, outputs, **options) -> None:
        """Have `begin` do `work`, which asks `watch()` for what ends it."""
        armed = begin.click(self.arm, **QUIET)
        armed.then(work, inputs, outputs, **PRIVATE, **LONG_QUEUE, **options)

    def arm(self, *question) -> None:
        """Work on `question` begins; what was under way for this person is over."""
        self.stop()
        self._asked[visitor()] = (as_key(question), threading.Event())

    def stop(self) -> None:
        if found := self._asked.get(visitor()):
            found[1].set()

    def stop_others(self, *question) -> None:
        """End work on another question; the same one drawn once more leaves it alone."""
        if (found := self._asked.get(visitor())) and found[0] != as_key(question):
            found[1].set()

    def watch(self, *question) -> Callable[[], None]:
        """A function that raises `Stopped` once the work on `question` is over, or never began."""
        asked, over = self._asked.get(visitor(), (None, None))
        is_mine = asked == as_key(question)

        def raise_if_stopped() -> None:
            if not is_mine or over.is_set():
                raise Stopped

        return raise_if_stopped


def for_people(handler: Callable) -> Callable:
    """Turn a `VitdemoError` of a handler, which may be a generator, into the page's own message;
    outputs stay as they were."""

    @functools.wraps(handler)
    def wrapped(*args):
        with _told():
            return handler(*args)

    @functools.wraps(handler)
    def generator(*args):
        with _told():
            yield from handler(*args)

    return generator if inspect.isgeneratorfunction(handler) else wrapped


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except VitdemoError as error:
        # The message is drawn as HTML: a file's name, or train/<class>/, must stay words.
        words = escape(str(error), quote=False)
        raise gr.Error(words, duration=8, print_exception=False) from error


def picked_numbers(pick: object, *limits: int) -> tuple[int, ...]:
    """The numbers of a pick such as "3-5" or "3.5", each below its limit and 0 or more.

    A pick comes from a browser: raises `VitdemoError` for what no button of the page sends.
    """
    words = re.split("[-.]", pick) if isinstance(pick, str) and len(pick) < 100 else []
    known = all(word.isascii() and word.isdecimal() for word in words)
    numbers = tuple(map(int, words)) if known and len(words) == len(limits) else ()
    if not numbers or any(number >= most for number, most in zip(numbers, limits, strict=True)):
        raise VitdemoError("There is nothing of this kind on the page.")
    return numbers


def offer_download(
    label: str, elem_id: str, make: Callable[..., str], inputs: Sequence, queue: dict
) -> gr.Button:
    """A button that has `make(folder, *inputs)` write a file and saves it under its name there."""
    button = gr.Button(label, size="sm", elem_id=elem_id)
    made = gr.DownloadButton(visible="hidden", elem_id=f"{elem_id}-file")
    click = f"() => document.querySelector('#{elem_id}-file').click()"

    def written(*values) -> str:
        return make(cache_folder(made), *values)

    ready = button.click(for_people(written), inputs, made, **PRIVATE, **queue)
    ready.success(None, js=click, **PRIVATE)
    return button


def cache_folder(component: Component) -> Path:
    """A new folder for what `component` is to serve, in gradio's cache: there old files go."""
    cache = Path(component.GRADIO_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=cache))


def renewed(choices: Sequence[Choice], current: str | None) -> tuple[dict, str | None]:
    """An update with these choices, and the choice that then holds: `current`, or the first.

    The update names a value only where it must: an answer must not undo a click made meanwhile.
    """
    values = [choice if isinstance(choice, str) else choice[1] for choice in choices]
    if current in values:
        return gr.update(choices=list(choices)), current
    value = values[0] if values else None
    return gr.update(choices=list(choices), value=value), value


def nearest(layer: float, layers: int) -> int:
    """The layer 1..`layers` next to what the slider says."""
    return min(max(round(layer or 1), 1), layers)


def limited(value: float, top: int) -> dict:
    """An update of a slider, now at `value`, to 1..`top`.

    It moves the slider only where it must, as `renewed` does: a slide made meanwhile stays.
    """
    kept = nearest(value, top)
    return gr.update(maximum=top) if kept == value else gr.update(maximum=top, value=kept)
