"""Run all tests, then some browser tests on a slow page. Repeat failed browser tests once.

python -m tests.support.repeat

A browser test that fails, and passes when it is repeated on a new page and server, is flaky. Up to
`MAX_FLAKY` of them do not fail the run. The last lines name them, with the traces of the failures.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

MAX_FLAKY = 2  # per run of this program
REPEATED_FOLDER = "tests/browser/"
TWO_PROCESSES = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
ALL_TESTS = ("--full",)
SLOW_PAGE = ("--slow-page", "tests/browser")
SAMPLE = ("--tenth", "--seed", "2")  # another seed chooses other tests


@dataclass
class Outcome:
    """Failed and flaky tests, with the traces of their failures; `code` is pytest's exit status."""

    code: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    flaky: dict[str, str] = field(default_factory=dict)


def run_pytest(*arguments: str) -> tuple[int, dict[str, str]]:
    """Run pytest; return its exit status and the traces of the failed tests by node id."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments]
        code = subprocess.run(command).returncode
        return code, read_failures(report.read_text("utf-8")) if report.exists() else {}


def read_failures(report: str) -> dict[str, str]:
    """Return the traces of all failures and errors in a JUnit `report`, by pytest's node id."""
    failures: dict[str, str] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        node = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        for trace in (*case.iter("failure"), *case.iter("error")):
            failures[node] = failures.get(node, "") + (trace.text or trace.get("message", ""))
    return failures


def run_and_repeat(*arguments: str, sample: tuple[str, ...] = ()) -> Outcome:
    """Run the tests of `arguments` and `sample`, and repeat failed browser tests without `sample`.

    Nothing is repeated if another test failed, or more than `MAX_FLAKY` tests.
    """
    code, failed = run_pytest(*TWO_PROCESSES, *arguments, *sample)
    is_repeatable = all(node.startswith(REPEATED_FOLDER) for node in failed)
    if not failed or not is_repeatable or len(failed) > MAX_FLAKY:
        return Outcome(code, failed)
    print(f"Repeating {len(failed)} failed browser tests on a new page and server.", flush=True)
    options = [each for each in arguments if each.startswith("--")]
    code, again = run_pytest(*options, *failed)
    flaky = {} if code and not again else {n: text for n, text in failed.items() if n not in again}
    return Outcome(code, {n: text for n, text in failed.items() if n not in flaky}, flaky)


def describe(outcomes: list[Outcome]) -> str:
    """Return the closing lines: the names and traces of flaky tests, and what failed the run."""
    flaky = {node: trace for each in outcomes for node, trace in each.flaky.items()}
    lines = [
        f"FLAKY {node} failed, and passed when it was repeated:\n{trace}"
        for node, trace in flaky.items()
    ]
    lines += [f"FAILED {node}" for each in outcomes for node in each.failed]
    if len(flaky) > MAX_FLAKY:
        lines.append(f"FAILED: {len(flaky)} tests are flaky, and at most {MAX_FLAKY} may be.")
    return "\n".join(lines)


def find_exit_status(outcomes: list[Outcome]) -> int:
    """Return the first exit status that is not 0; 1 if too many tests are flaky."""
    num_flaky = sum(len(each.flaky) for each in outcomes)
    codes = [each.code for each in outcomes] + [int(num_flaky > MAX_FLAKY)]
    return next(filter(None, codes), 0)


def main() -> int:
    outcomes = [run_and_repeat(*ALL_TESTS)]
    if not outcomes[0].code:
        outcomes.append(run_and_repeat(*SLOW_PAGE, sample=SAMPLE))
    print(describe(outcomes))
    return find_exit_status(outcomes)


if __name__ == "__main__":
    sys.exit(main())
