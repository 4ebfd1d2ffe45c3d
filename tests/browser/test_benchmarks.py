"""The benchmarks of the page find the elements and events that they measure."""

import pytest

from benchmarks import load, tabs
from benchmarks import page as page_benchmark
from tests.browser.actions import open_tab, wait_until_drawn
from tests.support.loops import run_coroutine

WITHOUT_DATASET = {"#errors-pictures .thumb", "#class-examples [data-pick]", "#classes figure"}


@pytest.fixture(scope="module")
def included_page(included_url, open_shared):
    page = open_shared(included_url, script=page_benchmark.JS_RECORD_ACTIONS)
    wait_until_drawn(page)
    return page


def test_actions_are_measured_once_each(included_page):
    watch = page_benchmark.Stopwatch(included_page)
    models = included_page.locator("#model option").evaluate_all("all => all.map(o => o.value)")
    page_benchmark.time_new_image(included_page, watch, 0)
    page_benchmark.time_model_change(included_page, watch, models[1])
    open_tab(included_page, "Fool the model")
    included_page.locator(page_benchmark.PREDICTIONS).wait_for()
    page_benchmark.time_patch_removal(included_page, watch, 0)
    assert watch.seconds.keys() == {"new image", "other model", "removed patch"}
    assert all(0 < each < 60 for seconds in watch.seconds.values() for each in seconds)


@pytest.mark.parametrize("tab", tabs.TAB_SELECTORS)
def test_every_tab_has_the_elements_that_are_waited_for(included_page, tab):
    open_tab(included_page, tab)
    for selector in set(tabs.TAB_SELECTORS[tab]) - WITHOUT_DATASET:
        included_page.locator(selector).first.wait_for()


def test_simulated_user_receives_all_files(included_url):
    measured = load.measure_load(included_url, 1, load.IMAGE_INTERVAL, same=False)
    row, errors = run_coroutine(measured)
    assert not errors
    assert row.startswith("1 | 1 | ")
