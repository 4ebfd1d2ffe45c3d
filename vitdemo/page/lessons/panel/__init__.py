"""Lesson panel next to all tabs: text, task or question of the current step, and navigation.

The chosen lesson and its step are the state keys `LESSON` and `LESSON_STEP`. The payload:

    {"lesson": {"name", "title", "goal", "steps": [{"title", "text": [str, ...], "opens", "ring",
     "cover", "then", "show", "do", "task": {"kind", "where", "op", "value", "because"} or None,
     "question": {...} or None}, ...]},
     "next": {"name", "title"} of the next available lesson, or None}
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from vitdemo.context import AppContext
from vitdemo.lessons import get_sort_key
from vitdemo.page import state_keys as keys
from vitdemo.page.lessons.catalog import load_lesson, read_catalog
from vitdemo.page.view_state import ViewState, needs

VIEW = "lesson_panel"


@needs(keys.LESSON)
def payload(folders: Sequence[Path], context: AppContext, state: ViewState) -> dict:
    lesson = load_lesson(context, folders, state[keys.LESSON])
    place = get_sort_key(lesson.name)
    later = [each for each in read_catalog(context, folders)[0] if get_sort_key(each.name) > place]
    following = {"name": later[0].name, "title": later[0].title} if later else None
    return {"lesson": asdict(lesson), "next": following}
