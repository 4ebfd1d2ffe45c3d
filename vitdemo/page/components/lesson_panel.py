"""The lesson that runs, beside every tab: its text, what to do, questions, and the way on.

    panel = LessonPanel(elem_id="lesson")
    panel.want(handler, None, panel)           # a lesson is to begin, and none was sent yet
    panel.visit(...)                           # the page's address names another view of Look

A handler returns lessons, their facts filled in. The script begins one when `vitdemo:lesson` is
dispatched with {name, step}, or when the page's address names one (`lesson=NAME&step=NUMBER`); it
keeps in the browser how far each came. The value that reaches it:

    {"lessons": [{"name", "title", "steps": [{"title", "text": [str, ...], "opens", "ring", "do",
     "task": {"kind", "where", "op", "value"} | None, "question": {...} | None}, ...]}, ...]}
"""

from collections.abc import Sequence
from dataclasses import asdict

from vitdemo.lessons import Lesson
from vitdemo.page.components import Drawing


class LessonPanel(Drawing):
    """See the module. Its events: `want`, `visit`."""

    def drawn(self, value: Sequence[Lesson]) -> dict:
        return {"lessons": [asdict(lesson) for lesson in value]}
