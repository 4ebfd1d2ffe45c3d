"""The available lessons as numbered cards, with thumbnail, goal, progress and buttons.

{"lessons": [{"name", "title", "minutes", "goal", "steps": number of steps,
              "thumbnail": file or None}, ...],
 "messages": sentences about lessons that are not available}
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vitdemo.context import AppContext
from vitdemo.errors import LessonError
from vitdemo.lessons import Lesson, fill_facts, read_lessons
from vitdemo.lessons.facts import MissingFact, fact_placeholder
from vitdemo.lessons.thumbnails import SUFFIX, find_thumbnail
from vitdemo.page.bridge import CachedFile, ViewState, add_view

VIEW = "lesson_catalog"
NO_LESSON_MESSAGE = "There is no lesson '{name}'. Choose a lesson in the tab Lessons."
MISSING_MESSAGES = {  # whether several lessons have the same requirement -> message
    False: "{titles} is not available. Required: {requirement}.",
    True: "{titles} are not available. Required: {requirement}.",
}

TEXTS = {
    "start": "Start",
    "continue": "Continue",
    "repeat": "Repeat",
    "start_over": "Start over",
    "teach": "Teach",
    "start_here": "Start here",
    "length": "{minutes} · {steps}",
    "minutes_one": "{count} minute",
    "minutes_other": "{count} minutes",
    "steps_one": "{count} step",
    "steps_other": "{count} steps",
    "begun": "{minutes} · step {step} of {steps}",
    "finished": "{minutes} · ✓ done",
}


@dataclass(frozen=True)
class LessonCatalog:
    """Available lessons, lessons with `missing` requirements, and errors in lesson files."""

    lessons: Sequence[Lesson]
    missing: Sequence[tuple[Lesson, str]] = ()
    problems: Sequence[str] = ()


def build() -> None:
    """Lay out the view, which the browser draws."""
    add_view(VIEW, elem_id="lessons")


def payload(folders: Sequence[Path], context: AppContext, state: ViewState) -> dict:
    """Return the cards of all lessons in `folders` whose models are available."""
    catalog = read_catalog(context, folders)
    requirements = dict.fromkeys(requirement for _, requirement in catalog.missing)
    return {
        "lessons": [
            {
                "name": lesson.name,
                "title": lesson.title,
                "minutes": lesson.minutes,
                "goal": lesson.goal,
                "steps": len(lesson.steps),
                "thumbnail": serve_thumbnail(folders, lesson.name),
            }
            for lesson in catalog.lessons
        ],
        "messages": [
            *(
                describe_missing(
                    [each for each, r in catalog.missing if r == requirement], requirement
                )
                for requirement in requirements
            ),
            *catalog.problems,
        ],
    }


def serve_thumbnail(folders: Sequence[Path], name: str) -> CachedFile | None:
    """Return the thumbnail of a lesson as a file, None without one."""
    content = find_thumbnail(folders, name)
    if content is None:
        return None
    digest = hashlib.blake2b(content, digest_size=12).hexdigest()
    return CachedFile(f"{digest}{SUFFIX}", lambda: content)


def read_catalog(context: AppContext, folders: Sequence[Path]) -> LessonCatalog:
    """Return the lessons in `folders`, without computing their facts.

    A lesson is available if all its runs are. `load_lesson` computes the facts, which takes
    seconds.
    """
    read, problems = read_lessons(*folders)
    found, missing = [], []
    for lesson in read:
        try:
            found.append(fill_facts(lesson, context, fact_placeholder))
        except MissingFact as error:
            missing.append((lesson, str(error)))
    return LessonCatalog(found, missing, problems)


def load_lesson(context: AppContext, folders: Sequence[Path], name: str) -> Lesson:
    """Return the lesson called `name` with its facts.

    Raises `LessonError` if there is no such lesson, or if one of its facts is not available.
    """
    lesson = next((each for each in read_lessons(*folders)[0] if each.name == name), None)
    if lesson is None:
        raise LessonError(NO_LESSON_MESSAGE.format(name=name))
    try:
        return fill_facts(lesson, context)
    except MissingFact as error:
        raise LessonError(describe_missing([lesson], str(error))) from error


def describe_missing(lessons: Sequence[Lesson], requirement: str) -> str:
    """Return the sentence about lessons that have the same missing requirement."""
    titles = ", ".join(f"'{lesson.title}'" for lesson in lessons)
    return MISSING_MESSAGES[len(lessons) > 1].format(titles=titles, requirement=requirement)
