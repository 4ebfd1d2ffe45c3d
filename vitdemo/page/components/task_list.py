"""Things that take their time (trainings, downloads), a line each: state, progress, and buttons.

    view = TaskList(elem_id="trainings", empty="No training has been started yet.")
    view.act(handler, ...)     # handler(event: gr.EventData, ...): `wanted(event, actions)`

A handler returns `Task`s. The value that reaches the script is a list of them:

    [{"name", "title", "state", "words", "note", "done": 0..1,
      "actions": [[what, label], ...]}, ...]

A bar is drawn where `done` is less than 1. The action "discard" asks first.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import gradio as gr
from gradio.events import EventListener

from vitdemo.errors import JobError
from vitdemo.page.components import Drawing, sent


@dataclass(frozen=True)
class Task:
    """One task: `words` say how it stands, `note` what more there is to say of it; it is shown by
    its `title`, or else its `name`."""

    name: str
    state: str
    words: str
    done: float
    actions: Sequence[tuple[str, str]]
    note: str = ""
    title: str = ""


class TaskList(Drawing):
    """See the module. Its event: `act`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("act"))  # listed, so that `gr.on` takes it

    def __init__(self, value: Sequence[Task] | None = None, *, empty: str = "", **options):
        super().__init__(value, empty=empty, **options)

    def drawn(self, value: Sequence[Task]) -> list[dict]:
        return [asdict(row) for row in value]


def wanted(event: gr.EventData, actions: Sequence[str]) -> tuple[str, str]:
    """(action, name of the task) that a browser asks for. Raises `JobError`."""
    data = sent(event)
    action, name = data.get("action"), data.get("name")
    if action not in actions or not isinstance(name, str):
        raise JobError("There is nothing of this kind on the page.")
    return action, name
