"""Workarounds for gradio. Tests with gradio's own classes fail if gradio needs no workaround."""

import asyncio
import base64
import importlib.util
import os
import threading
from contextlib import suppress
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest
from gradio import component_meta, networking, route_utils
from gradio.components.image import ImageData
from gradio.state_holder import SessionState
from PIL import UnidentifiedImageError
from starlette.middleware import Middleware

from tests.support.loops import call_in_loop, run_coroutine
from vitdemo.errors import RunError
from vitdemo.page import gradio_patches, gradio_stubs
from vitdemo.page.gradio_patches import (
    NOT_A_FILE_MESSAGE,
    AppBlocks,
    EndedSessions,
    HeadContent,
    PageCompression,
    PathImage,
    UncheckedDropdown,
    UncheckedSlider,
    current_request,
    session_id,
    session_value,
)

QUEUE = {"concurrency_id": "one by one", "concurrency_limit": 4}


class SerialBlocks(AppBlocks):
    """Page with a queue of two requests at a time, and one of each session."""

    def __init__(self):
        super().__init__(serial_queues={"one by one": 2})


def test_no_stub_files_are_written(tmp_path, monkeypatch):
    stub = tmp_path / "own_component.pyi"
    stub.with_suffix(".py").write_text(
        "import gradio as gr\n\n\nclass Own(gr.HTML):\n    EVENTS = ['send']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_component").Own
    assert not stub.exists()
    spec = importlib.util.spec_from_file_location("plain", component_meta.__file__)
    plain = importlib.util.module_from_spec(spec)  # without the workaround
    spec.loader.exec_module(plain)
    plain.create_or_modify_pyi(own, "Own", own.EVENTS)
    assert "def send(" in stub.read_text()


def test_no_stub_files_are_written_if_gradio_was_imported_before(monkeypatch):
    written = []
    monkeypatch.setattr(component_meta, "create_or_modify_pyi", lambda *each: written.append(each))
    gradio_stubs.import_gradio()
    type("Own", (gr.HTML,), {"EVENTS": ["send"]})
    assert written == []


async def rebuild_slider(kind) -> list[int]:
    """Change a slider of a session; return the number of its components after each change."""
    with kind() as page:
        slider = gr.Slider(1, 5)
        slider.change(lambda value: value, slider, slider)
    (event,) = page.fns.values()
    state, counts = SessionState(page), []
    for maximum in range(6, 11):
        (value,) = await page.preprocess_data(event, [2], state)
        assert value == 2
        output = gr.update(maximum=maximum, value=2)
        (update,) = await page.postprocess_data(event, output, state)
        assert update["maximum"] == state[slider._id].maximum == maximum
        counts.append(len(state.blocks_config.blocks))
    return counts


@pytest.mark.parametrize(("kind", "growth"), [(AppBlocks, 0), (gr.Blocks, 4)])
def test_rebuilt_component_replaces_the_previous_one(kind, growth):
    """Require `AppBlocks.preprocess_data`, because gradio's own state keeps all components."""
    first, *_, last = run_coroutine(rebuild_slider(kind))
    assert last - first == growth


async def process_concurrently(handler, sessions, kind=SerialBlocks, queue=QUEUE):
    """Send concurrent requests to `handler`; `sessions` maps each request to its session."""
    with kind() as page:
        text = gr.Textbox()
        text.change(handler, text, text, **queue)
    (event,) = page.fns.values()
    states = {session: SessionState(page) for session in sessions.values()}
    await asyncio.gather(
        *(page.process_api(event, [name], state=states[sessions[name]]) for name in sessions)
    )


@pytest.mark.parametrize(
    ("kind", "queue", "second_session", "order"),
    [
        (SerialBlocks, QUEUE, "one", ["slow", "quick"]),
        (SerialBlocks, QUEUE, "two", ["quick", "slow"]),
        (SerialBlocks, {"concurrency_limit": 2}, "one", ["quick", "slow"]),
        (gr.Blocks, QUEUE, "one", ["quick", "slow"]),
    ],
)
def test_requests_of_one_session_run_in_order(kind, queue, second_session, order):
    finished = []

    async def handle(name):
        await asyncio.sleep(0.2 * (name == "slow"))
        finished.append(name)
        return name

    run_coroutine(
        process_concurrently(handle, {"slow": "one", "quick": second_session}, kind, queue)
    )
    assert finished == order


def test_waiting_request_does_not_block_other_sessions():
    running, counts, finished = [], [], []

    async def handle(name):
        running.append(name)
        counts.append(len(running))
        await asyncio.sleep(0.05 if name == "quick" else 0.2)
        running.remove(name)
        finished.append(name)
        return name

    run_coroutine(process_concurrently(handle, {"one": "a", "two": "a", "quick": "b", "last": "c"}))
    assert finished[:2] == ["quick", "one"] and max(counts) == 2


def list_temp_file_sets(kind):
    with kind() as page:
        image = gr.Image()
    return page, [image.temp_files, page.upload_file_set]


def delete_while_names_are_added(page, names, folder, monkeypatch):
    """Delete all files of `page`, and add a name to the set `names` after each deletion."""
    remove = os.remove

    def remove_and_add_name(file):
        remove(file)
        names.add(f"{file}.new")

    monkeypatch.setattr(route_utils.os, "remove", remove_and_add_name)
    files = [folder / f"{number}.png" for number in range(8)]
    for file in files:
        file.touch()
    names.update(map(str, [*files, folder / "gone.png"]))
    route_utils.delete_files_created_by_app(page, age=None)
    return files


@pytest.mark.parametrize("which", [0, 1])
def test_old_files_are_deleted_while_new_ones_are_created(which, tmp_path, monkeypatch):
    page, sets = call_in_loop(list_temp_file_sets, AppBlocks)
    files = delete_while_names_are_added(page, sets[which], tmp_path, monkeypatch)
    assert not any(file.exists() for file in files)
    assert not sets[which].intersection(map(str, [*files, tmp_path / "gone.png"]))
    page, sets = call_in_loop(list_temp_file_sets, gr.Blocks)
    with pytest.raises(RuntimeError, match="changed size during iteration"):
        delete_while_names_are_added(page, sets[which], tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("own", "theirs", "value"),
    [
        (UncheckedSlider(1, 5), gr.Slider(1, 5), 6),
        (UncheckedDropdown(["a", "b"]), gr.Dropdown(["a", "b"]), "c"),
    ],
)
def test_value_that_is_no_longer_a_choice_reaches_the_handler(own, theirs, value):
    assert own.preprocess(value) == value
    with pytest.raises(gr.Error):
        theirs.preprocess(value)


def test_unchecked_values_have_the_right_type():
    assert UncheckedDropdown(["a"]).preprocess(["a"]) is None
    assert [UncheckedSlider(1, 5).preprocess(each) for each in (True, "2", float("nan"))] == [
        None
    ] * 3


def test_images_reach_the_handler_undecoded(tmp_path):
    content = b"not an image"
    url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    own = PathImage(type="filepath")
    path = own.preprocess(ImageData(url=url))
    with open(path, "rb") as file:
        assert file.read() == content
    assert path in own.temp_files
    os.remove(path)
    upload = tmp_path / "upload.png"
    upload.write_bytes(content)
    sent = ImageData(path=str(upload), orig_name="upload.png")
    assert own.preprocess(sent) == str(upload)
    with pytest.raises(UnidentifiedImageError):
        gr.Image(type="filepath").preprocess(sent)


@pytest.mark.parametrize("value", ["photo.png", {"path": "photo.png"}])
def test_image_that_was_not_uploaded_has_a_clear_error(value):
    async def send_image(kind, image):
        with kind() as page:
            picture = image(type="filepath")
            picture.change(lambda path: None, picture, None)
        (event,) = page.fns.values()
        await page.preprocess_data(event, [value], SessionState(page))

    messages = []
    for kind, image in ((AppBlocks, PathImage), (gr.Blocks, gr.Image)):
        with pytest.raises(Exception) as raised:
            run_coroutine(send_image(kind, image))
        messages.append(str(getattr(raised.value, "message", raised.value)))
    assert messages[0] == NOT_A_FILE_MESSAGE and "handle_file" not in messages[1]


async def ask_for_count(kind) -> list[str]:
    """Return the responses to two requests of the session "me" for the value of its `gr.State`."""
    with kind() as page:
        stored, text = gr.State([], time_to_live=60), gr.Textbox()

        def count() -> str:
            value = session_value(stored)
            value.append(session_id())
            return f"{session_id()} {len(value)} {current_request().username}"

        text.change(count, None, text)
    (event,) = page.fns.values()
    state = SessionState(page)
    request = SimpleNamespace(session_hash="me", username="anna")
    answers = [await page.process_api(event, [], state, request=request) for _ in range(2)]
    assert [held.time_to_live for held, *_ in state.state_components] == [60]
    return [each["data"][0] for each in answers]


def test_functions_without_the_state_as_input_know_its_value():
    assert run_coroutine(ask_for_count(AppBlocks)) == ["me 1 anna", "me 2 anna"]
    with pytest.raises(RunError, match="needs a browser session"):
        run_coroutine(ask_for_count(gr.Blocks))
    assert (current_request(), session_id()) == (None, None)


class SlowCopy:
    """Value whose copy takes at most one second, and until another thread copies it."""

    barrier: threading.Barrier | None = None  # None: the page is not complete yet

    def __deepcopy__(self, memo):
        with suppress(threading.BrokenBarrierError):
            if self.barrier:
                self.barrier.wait(timeout=1)
        return type(self)()


async def ask_twice_at_once(read) -> list[str]:
    """Return the responses to two simultaneous requests of a new session for a `gr.State`."""
    with AppBlocks() as page:
        stored, text = gr.State(SlowCopy()), gr.Textbox()
        text.change(lambda: str(read(stored)), None, text)
    (event,) = page.fns.values()
    state, stored.value.barrier = SessionState(page), threading.Barrier(2)
    answers = [page.process_api(event, [], state) for _ in range(2)]
    return [each["data"][0] for each in await asyncio.gather(*answers)]


def read_unlocked(component: gr.State):
    return gradio_patches._session.get()[component._id]


@pytest.mark.parametrize(("read", "count"), [(session_value, 1), (read_unlocked, 2)])
def test_first_requests_of_a_session_share_its_value(read, count):
    """Require the lock of `session_value`: a change of the other value would be lost."""
    assert len({*run_coroutine(ask_twice_at_once(read))}) == count


def request_paths(paths, middleware, **options):
    """Return the responses of a page of gradio with `middleware` to requests of `paths`."""
    with gr.Blocks() as page:
        for i in range(20):
            gr.Textbox(label=f"Text {i}")
    options |= {"prevent_thread_lock": True, "quiet": True, "ssr_mode": False, "_frontend": False}
    _, address, _ = page.launch(**options, app_kwargs={"middleware": middleware})
    try:
        with httpx.Client(base_url=address, trust_env=False) as client:
            return [client.get(path) for path in paths]
    finally:
        page.close()


@pytest.mark.parametrize("is_patched", [True, False])
def test_the_page_is_compressed_and_has_scripts_in_its_head(is_patched):
    """Require `PageCompression`: gradio compresses neither the page nor its config.

    Require `HeadContent` too: gradio's own argument `head` is not in the document.
    """
    script = "<script>first()</script>"
    middleware = [Middleware(PageCompression), Middleware(HeadContent, script)]
    middleware = middleware if is_patched else []
    options = {"head": None if is_patched else script}
    paths = ("/", "/config")
    document, config = call_in_loop(request_paths, paths, middleware, **options)
    assert (f"<head>{script}" in document.text) == is_patched
    assert (script in config.text) != is_patched
    for response in (document, config):
        assert "Text 19" in response.text
        assert (response.headers.get("content-encoding") == "gzip") == is_patched


def test_the_stream_of_an_unknown_session_ends_without_an_exception():
    """Require `EndedSessions`: gradio breaks the connection after its message (gradio#9169)."""
    path = "/gradio_api/queue/data?session_hash=unknown"
    (response,) = call_in_loop(request_paths, [path], [Middleware(EndedSessions)])
    assert '"session_not_found":true' in response.text
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete"):
        call_in_loop(request_paths, [path], [])


def test_launch_fails_if_the_page_of_a_busy_machine_responds_late(monkeypatch):
    """Require `_frontend=False` in `cli/app.py` (gradio-app/gradio#9817)."""
    monkeypatch.setattr(networking, "url_ok", lambda url: False)  # as after several timeouts
    options = {"prevent_thread_lock": True, "quiet": True, "ssr_mode": False}

    def launch():
        with gr.Blocks() as page:
            gr.Textbox()
        with pytest.raises(ValueError, match="localhost is not accessible"):
            page.launch(**options)
        page.close()
        page.launch(**options, _frontend=False)
        page.close()

    call_in_loop(launch)


def test_an_idle_queue_is_checked_100_times_per_second():
    """Require `AppBlocks.queue`: gradio checks its queue more often."""

    def build_queues():
        return [page._queue for page in (gr.Blocks(), AppBlocks(), AppBlocks().queue(max_size=3))]

    plain, *patched = call_in_loop(build_queues)
    assert plain.sleep_when_free < 0.01
    assert {queue.sleep_when_free for queue in patched} == {0.01}
