"""Lesson panel next to all tabs: text, task or question of the current step, and navigation.

    panel = LessonPanel(elem_id="lesson")
    panel.want(handler, None, panel)           # a lesson starts, but the lessons were not sent yet

A handler returns lessons with filled-in facts. The script starts a lesson when `vitdemo:lesson` is
dispatched with {name, step}, or if the page's address names one (`lesson=NAME&step=NUMBER`). It
saves the progress in the browser. It receives:

    {"lessons": [{"name", "title", "steps": [{"title", "text": [str, ...], "opens", "ring", "do",
     "task": {"kind", "where", "op", "value"} | None, "question": {...} | None}, ...]}, ...]}
"""

from collections.abc import Sequence
from dataclasses import asdict

from vitdemo.lessons import Lesson
from vitdemo.page.components import View


class LessonPanel(View):
    """Panel with the current lesson; the module docstring explains `want`."""

    def to_payload(self, value: Sequence[Lesson]) -> dict:
        return {"lessons": [asdict(lesson) for lesson in value]}
