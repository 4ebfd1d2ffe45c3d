"""The trainings of the page: state, progress, and buttons that change it; discarding asks first.

    view = Trainings(elem_id="trainings")
    view.act(handler, ...)     # handler(event: gr.EventData, ...): `wanted(event)`

A handler returns `Row`s, the newest first. The value that reaches the script is a list of them:

    [{"name", "state", "words", "note", "done": 0..1, "actions": [[what, label], ...]}, ...]
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import gradio as gr
from gradio.events import EventListener

from vitdemo.errors import JobError
from vitdemo.page.components import Drawing, sent


@dataclass(frozen=True)
class Row:
    """One training: `words` say how it stands, `note` what it gained beside what was guessed."""

    name: str
    state: str
    words: str
    done: float
    actions: Sequence[tuple[str, str]]
    note: str = ""


class Trainings(Drawing):
    """See the module. Its event: `act`."""

    EVENTS = (*gr.HTML.EVENTS, EventListener("act"))  # listed, so that `gr.on` takes it

    def postprocess(self, value: Sequence[Row] | None) -> list[dict]:
        return [asdict(row) for row in value or ()]


def wanted(event: gr.EventData, actions: Sequence[str]) -> tuple[str, str]:
    """(action, name of the training) that a browser asks for. Raises `JobError`."""
    data = sent(event)
    action, name = data.get("action"), data.get("name")
    if action not in actions or not isinstance(name, str):
        raise JobError("There is nothing of this kind on the page.")
    return action, name
