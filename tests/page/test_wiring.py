"""Wiring of the page: its queues, its tabs, its session state."""

from functools import partial

import gradio as gr
import pytest

from tests.support.factories import make_context, make_run
from tests.support.loops import call_in_loop
from vitdemo.jobs import JobQueue
from vitdemo.page import build_page
from vitdemo.page.kit import SESSION_QUEUES

# Names of the handlers that run a model.
MODEL_HANDLERS = (
    "build.<locals>.answer",
    *(f"Endpoints.{name}" for name in ("classify", "attention", "maps")),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stops")
    make_run(folder / "runs" / "vit")
    context = make_context(folder / "runs")
    context.sample_test_images = lambda run, count: range(count)  # the tests need no images
    jobs = JobQueue(folder / "trained", folder / "none", "cpu")
    return call_in_loop(build_page, context, jobs)


@pytest.mark.parametrize("name", MODEL_HANDLERS)
def test_model_handlers_use_the_model_queue(page, name):
    handlers = [fn for fn in page.fns.values() if getattr(fn.fn, "__qualname__", "") == name]
    assert handlers
    assert {fn.concurrency_id for fn in handlers} == {"model"}


def test_requests_of_a_session_and_tasks_run_one_after_the_other(page):
    assert page.serial_queues == SESSION_QUEUES and {*SESSION_QUEUES} == {"model", "turns"}
    tasks = [fn for fn in page.fns.values() if fn.concurrency_id == "long"]
    assert "run_task" in [fn.name for fn in tasks]
    assert {fn.concurrency_limit for fn in tasks} == {1}


def test_config_holds_no_listener_of_a_component(page):
    """Gradio copies the config at each visit, and with a bound listener also models and results."""
    bound = [
        (part["props"].get("elem_id"), name)
        for part in page.get_config_file()["components"]
        for name, value in part["props"].items()
        if isinstance(value, partial)
    ]
    assert not bound


def test_tabs_wrap_in_narrow_windows(page):
    tabs = [block for block in page.blocks.values() if isinstance(block, gr.Tabs)]
    assert {block.overflow_behavior for block in tabs} == {"wrap"}


def test_session_state_has_a_time_to_live(page):
    states = [block for block in page.blocks.values() if isinstance(block, gr.State)]
    assert states
    assert all(state.time_to_live for state in states)
