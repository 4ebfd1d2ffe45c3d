"""What the tabs share of gradio."""

import asyncio
import gc
import os
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import gradio as gr
import pytest
from gradio import route_utils
from gradio.state_holder import SessionState

from vitdemo.errors import VitdemoError
from vitdemo.page import kit
from vitdemo.page.kit import (
    MAX_STORED_EVENTS,
    MODEL_QUEUE,
    AppBlocks,
    clamp_slider,
    parse_pick,
    update_choices,
)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
LABELLED_CHOICES = [("nobody", ""), ("A", "a")]


@pytest.fixture(scope="module")
def run():
    """run(coroutine) in a thread: this one may have a loop, of tests in a browser."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda coroutine: thread.submit(asyncio.run, coroutine).result()
    gc.collect()  # event loops that gradio made and left open, while this file is there to bear it


@pytest.mark.parametrize(
    ("choices", "current", "value"),
    [(["a", "b"], "c", "a"), (["a"], None, "a"), ([], "a", None), (LABELLED_CHOICES, "b", "")],
)
def test_missing_choice_is_replaced_by_the_first(choices, current, value):
    update, holds = update_choices(choices, current)
    assert (update["choices"], update["value"], holds) == (choices, value, value)


@pytest.mark.parametrize(("choices", "current"), [(["a", "b"], "b"), (LABELLED_CHOICES, "a")])
def test_available_choice_is_not_overwritten(choices, current):
    update, holds = update_choices(choices, current)
    assert holds == current
    assert "value" not in update  # which would undo a click made meanwhile


@pytest.mark.parametrize(("value", "kept"), [(12, 6), (0, 1), (None, 1), (4, None)])
def test_slider_value_is_clamped_only_if_out_of_range(value, kept):
    update = clamp_slider(value, 6)
    assert (update["maximum"], update.get("value")) == (6, kept)
    assert ("value" in update) == (kept is not None)  # which would undo a slide made meanwhile


def test_pick_is_parsed_into_numbers():
    assert parse_pick("3-5", 4, 6) == (3, 5)
    assert parse_pick("0.9", 1, 10) == (0, 9)
    assert parse_pick("17", 18) == (17,)


@pytest.mark.parametrize(
    "pick", ["", "3", "3-6", "4-5", "-3.-3", "3-5-1", "a-b", "1e1-2", "²-1", None, 35, ["3", "5"],
             "9" * 5000, {"pick": "3-5"}],
)  # fmt: skip
def test_invalid_picks_are_rejected(pick):
    with pytest.raises(VitdemoError):
        parse_pick(pick, 4, 6)


def test_skipped_outputs_are_not_rebuilt_and_results_equal_gradio(run):
    build, answers = gr.Textbox.__init__, []
    for kind in (gr.Blocks, AppBlocks):
        with kind() as page:
            boxes = [gr.Textbox(label=str(i)) for i in range(4)]
            kept = gr.State("before")
            gr.Button().click(lambda: None, None, [*boxes, kept])
        values = ["a", gr.skip(), gr.update(value="b", label="c"), gr.skip(), "after"]
        state = SessionState(page)
        (event,) = page.fns.values()
        with patch.object(gr.Textbox, "__init__", autospec=True, side_effect=build) as built:
            answers.append(run(page.postprocess_data(event, values, state)))
        assert state[kept._id] == "after"
    assert answers[0] == answers[1] and answers[1][1] == gr.skip()
    assert built.call_count == 1  # the one whose label changed


@pytest.mark.parametrize(("kind", "left"), [(AppBlocks, 0), (gr.Blocks, 4)])
def test_rebuilt_component_replaces_the_previous_one(kind, left, run):
    """gradio's own state keeps all of them, so `AppBlocks.preprocess_data` is needed."""
    with kind() as page:
        slider = gr.Slider(1, 5)
        slider.change(lambda value: value, slider, slider)
    (event,) = page.fns.values()
    state = SessionState(page)

    async def ask(maximum: int) -> int:
        (value,) = await page.preprocess_data(event, [2], state)
        assert value == 2
        answer = gr.update(maximum=maximum, value=2)
        (update,) = await page.postprocess_data(event, answer, state)
        assert update["maximum"] == state[slider._id].maximum == maximum
        return len(state.blocks_config.blocks)

    first, *_, last = [run(ask(maximum)) for maximum in range(6, 11)]
    assert last - first == left


async def process_concurrently(answer, queue, asked):
    """Have `answer` answer the questions of `asked`, each of the visit that stands beside it."""
    with AppBlocks() as page:
        text = gr.Textbox()
        text.change(answer, text, text, **queue)
    (event,) = page.fns.values()
    states = {visit: SessionState(page) for visit in asked.values()}
    await asyncio.gather(
        *(page.process_api(event, [name], state=states[visit]) for name, visit in asked.items())
    )


@pytest.mark.parametrize(
    ("queue", "visits", "ended"),
    [
        (MODEL_QUEUE, "one", ["slow", "quick"]),
        (MODEL_QUEUE, "two", ["quick", "slow"]),
        ({"concurrency_limit": 2}, "one", ["quick", "slow"]),
    ],
)
def test_model_requests_of_one_session_run_in_order(queue, visits, ended, run, monkeypatch):
    monkeypatch.setattr(kit, "MAX_CONCURRENT_REQUESTS", 2)
    found = []

    async def answer(name):
        await asyncio.sleep(0.2 * (name == "slow"))
        found.append(name)
        return name

    run(process_concurrently(answer, queue, {"slow": "one", "quick": visits}))
    assert found == ended


def test_waiting_request_does_not_block_other_sessions(run, monkeypatch):
    monkeypatch.setattr(kit, "MAX_CONCURRENT_REQUESTS", 2)
    at_work, most, found = [], [], []

    async def answer(name):
        at_work.append(name)
        most.append(len(at_work))
        await asyncio.sleep(0.05 if name == "quick" else 0.2)
        at_work.remove(name)
        found.append(name)
        return name

    run(
        process_concurrently(
            answer, MODEL_QUEUE, {"one": "a", "two": "a", "quick": "b", "last": "c"}
        )
    )
    assert found[:2] == ["quick", "one"] and max(most) == 2


def test_queue_keeps_only_the_latest_events(run):
    with AppBlocks() as page:
        gr.Textbox()
    for queued in (page, page.queue(max_size=5)):
        events = queued._queue.event_ids_to_events
        events.update((str(number), None) for number in range(MAX_STORED_EVENTS + 5))
        assert len(events) == MAX_STORED_EVENTS
        assert str(MAX_STORED_EVENTS + 4) in events and "4" not in events


def test_old_files_are_deleted_while_new_ones_are_created(tmp_path, monkeypatch, run):
    """gradio's own round over its sets of names would end here with a RuntimeError."""
    with AppBlocks() as page:
        picture = gr.Image()
    remove = os.remove

    def remove_while_another_is_made(file):
        remove(file)
        names.add(f"{file}.new")

    monkeypatch.setattr(route_utils.os, "remove", remove_while_another_is_made)
    for names in (picture.temp_files, page.upload_file_set):
        files = [tmp_path / f"{number}.png" for number in range(8)]
        for file in files:
            file.touch()
        names.update(map(str, [*files, tmp_path / "gone.png"]))
        route_utils.delete_files_created_by_app(page, age=None)
        assert not any(file.exists() for file in files)
        assert not names.intersection(map(str, [*files, tmp_path / "gone.png"]))
