"""Wiring of the page: its queues, its long handlers with a stop button, its session state."""

import asyncio
import inspect
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gradio as gr
import pytest

from tests.factories import make_context, make_run
from vitdemo.errors import Stopped
from vitdemo.jobs import JobQueue
from vitdemo.page import build_page, kit, own_classes
from vitdemo.page.kit import MODEL_QUEUE, Cancellation

STEP = SimpleNamespace(change="noise", accuracy=0.5, done=1, total=2)


def report_then_fail(*_, report, **__):
    """Report progress once, then fail if the handler did not stop."""
    report(0.1, "the first step")
    pytest.fail("The work continued.")


def yield_then_fail(*_):
    """Yield one step, then fail if the handler did not stop."""
    yield STEP
    pytest.fail("The work continued.")


# Handler of a button: the module and name of its work, a replacement, the handler's arguments.
LONG_HANDLERS = {
    "train_them": (
        own_classes,
        "fit_linear_probe",
        report_then_fail,
        (own_classes.CustomClassesState(), "vit"),
    ),
}


# Names of the handlers that run a model.
MODEL_HANDLERS = (
    "build.<locals>.answer",
    *(f"register_endpoints.<locals>.{name}" for name in ("classify", "maps", "maps_file")),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stops")
    make_run(folder / "runs" / "vit")
    context = make_context(folder / "runs")
    context.sample_test_images = lambda run, count: range(count)  # the tests need no images
    jobs = JobQueue(folder / "trained", folder / "none", "cpu")

    async def built():
        return build_page(context, jobs)  # without a loop gradio opens one and leaves it open

    with ThreadPoolExecutor(1) as thread:  # browser tests may run a loop in this thread
        return thread.submit(asyncio.run, built()).result()


@pytest.fixture
def person(monkeypatch):
    """Return a function that sets the session of the following events."""
    return lambda name: monkeypatch.setattr(kit, "session_id", lambda: name)


def is_stopped(raise_if_stopped) -> bool:
    try:
        raise_if_stopped()
    except Stopped:
        return True
    return False


def list_bound_cancellations(page, method) -> list[Cancellation]:
    """Return the cancellations whose `method` a button of the page calls."""
    events = [each.fn for each in page.fns.values() if inspect.ismethod(each.fn)]
    return [fn.__self__ for fn in events if fn.__func__ is method]


@pytest.mark.parametrize("name", MODEL_HANDLERS)
def test_model_handlers_use_the_model_queue(page, name):
    handlers = [fn for fn in page.fns.values() if getattr(fn.fn, "__qualname__", "") == name]
    assert handlers
    assert {(fn.concurrency_id, fn.concurrency_limit) for fn in handlers} == {
        ("model", MODEL_QUEUE["concurrency_limit"])
    }


def test_tabs_wrap_in_narrow_windows(page):
    tabs = [block for block in page.blocks.values() if isinstance(block, gr.Tabs)]
    assert len(tabs) >= 3
    assert {block.overflow_behavior for block in tabs} == {"wrap"}


def test_a_click_removes_16_patches_by_default(page):
    sliders = {getattr(block, "elem_id", None): block for block in page.blocks.values()}
    assert sliders["hands-count"].value == 16


def test_long_handlers_share_one_serial_queue(page):
    names = {*LONG_HANDLERS, "why", "run_task"}
    assert {fn.concurrency_id for fn in page.fns.values() if fn.name in names} == {"long"}
    assert {fn.concurrency_limit for fn in page.fns.values() if fn.concurrency_id == "long"} == {1}


def test_every_long_handler_has_a_stop_button(page):
    assert len(list_bound_cancellations(page, Cancellation.start)) == len(LONG_HANDLERS)
    assert list_bound_cancellations(page, Cancellation.start) == list_bound_cancellations(
        page, Cancellation.stop
    )
    assert not any(each.cancels for each in page.fns.values())


@pytest.mark.parametrize("name", LONG_HANDLERS)
def test_stop_ends_the_work_at_its_next_step(page, name, person, monkeypatch):
    module, attribute, work, arguments = LONG_HANDLERS[name]
    monkeypatch.setattr(module, attribute, work)
    ((index, handler),) = [(i, fn.fn) for i, fn in page.fns.items() if fn.name == name]
    cancellation = page.fns[index - 1].fn.__self__  # bound to the button's own event
    person("anna")
    cancellation.start()
    cancellation.stop()
    result = handler(*arguments)
    if inspect.isgenerator(result):
        last = deque(result, maxlen=1)
        assert name != "measure" or "cancelled" in last[0][0]
    else:
        assert "topped" in str(result)
    cancellation.start()  # a new start cancels the stop
    with pytest.raises(pytest.fail.Exception, match="The work continued"):
        deque(handler(*arguments), maxlen=1)


def test_work_is_stopped_by_its_user_or_by_a_new_request(person):
    cancellation = Cancellation()
    person("anna")
    cancellation.start("cat")
    first_check = cancellation.make_check("cat")
    assert is_stopped(cancellation.make_check("dog"))  # never started
    person("ben")
    cancellation.stop()  # this session runs nothing
    assert is_stopped(cancellation.make_check("cat"))
    cancellation.start("cat")
    assert not is_stopped(first_check)
    person("anna")
    cancellation.stop_different("cat")  # the same request again
    assert not is_stopped(first_check)
    cancellation.start("cat")  # a new start ends the first
    second_check = cancellation.make_check("cat")
    assert (is_stopped(first_check), is_stopped(second_check)) == (True, False)
    cancellation.stop_different("dog")
    assert is_stopped(second_check)
    person("ben")
    assert not is_stopped(cancellation.make_check("cat"))


def test_session_state_has_a_time_to_live(page):
    states = [block for block in page.blocks.values() if isinstance(block, gr.State)]
    assert states
    assert all(state.time_to_live for state in states)
