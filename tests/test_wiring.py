"""How the page is wired: its queues, long work that a person can stop, what it keeps of one."""

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
from vitdemo.page import build_page, compare, kit, own_classes
from vitdemo.page.compare import robustness
from vitdemo.page.data import similar
from vitdemo.page.kit import MODEL_QUEUE, Cancellation
from vitdemo.page.look.inside import ablation

STEP = SimpleNamespace(change="noise", accuracy=0.5, done=1, total=2)


def report_then_fail(*_, report, **__):
    """Work that tells how far it is, and then more."""
    report(0.1, "the first step")
    pytest.fail("It went on.")


def report_then_fail_positional(context, name, count, report):
    return report_then_fail(report=report)


def yield_then_fail(*_):
    """Work in steps, of which the first is the last."""
    yield STEP
    pytest.fail("It went on.")


def fail_if_not_stopped(*_):
    pytest.fail("It went on.")


# The handler of each button: where the work lies that it does, and what it is asked with
LONG_HANDLERS = {
    "lay_out": (similar, "load_planes", report_then_fail_positional, ("vit", 200)),
    "train_them": (
        own_classes,
        "fit_linear_probe",
        report_then_fail,
        (own_classes.CustomClassesState(), "vit"),
    ),
    "time_all": (compare, "measure_run_latency", fail_if_not_stopped, ({},)),
    "measure_all": (robustness, "measure_robustness", yield_then_fail, (["vit"], ["noise"], 100)),
    "measure_accuracy": (
        ablation,
        "measure_accuracy_without_heads",
        yield_then_fail,
        ("vit", "1.1", "vit", "mean"),
    ),
}


# Handlers that ask a model for an answer, by name: in every section of Look and of Data, and others
MODEL_HANDLERS = (
    "LazySections._draw_on.<locals>.draw_open",
    "ExploreTab.handle_image_request",
    "ExploreTab.change_model",
    "ExploreTab.render_attention",
    "ExploreTab.load_initial_view",
    "ExploreTab.rerun_all_models",
    "ExploreTab.load_query",
    "ExploreTab.open_test_image_on.<locals>.show",
    "AblationHandlers.compare",
    *(f"register_endpoints.<locals>.{name}" for name in ("classify", "maps", "maps_file")),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stops")
    make_run(folder / "runs" / "vit")
    context = make_context(folder / "runs")
    context.sample_test_images = lambda run, count: range(count)  # the work itself is not done
    jobs = JobQueue(folder / "trained", folder / "none", "cpu")

    async def built():
        return build_page(context, jobs)  # in no loop gradio makes some, and leaves them open

    with ThreadPoolExecutor(1) as thread:  # this one may have a loop, of tests in a browser
        return thread.submit(asyncio.run, built()).result()


@pytest.fixture
def person(monkeypatch):
    """person(name): whose events are answered from now on."""
    return lambda name: monkeypatch.setattr(kit, "session_id", lambda: name)


def is_stopped(raise_if_stopped) -> bool:
    try:
        raise_if_stopped()
    except Stopped:
        return True
    return False


def list_bound_cancellations(page, method) -> list[Cancellation]:
    """Whose `method` of `Cancellation` a button of the page calls."""
    events = [each.fn for each in page.fns.values() if inspect.ismethod(each.fn)]
    return [fn.__self__ for fn in events if fn.__func__ is method]


OUTPUTS_WITHOUT_MODEL = {
    "models",
    "reported",
    "gains-base",
    "gains",
    "robust-models",
}  # drawn without a model


@pytest.mark.parametrize("name", MODEL_HANDLERS)
def test_model_handlers_use_the_model_queue(page, name):
    named = [fn for fn in page.fns.values() if getattr(fn.fn, "__qualname__", "") == name]
    asking = [
        fn for fn in named if not {each.elem_id for each in fn.outputs} <= OUTPUTS_WITHOUT_MODEL
    ]
    assert asking
    assert {(fn.concurrency_id, fn.concurrency_limit) for fn in asking} == {
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
    names = {*LONG_HANDLERS, "why", "find", "time_it"}
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
    module, attribute, work, asked = LONG_HANDLERS[name]
    monkeypatch.setattr(module, attribute, work)
    ((number, handler),) = [(i, fn.fn) for i, fn in page.fns.items() if fn.name == name]
    stops = page.fns[number - 1].fn.__self__  # its button arms it
    person("anna")
    stops.start()
    stops.stop()
    found = handler(*asked)
    if inspect.isgenerator(found):
        last = deque(found, maxlen=1)
        assert name != "measure" or "cancelled" in last[0][0]
    else:
        assert "topped" in str(found)
    stops.start()  # and begun again it is not over
    with pytest.raises(pytest.fail.Exception, match="It went on"):
        deque(handler(*asked), maxlen=1)


def test_work_is_stopped_by_its_user_or_by_a_new_request(person):
    stops = Cancellation()
    person("anna")
    stops.start("cat")
    cat = stops.make_check("cat")
    assert is_stopped(stops.make_check("dog"))  # which was not asked for
    person("ben")
    stops.stop()  # he has nothing under way
    assert is_stopped(stops.make_check("cat"))
    stops.start("cat")
    assert not is_stopped(cat)
    person("anna")
    stops.stop_different("cat")  # the same drawn once more
    assert not is_stopped(cat)
    stops.start("cat")  # begun anew, which ends the first
    again = stops.make_check("cat")
    assert (is_stopped(cat), is_stopped(again)) == (True, False)
    stops.stop_different("dog")
    assert is_stopped(again)
    person("ben")
    assert not is_stopped(stops.make_check("cat"))


def test_session_state_has_a_time_to_live(page):
    states = [block for block in page.blocks.values() if isinstance(block, gr.State)]
    assert len(states) > 8
    assert all(state.time_to_live for state in states)
