"""Failed browser tests are repeated once, and flaky ones are named."""

import pytest

from tests.support import repeat
from tests.support.repeat import Outcome

RACE, PAGE = "tests/browser/test_a.py::a[1]", "tests/browser/test_b.py::b"
UNIT = "tests/test_c.py::c"
REPORT = """<testsuites><testsuite>
<testcase classname="tests.browser.test_a" name="a[1]"><failure>first</failure></testcase>
<testcase classname="tests.browser.test_b" name="b"><error message="">at setup</error></testcase>
<testcase classname="tests.test_c" name="c" />
</testsuite></testsuites>"""


@pytest.fixture
def pytest_runs(monkeypatch):
    """Return a function that sets the results of pytest; its own result records the arguments."""

    def set_results(*results):
        left, calls = [*results], []

        def run_pytest(*arguments):
            calls.append(arguments)
            return left.pop(0)

        monkeypatch.setattr(repeat, "run_pytest", run_pytest)
        return calls

    return set_results


def test_failures_and_errors_are_read_by_node_id():
    assert repeat.read_failures(REPORT) == {RACE: "first", PAGE: "at setup"}


def test_a_test_that_passes_when_repeated_is_flaky_and_named_with_its_trace(pytest_runs):
    calls = pytest_runs((1, {RACE: "trace of the race"}), (0, {}))
    outcome = repeat.run_and_repeat("--slow-page", "tests/browser", sample=("--tenth",))
    assert calls[1] == ("--slow-page", RACE)
    assert outcome == Outcome(0, {}, {RACE: "trace of the race"})
    assert repeat.find_exit_status([outcome]) == 0
    assert f"FLAKY {RACE}" in repeat.describe([outcome])
    assert "trace of the race" in repeat.describe([outcome])


def test_a_test_that_fails_twice_fails_the_run(pytest_runs):
    pytest_runs((1, {RACE: "x", PAGE: "y"}), (1, {PAGE: "z"}))
    outcome = repeat.run_and_repeat()
    assert outcome == Outcome(1, {PAGE: "y"}, {RACE: "x"})
    assert repeat.find_exit_status([outcome]) == 1


@pytest.mark.parametrize(
    "failed",
    [{UNIT: "x"}, {RACE: "x", UNIT: "y"}, {f"{PAGE}{i}": "x" for i in range(3)}, {}],
    ids=["unit test", "unit and browser test", "three browser tests", "no report"],
)
def test_other_failures_are_not_repeated(pytest_runs, failed):
    calls = pytest_runs((2, failed))
    assert repeat.find_exit_status([repeat.run_and_repeat()]) == 2
    assert len(calls) == 1


def test_an_interrupted_repetition_proves_nothing(pytest_runs):
    pytest_runs((1, {RACE: "x"}), (4, {}))
    assert repeat.run_and_repeat() == Outcome(4, {RACE: "x"}, {})


def test_more_flaky_tests_than_allowed_fail_the_run():
    outcomes = [Outcome(flaky={RACE: "", PAGE: ""}), Outcome(flaky={UNIT: ""})]
    assert repeat.find_exit_status(outcomes) == 1
    assert "3 tests are flaky" in repeat.describe(outcomes)
