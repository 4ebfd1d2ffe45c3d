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
from vitdemo.page.kit import KEPT_EVENTS, MODEL_QUEUE, Page, limited, picked_numbers, renewed

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
LABELLED = [("nobody", ""), ("A", "a")]


@pytest.fixture(scope="module")
def run():
    """run(coroutine) in a thread: this one may have a loop, of tests in a browser."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda coroutine: thread.submit(asyncio.run, coroutine).result()
    gc.collect()  # event loops that gradio made and left open, while this file is there to bear it


@pytest.mark.parametrize(
    ("choices", "current", "value"),
    [(["a", "b"], "c", "a"), (["a"], None, "a"), ([], "a", None), (LABELLED, "b", "")],
)
def test_a_choice_that_is_gone_becomes_the_first(choices, current, value):
    update, holds = renewed(choices, current)
    assert (update["choices"], update["value"], holds) == (choices, value, value)


@pytest.mark.parametrize(("choices", "current"), [(["a", "b"], "b"), (LABELLED, "a")])
def test_a_choice_that_is_there_is_left_to_the_person(choices, current):
    update, holds = renewed(choices, current)
    assert holds == current
    assert "value" not in update  # which would undo a click made meanwhile


@pytest.mark.parametrize(("value", "kept"), [(12, 6), (0, 1), (None, 1), (4, None)])
def test_a_slider_moves_to_the_nearest_end_of_its_range_or_is_left_to_the_person(value, kept):
    update = limited(value, 6)
    assert (update["maximum"], update.get("value")) == (6, kept)
    assert ("value" in update) == (kept is not None)  # which would undo a slide made meanwhile


def test_a_pick_is_so_many_numbers_below_their_limits():
    assert picked_numbers("3-5", 4, 6) == (3, 5)
    assert picked_numbers("0.9", 1, 10) == (0, 9)
    assert picked_numbers("17", 18) == (17,)


@pytest.mark.parametrize(
    "pick", ["", "3", "3-6", "4-5", "-3.-3", "3-5-1", "a-b", "1e1-2", "²-1", None, 35, ["3", "5"],
             "9" * 5000, {"pick": "3-5"}],
)  # fmt: skip
def test_a_pick_that_no_button_sends_is_refused(pick):
    with pytest.raises(VitdemoError):
        picked_numbers(pick, 4, 6)


def test_what_is_skipped_is_not_built_anew_and_the_answer_is_as_gradios(run):
    build, answers = gr.Textbox.__init__, []
    for kind in (gr.Blocks, Page):
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


@pytest.mark.parametrize(("kind", "left"), [(Page, 0), (gr.Blocks, 4)])
def test_a_component_that_is_built_anew_takes_the_place_of_the_one_before(kind, left, run):
    """And gradio's own keeps all of them, without which `Page.preprocess_data` were not needed."""
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


async def ask_at_once(answer, queue, asked):
    """Have `answer` answer the questions of `asked`, each of the visit that stands beside it."""
    with Page() as page:
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
def test_of_two_questions_of_a_visit_to_models_the_older_is_answered_first(
    queue, visits, ended, run, monkeypatch
):
    monkeypatch.setattr(kit, "AT_ONCE", 2)
    found = []

    async def answer(name):
        await asyncio.sleep(0.2 * (name == "slow"))
        found.append(name)
        return name

    run(ask_at_once(answer, queue, {"slow": "one", "quick": visits}))
    assert found == ended


def test_a_question_that_waits_for_its_own_visits_takes_nobody_elses_turn(run, monkeypatch):
    monkeypatch.setattr(kit, "AT_ONCE", 2)
    at_work, most, found = [], [], []

    async def answer(name):
        at_work.append(name)
        most.append(len(at_work))
        await asyncio.sleep(0.05 if name == "quick" else 0.2)
        at_work.remove(name)
        found.append(name)
        return name

    run(ask_at_once(answer, MODEL_QUEUE, {"one": "a", "two": "a", "quick": "b", "last": "c"}))
    assert found[:2] == ["quick", "one"] and max(most) == 2


def test_the_queue_keeps_the_latest_events_alone(run):
    with Page() as page:
        gr.Textbox()
    for queued in (page, page.queue(max_size=5)):
        events = queued._queue.event_ids_to_events
        events.update((str(number), None) for number in range(KEPT_EVENTS + 5))
        assert len(events) == KEPT_EVENTS
        assert str(KEPT_EVENTS + 4) in events and "4" not in events


def test_old_files_go_while_others_are_made(tmp_path, monkeypatch, run):
    """gradio's own round over its sets of names would end here with a RuntimeError."""
    with Page() as page:
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
