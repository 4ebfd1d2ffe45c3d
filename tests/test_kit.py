"""Extensions of gradio that all tabs share."""

import asyncio
import gc
import os
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import gradio as gr
import pytest
from gradio import route_utils
from gradio.state_holder import SessionState

from vitdemo.page import kit
from vitdemo.page.kit import (
    MAX_STORED_EVENTS,
    MODEL_QUEUE,
    AppBlocks,
)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def run():
    """Runner of coroutines in a thread, because this one may already have an event loop."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda coroutine: thread.submit(asyncio.run, coroutine).result()
    gc.collect()  # the warnings about gradio's open event loops are ignored in this file only


def test_skipped_outputs_are_not_rebuilt_and_results_equal_gradio(run):
    build, results = gr.Textbox.__init__, []
    for kind in (gr.Blocks, AppBlocks):
        with kind() as page:
            boxes = [gr.Textbox(label=str(i)) for i in range(4)]
            stored = gr.State("before")
            gr.Button().click(lambda: None, None, [*boxes, stored])
        values = ["a", gr.skip(), gr.update(value="b", label="c"), gr.skip(), "after"]
        state = SessionState(page)
        (event,) = page.fns.values()
        with patch.object(gr.Textbox, "__init__", autospec=True, side_effect=build) as constructor:
            results.append(run(page.postprocess_data(event, values, state)))
        assert state[stored._id] == "after"
    assert results[0] == results[1] and results[1][1] == gr.skip()
    assert constructor.call_count == 1  # only the box with the new label is rebuilt


@pytest.mark.parametrize(("kind", "growth"), [(AppBlocks, 0), (gr.Blocks, 4)])
def test_rebuilt_component_replaces_the_previous_one(kind, growth, run):
    """Require `AppBlocks.preprocess_data`, because gradio's own state keeps all components."""
    with kind() as page:
        slider = gr.Slider(1, 5)
        slider.change(lambda value: value, slider, slider)
    (event,) = page.fns.values()
    state = SessionState(page)

    async def update_slider(maximum: int) -> int:
        (value,) = await page.preprocess_data(event, [2], state)
        assert value == 2
        output = gr.update(maximum=maximum, value=2)
        (update,) = await page.postprocess_data(event, output, state)
        assert update["maximum"] == state[slider._id].maximum == maximum
        return len(state.blocks_config.blocks)

    first, *_, last = [run(update_slider(maximum)) for maximum in range(6, 11)]
    assert last - first == growth


async def process_concurrently(handler, queue, sessions):
    """Send concurrent requests to `handler`; `sessions` maps each request to its session."""
    with AppBlocks() as page:
        text = gr.Textbox()
        text.change(handler, text, text, **queue)
    (event,) = page.fns.values()
    states = {session: SessionState(page) for session in sessions.values()}
    await asyncio.gather(
        *(page.process_api(event, [name], state=states[sessions[name]]) for name in sessions)
    )


@pytest.mark.parametrize(
    ("queue", "second_session", "order"),
    [
        (MODEL_QUEUE, "one", ["slow", "quick"]),
        (MODEL_QUEUE, "two", ["quick", "slow"]),
        ({"concurrency_limit": 2}, "one", ["quick", "slow"]),
    ],
)
def test_model_requests_of_one_session_run_in_order(queue, second_session, order, run, monkeypatch):
    monkeypatch.setattr(kit, "MAX_CONCURRENT_REQUESTS", 2)
    finished = []

    async def handle(name):
        await asyncio.sleep(0.2 * (name == "slow"))
        finished.append(name)
        return name

    run(process_concurrently(handle, queue, {"slow": "one", "quick": second_session}))
    assert finished == order


def test_waiting_request_does_not_block_other_sessions(run, monkeypatch):
    monkeypatch.setattr(kit, "MAX_CONCURRENT_REQUESTS", 2)
    running, counts, finished = [], [], []

    async def handle(name):
        running.append(name)
        counts.append(len(running))
        await asyncio.sleep(0.05 if name == "quick" else 0.2)
        running.remove(name)
        finished.append(name)
        return name

    run(
        process_concurrently(
            handle, MODEL_QUEUE, {"one": "a", "two": "a", "quick": "b", "last": "c"}
        )
    )
    assert finished[:2] == ["quick", "one"] and max(counts) == 2


def test_queue_keeps_only_the_latest_events(run):
    with AppBlocks() as page:
        gr.Textbox()
    for queued in (page, page.queue(max_size=5)):
        events = queued._queue.event_ids_to_events
        events.update((str(number), None) for number in range(MAX_STORED_EVENTS + 5))
        assert len(events) == MAX_STORED_EVENTS
        assert str(MAX_STORED_EVENTS + 4) in events and "4" not in events


def test_old_files_are_deleted_while_new_ones_are_created(tmp_path, monkeypatch, run):
    """Change the sets of names during the loop, where gradio's own loop raises a RuntimeError."""
    with AppBlocks() as page:
        image = gr.Image()
    remove = os.remove

    def remove_and_add_name(file):
        remove(file)
        names.add(f"{file}.new")

    monkeypatch.setattr(route_utils.os, "remove", remove_and_add_name)
    for names in (image.temp_files, page.upload_file_set):
        files = [tmp_path / f"{number}.png" for number in range(8)]
        for file in files:
            file.touch()
        names.update(map(str, [*files, tmp_path / "gone.png"]))
        route_utils.delete_files_created_by_app(page, age=None)
        assert not any(file.exists() for file in files)
        assert not names.intersection(map(str, [*files, tmp_path / "gone.png"]))
