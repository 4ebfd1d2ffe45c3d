"""The available lessons as numbered cards, with thumbnail, goal, progress and buttons.

{"lessons": [{"name", "title", "minutes", "goal", "steps": number of steps,
              "thumbnail": file or None}, ...],
 "messages": sentences about lessons that are not available}
"""

from collections.abc import Sequence
from pathlib import Path

from vitdemo.context import AppContext
from vitdemo.errors import LessonError
from vitdemo.lessons import Lesson, fill_facts, read_lessons
from vitdemo.lessons.facts import MissingFact, fact_placeholder
from vitdemo.lessons.thumbnails import SUFFIX, find_thumbnail
from vitdemo.page.bridge import CachedFile
from vitdemo.page.components import hash_name
from vitdemo.page.view_state import ViewState, needs

VIEW = "lesson_catalog"
NO_LESSON_MESSAGE = "There is no lesson '{name}'. Choose a lesson in the tab Lessons."
MISSING_MESSAGES = {  # whether several lessons have the same requirement -> message
    False: "{titles} is not available. Required: {requirement}.",
    True: "{titles} are not available. Required: {requirement}.",
}


@needs()
def payload(folders: Sequence[Path], context: AppContext, state: ViewState) -> dict:
    lessons, missing, problems = read_catalog(context, folders)
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
            for lesson in lessons
        ],
        "messages": [
            *(describe_missing(found, requirement) for requirement, found in missing.items()),
            *problems,
        ],
    }


def serve_thumbnail(folders: Sequence[Path], name: str) -> CachedFile | None:
    """Return the thumbnail of a lesson as a file, or None without a thumbnail."""
    content = find_thumbnail(folders, name)
    return content and CachedFile(hash_name(content, SUFFIX), lambda: content)


def read_catalog(
    context: AppContext, folders: Sequence[Path]
) -> tuple[list[Lesson], dict[str, list[Lesson]], list[str]]:
    """Return available lessons, other lessons by missing requirement, and errors in lesson files.

    A lesson is available if all its runs are available. This function is fast, in contrast to
    `load_lesson`, which takes seconds.
    """
    read, problems = read_lessons(*folders)
    found, missing = [], {}
    for lesson in read:
        try:
            found.append(fill_facts(lesson, context, fact_placeholder))
        except MissingFact as error:
            missing.setdefault(str(error), []).append(lesson)
    return found, missing, problems


def load_lesson(context: AppContext, folders: Sequence[Path], name: str) -> Lesson:
    """Return a lesson with its facts. Raises `LessonError` if the lesson is not available."""
    lesson = next((each for each in read_lessons(*folders)[0] if each.name == name), None)
    if lesson is None:
        raise LessonError(NO_LESSON_MESSAGE.format(name=name))
    try:
        return fill_facts(lesson, context)
    except MissingFact as error:
        raise LessonError(describe_missing([lesson], str(error))) from error


def describe_missing(lessons: Sequence[Lesson], requirement: str) -> str:
    titles = ", ".join(f"'{lesson.title}'" for lesson in lessons)
    return MISSING_MESSAGES[len(lessons) > 1].format(titles=titles, requirement=requirement)
