"""Start the page of `app.py` with tasks that wait while a file exists, so that tests cancel them.

A task waits after each report, and before it returns, while the first folder of `--runs` contains
`HOLD_FILE`. A cancellation ends the wait.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import app
from vitdemo.page.bridge import TaskRunner
from vitdemo.page.feature import Report, Task

HOLD_FILE = "hold"
PROGRAM = "tests.support.held_tasks"
SECONDS = 0.05  # between two checks


def hold_tasks(file: Path) -> None:
    """Make the tasks of all pages of this process wait while `file` exists."""
    start = TaskRunner.__init__

    def start_with_held_tasks(self, context, tasks: Mapping[str, Task]) -> None:
        start(self, context, {name: hold_task(task, file) for name, task in tasks.items()})

    TaskRunner.__init__ = start_with_held_tasks


def hold_task(task: Task, file: Path) -> Task:
    def run(context, state, report: Report) -> object:
        last = 0, 1, ""

        def wait() -> None:
            while file.exists():
                time.sleep(SECONDS)
                report(*last)  # raises `Stopped` after a cancellation

        def report_and_wait(done: int, total: int, text: str) -> None:
            nonlocal last
            last = done, total, text
            report(*last)
            wait()

        result = task(context, state, report_and_wait)
        wait()
        return result

    return run


def main(argv: list[str] | None = None) -> int:
    folder = argv[argv.index("--runs") + 1]
    hold_tasks(Path(folder) / HOLD_FILE)
    return app.main(argv)
