"""How the page is wired: its queues, long work that a person can stop, what it keeps of one."""

import asyncio
import inspect
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gradio as gr
import pytest

from tests.making import bench, make_run
from vitdemo.errors import Stopped
from vitdemo.jobs import Jobs
from vitdemo.page import build_page, compare, kit, own_classes
from vitdemo.page.compare import robustness
from vitdemo.page.data import similar
from vitdemo.page.kit import MODEL_QUEUE, Stops
from vitdemo.page.look.inside import ablation

STEP = SimpleNamespace(change="noise", accuracy=0.5, done=1, total=2)


def reporting(*_, report, **__):
    """Work that tells how far it is, and then more."""
    report(0.1, "the first step")
    pytest.fail("It went on.")


def positional(workbench, name, count, report):
    return reporting(report=report)


def stepping(*_):
    """Work in steps, of which the first is the last."""
    yield STEP
    pytest.fail("It went on.")


def timing(*_):
    pytest.fail("It went on.")


# The handler of each button: where the work lies that it does, and what it is asked with
WORK = {
    "lay_out": (similar, "planes", positional, ("vit", 200)),
    "train_them": (
        own_classes,
        "learn",
        reporting,
        (own_classes.Kept(), "vit"),
    ),
    "time_all": (compare, "latency", timing, ({},)),
    "measure_all": (robustness, "measure", stepping, (["vit"], ["noise"], 100)),
    "measure": (ablation, "accuracy_without", stepping, ("vit", "1.1", "vit", "mean")),
}


# Handlers that ask a model for an answer, by name: in every section of Look and of Data, and others
ASKING = (
    "Sections._draw_on.<locals>.draw_open",
    *(f"Look.{name}" for name in ("ask", "change_model", "view_of", "begin", "answer_again")),
    "Look.look_again",
    "Look.connect.<locals>.show",
    "Handlers.compare",
    *(f"build.<locals>.{name}" for name in ("classify", "maps", "maps_file")),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stops")
    make_run(folder / "runs" / "vit")
    workbench = bench(folder / "runs")
    workbench.sample = lambda run, count: range(count)  # the work itself is not done
    jobs = Jobs(folder / "trained", folder / "none", "cpu")

    async def built():
        return build_page(workbench, jobs)  # in no loop gradio makes some, and leaves them open

    with ThreadPoolExecutor(1) as thread:  # this one may have a loop, of tests in a browser
        return thread.submit(asyncio.run, built()).result()


@pytest.fixture
def person(monkeypatch):
    """person(name): whose events are answered from now on."""
    return lambda name: monkeypatch.setattr(kit, "visitor", lambda: name)


def is_over(raise_if_stopped) -> bool:
    try:
        raise_if_stopped()
    except Stopped:
        return True
    return False


def bound(page, method) -> list[Stops]:
    """Whose `method` of `Stops` a button of the page calls."""
    events = [each.fn for each in page.fns.values() if inspect.ismethod(each.fn)]
    return [fn.__self__ for fn in events if fn.__func__ is method]


OF_FILES = {"models", "reported", "gains-base", "gains", "robust-models"}  # drawn without a model


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_a_model_waits_for_a_turn(page, name):
    named = [fn for fn in page.fns.values() if getattr(fn.fn, "__qualname__", "") == name]
    asking = [fn for fn in named if not {each.elem_id for each in fn.outputs} <= OF_FILES]
    assert asking
    assert {(fn.concurrency_id, fn.concurrency_limit) for fn in asking} == {
        ("model", MODEL_QUEUE["concurrency_limit"])
    }


def test_no_tab_hides_where_the_window_is_narrow(page):
    tabs = [block for block in page.blocks.values() if isinstance(block, gr.Tabs)]
    assert len(tabs) >= 3
    assert {block.overflow_behavior for block in tabs} == {"wrap"}


def test_a_click_removes_16_patches_by_default(page):
    sliders = {getattr(block, "elem_id", None): block for block in page.blocks.values()}
    assert sliders["hands-count"].value == 16


def test_long_work_waits_for_its_like_alone(page):
    names = {*WORK, "why", "find", "time_it"}
    assert {fn.concurrency_id for fn in page.fns.values() if fn.name in names} == {"long"}
    assert {fn.concurrency_limit for fn in page.fns.values() if fn.concurrency_id == "long"} == {1}


def test_all_long_work_ends_in_the_one_way_and_has_a_button_for_it(page):
    assert len(bound(page, Stops.arm)) == len(WORK)
    assert bound(page, Stops.arm) == bound(page, Stops.stop)
    assert not any(each.cancels for each in page.fns.values())


@pytest.mark.parametrize("name", WORK)
def test_stop_ends_the_work_at_its_next_step(page, name, person, monkeypatch):
    module, attribute, work, asked = WORK[name]
    monkeypatch.setattr(module, attribute, work)
    ((number, handler),) = [(i, fn.fn) for i, fn in page.fns.items() if fn.name == name]
    stops = page.fns[number - 1].fn.__self__  # its button arms it
    person("anna")
    stops.arm()
    stops.stop()
    found = handler(*asked)
    if inspect.isgenerator(found):
        last = deque(found, maxlen=1)
        assert name != "measure" or "cancelled" in last[0][0]
    else:
        assert "topped" in str(found)
    stops.arm()  # and begun again it is not over
    with pytest.raises(pytest.fail.Exception, match="It went on"):
        deque(handler(*asked), maxlen=1)


def test_work_is_over_once_its_person_stops_it_or_asks_for_something_else(person):
    stops = Stops()
    person("anna")
    stops.arm("cat")
    cat = stops.watch("cat")
    assert is_over(stops.watch("dog"))  # which was not asked for
    person("ben")
    stops.stop()  # he has nothing under way
    assert is_over(stops.watch("cat"))
    stops.arm("cat")
    assert not is_over(cat)
    person("anna")
    stops.stop_others("cat")  # the same drawn once more
    assert not is_over(cat)
    stops.arm("cat")  # begun anew, which ends the first
    again = stops.watch("cat")
    assert (is_over(cat), is_over(again)) == (True, False)
    stops.stop_others("dog")
    assert is_over(again)
    person("ben")
    assert not is_over(stops.watch("cat"))


def test_what_a_page_keeps_of_a_person_is_forgotten_in_its_time(page):
    states = [block for block in page.blocks.values() if isinstance(block, gr.State)]
    assert len(states) > 8
    assert all(state.time_to_live for state in states)
