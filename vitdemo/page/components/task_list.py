"""List of long-running tasks (training runs, downloads) with state, progress and buttons.

    view = TaskList(elem_id="offered-models")
    view.act(handler, ...)  # handler(event: gr.EventData, ...): `parse_task_action(event, ...)`

A handler returns a list of `Task`s. The script `task_rows.js` receives:

    [{"name", "title", "state", "progress", "note", "done": 0..1,
      "actions": [[what, label], ...]}, ...]

A progress bar is drawn if `done` is less than 1. The action "discard" asks for confirmation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import gradio as gr
from gradio.events import EventListener

from vitdemo.errors import JobError
from vitdemo.page.components import View, event_payload


@dataclass(frozen=True)
class Task:
    """Row of the task list: `progress` is text, and `note` is a remark.

    The label is the `title`, or the `name` if `title` is empty. `done` is the progress, 0 to 1.
    """

    name: str
    state: str
    progress: str
    done: float
    actions: Sequence[tuple[str, str]]
    note: str = ""
    title: str = ""


class TaskList(View):
    """List of tasks; the event `act` means that the user pressed a button."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("act"))  # `gr.on` reads this list

    def postprocess(self, value: Sequence[Task] | None) -> dict | None:
        return super().postprocess(value and [asdict(row) for row in value])


def parse_task_action(event: gr.EventData, actions: Sequence[str]) -> tuple[str, str]:
    """Return action and task name of a browser event. Raises `JobError` for an invalid event."""
    data = event_payload(event)
    action, name = data.get("action"), data.get("name")
    if action not in actions or not isinstance(name, str):
        raise JobError("This item no longer exists. Reload the page.")
    return action, name
