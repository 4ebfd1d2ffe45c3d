"""Cards of the available lessons, with goal, progress and a start button.

A handler returns a `LessonCatalog`. The script receives:

    {"lessons": [{"name", "title", "minutes", "goal", "steps": int}, ...],
     "missing": [{"titles": [str, ...], "words"}, ...], "problems": [str, ...]}
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vitdemo.lessons import Lesson
from vitdemo.page.components import View


@dataclass(frozen=True)
class LessonCatalog:
    """Available lessons, lessons with `missing` requirements, and errors in lesson files."""

    lessons: Sequence[Lesson]
    missing: Sequence[tuple[Lesson, str]] = ()
    problems: Sequence[str] = ()


class LessonList(View):
    """List of lesson cards."""

    def to_payload(self, value: LessonCatalog) -> dict:
        return {
            "lessons": [
                {
                    "name": lesson.name,
                    "title": lesson.title,
                    "minutes": lesson.minutes,
                    "goal": lesson.goal,
                    "steps": len(lesson.steps),
                }
                for lesson in value.lessons
            ],
            "missing": [
                {
                    "titles": [lesson.title for lesson, reason in value.missing if reason == words],
                    "words": words,
                }
                for words in dict.fromkeys(words for _, words in value.missing)
            ],
            "problems": list(value.problems),
        }
