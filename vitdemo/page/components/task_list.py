"""Rows of long-running tasks (training runs, downloads) with state, progress and buttons.

`task_rows.js` draws a list of `Task`s, as dicts. A pressed button starts an action with the fields
{"action", "name"}. The action "discard" asks for confirmation. A progress bar is drawn if `done` is
less than 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vitdemo.errors import JobError


@dataclass(frozen=True)
class Task:
    """Row of the task list: `progress` is text, and `note` is a remark.

    The label is the `title`, or the `name` if `title` is empty. `done` is the progress, 0 to 1.
    `actions` are pairs of an action and its label. The `colour` is the colour of the run's curves,
    or "".
    """

    name: str
    state: str
    progress: str
    done: float
    actions: Sequence[tuple[str, str]]
    note: str = ""
    title: str = ""
    colour: str = ""


def parse_task_action(fields: Mapping[str, object], actions: Sequence[str]) -> tuple[str, str]:
    """Return action and task name of an action. Raises `JobError` for invalid fields."""
    action, name = fields.get("action"), fields.get("name")
    if action not in actions or not isinstance(name, str):
        raise JobError("This item no longer exists. Reload the page.")
    return action, name
