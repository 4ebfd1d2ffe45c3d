"""Lessons as data, in one Markdown file per lesson and one folder per language (`en/`).

    ---
    title: From pixels to tokens
    minutes: 15
    goal: Describe the input of a Vision Transformer.
    figures: patches                 # figures of the handout, see `handout.py`; optional
    answers: gains                   # figures for the teacher's handout only; optional
    ---
    ## Dividing the image into patches           a step: its title, and up to 60 words of text
    **{vit.name}** reads {vit.patches} patches.   a fact of a run, see `facts.py`

    open: ?section=heads&model={vit.name}         the view to open, as a link to the page
    ring: #attention .large                       the element to outline, as a CSS selector
    cover: #answers                               the element to hide until the answer
    do: Point at the cat's eye.                   the task in words ...
    task: point                                   ... and its detection, see `TASK_PATTERNS`
    then: #answers                                the element to scroll to after the task
    show: #picture, #answers                      the parts of the page in Teach mode
    ask: How many patches are there?              or a question:
    number: {vit.patches} +- 0                    with a number and its tolerance,
    - [x] 64                                      or with choices, one of which is correct,
    - [ ] 32
    free: 8 rows of 8 patches.                    or with a sample answer
    because: 8 rows of 8.                         the explanation after the answer or the task

Lines that begin with a field's name and a colon are fields. Indented lines continue a field.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path

from vitdemo.context import AppContext
from vitdemo.errors import LessonError
from vitdemo.lessons.facts import (
    ReadFact,
    check_fact_names,
    find_run,
    lookup_fact,
    substitute_facts,
)

LESSONS_FOLDER = Path(__file__).parent
DEFAULT_LANGUAGE = "en"
MAX_STEP_WORDS = 60  # maximum number of words in the text of a step
MAX_LESSON_BYTES = 200_000
HEADER_FIELDS = ("title", "minutes", "goal")
FIGURE_FIELDS = ("figures", "answers")  # names of the handout's figures
SELECTOR_FIELDS = ("ring", "cover", "then", "show")  # the value is one CSS selector
STEP_FIELDS = {"open", *SELECTOR_FIELDS, "do", "task", "ask", "number", "free", "because"}
# Kinds of tasks. A task is completed only by an action of the user, not by a change of the page.
TASK_PATTERNS = {
    "point": re.compile(r"point"),  # point at a patch of the large map, with pointer or keys
    "press": re.compile(r"press (?P<where>.+)"),  # click a button, tab, link or cell
    "set": re.compile(r"set (?P<where>.+?) *(?P<op>>=|<=|=) *(?P<value>-?[\d.]+|\{\S+\})"),
    "choose": re.compile(r"choose (?P<where>[^=]+?)(?: *= *(?P<value>.+))?"),  # an option
    "see": re.compile(r"see (?P<where>[a-z]+) *= *(?P<value>\S+)"),  # a parameter in the address
    "shown": re.compile(r"shown (?P<where>.+)"),  # the element appears
}


@dataclass(frozen=True)
class LessonTask:
    """Task of a lesson step, whose completion the page detects, and the explanation `because`.

    `kind` is a key of `TASK_PATTERNS`, and the pattern of this key sets the other fields.
    """

    kind: str
    where: str = ""
    op: str = ""
    value: str = ""
    because: str = ""


@dataclass(frozen=True)
class LessonQuestion:
    """Question of a lesson step: the `text`, the answer and the explanation `because`.

    The answer is the choice with index `right`, a `number` with a `tolerance`, or the text `free`.
    """

    text: str
    choices: tuple[str, ...] = ()
    right: int = -1
    number: str = ""
    tolerance: str = "0"
    free: str = ""
    because: str = ""


@dataclass(frozen=True)
class LessonStep:
    """Step of a lesson: paragraphs `text`, and a task with its instruction `do`, or a question.

    The query string `opens` sets the view. The CSS selector `ring` selects the elements to outline,
    and `cover` the elements to hide until the answer. `then` selects the element to scroll to after
    the answer or the task.
    In Teach mode, only the elements `show` are visible, until a later step has `show` or `opens`.
    """

    title: str
    text: tuple[str, ...]
    opens: str = ""
    ring: str = ""
    cover: str = ""
    then: str = ""
    show: str = ""
    do: str = ""
    task: LessonTask | None = None
    question: LessonQuestion | None = None


@dataclass(frozen=True)
class Lesson:
    """Lesson with its steps; `name` is the file name without suffix, `minutes` the working time.

    `figures` are included in every handout, `answers` only in the teacher's version.
    """

    name: str
    title: str
    minutes: int
    goal: str
    steps: tuple[LessonStep, ...]
    figures: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


def read_lessons(*folders: Path) -> tuple[list[Lesson], list[str]]:
    """Read all lesson files in `folders`; return the lessons and the errors.

    Lessons are sorted by the number at the start of the name, and then by name.

    A file in a later folder replaces a file with the same name, so teachers can change a lesson.
    """
    lessons: dict[str, Lesson] = {}
    problems = []
    for path in [path for folder in folders for path in sorted(folder.glob("*.md"))]:
        try:
            lessons[path.stem] = read_lesson(path)
        except LessonError as error:
            problems.append(str(error))
    return [lessons[name] for name in sorted(lessons, key=get_sort_key)], problems


def get_sort_key(name: str) -> tuple[float, str]:
    """Return the key of a lesson's name that sorts "9-sinks" before "10-ground-truth"."""
    number = re.match(r"\d+", name)
    return (int(number[0]) if number else math.inf), name


def read_lesson(path: Path) -> Lesson:
    """Read a lesson file. Raises `LessonError` with the name of the file and the line."""
    try:
        if path.stat().st_size > MAX_LESSON_BYTES:
            raise LessonError(
                f"{path.name} is larger than {MAX_LESSON_BYTES // 1000} kB. Split the lesson."
            )
        return parse_lesson(path.read_text(encoding="utf-8-sig"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise LessonError(f"{path.name} cannot be read as UTF-8 text. Save it as UTF-8.") from error


def parse_lesson(text: str, file: str) -> Lesson:
    """Parse the text of a lesson. Raises `LessonError` with the name `file` and the line."""
    if not re.fullmatch(r"[a-z0-9-]{1,60}\.md", file):
        raise LessonError(
            f"{file}: rename the file. Use up to 60 lower-case letters, digits and '-', then '.md'."
        )
    try:
        lines = list(enumerate(text.splitlines(), 1))
        head, body = _parse_header(lines)
        steps = tuple(_parse_step(part) for part in _split_steps(body))
        return Lesson(Path(file).stem, steps=steps, **head)
    except _LessonSyntaxError as error:
        raise LessonError(f"{file}, line {error.line}: {error}") from error


def fill_facts(lesson: Lesson, context: AppContext, read_fact: ReadFact = lookup_fact) -> Lesson:
    """Replace each fact in `lesson` by its value from `read_fact`. Raises `MissingFact`."""
    find_cached = cache(partial(find_run, context))  # search for each run only once

    def fill(value):
        if isinstance(value, str):
            return substitute_facts(value, context, find_cached, read_fact)
        if isinstance(value, tuple):
            return tuple(fill(item) for item in value)
        if is_dataclass(value):
            values = {item.name: fill(getattr(value, item.name)) for item in fields(value)}
            return type(value)(**values)
        return value

    return fill(lesson)


class _LessonSyntaxError(Exception):
    def __init__(self, line: int, message: str):
        super().__init__(message)
        self.line = line


NumberedLine = tuple[int, str]  # line number and text


def _parse_header(lines: list[NumberedLine]) -> tuple[dict, list[NumberedLine]]:
    separators = [i for i, (_, text) in enumerate(lines) if text.strip() == "---"]
    if not lines or len(separators) < 2 or separators[0] != 0:
        raise _LessonSyntaxError(1, "the file must begin with a header between two lines '---'.")
    head = {}
    for number, text in lines[1 : separators[1]]:
        name, colon, value = text.partition(":")
        if not colon or name.strip() not in (*HEADER_FIELDS, *FIGURE_FIELDS):
            choices = ", ".join((*HEADER_FIELDS, *FIGURE_FIELDS))
            raise _LessonSyntaxError(
                number, f"unknown field '{text[:40]}'. The fields are {choices}."
            )
        head[name.strip()] = _checked_text(number, value.strip())
    for name in HEADER_FIELDS:
        if not head.get(name):
            raise _LessonSyntaxError(1, f"the header field '{name}' is missing. Add it.")
    if not head["minutes"].isdecimal() or not 0 < int(head["minutes"]) < 1000:
        raise _LessonSyntaxError(
            1, f"'minutes' is '{head['minutes']}', but must be a whole number from 1 to 999."
        )
    figures = {name: tuple(head.get(name, "").replace(",", " ").split()) for name in FIGURE_FIELDS}
    return head | figures | {"minutes": int(head["minutes"])}, lines[separators[1] + 1 :]


def _split_steps(lines: Iterable[NumberedLine]) -> list[list[NumberedLine]]:
    """Split the lines of a lesson into steps; the first line of a step is its title."""
    parts: list[list[NumberedLine]] = []
    for number, text in lines:
        if text.startswith("## "):
            parts.append([])
        elif not parts and text.strip():
            raise _LessonSyntaxError(number, "a step must begin with a line '## TITLE'.")
        if parts:
            parts[-1].append((number, text))
    if not parts:
        raise _LessonSyntaxError(1, "the lesson has no steps. Begin a step with a line '## TITLE'.")
    return parts


def _parse_step(step: list[NumberedLine]) -> LessonStep:
    (first, title), *rest = step
    text, parsed, lines, choices = _parse_fields(rest)
    word_count = sum(len(paragraph.split()) for paragraph in text)
    if word_count > MAX_STEP_WORDS:
        raise _LessonSyntaxError(
            first, f"the text has {word_count} words, more than {MAX_STEP_WORDS}. Shorten it."
        )
    if not text and "ask" not in parsed:
        raise _LessonSyntaxError(first, "the step has neither text nor question. Add one of them.")
    if "task" in parsed and "ask" in parsed:
        raise _LessonSyntaxError(
            lines["ask"], "a step cannot have both a task and a question. Use two steps."
        )
    opens = parsed.get("open", "")
    if opens and not re.fullmatch(r"\?[^\s#]*", opens):
        raise _LessonSyntaxError(
            lines["open"], f"'open' is '{opens[:60]}', but must be a query string '?...'."
        )
    for name in SELECTOR_FIELDS:
        if set(parsed.get(name, "")) & set("{}<;@"):
            raise _LessonSyntaxError(
                lines[name], f"'{name}' must be one CSS selector without {{}}<;@."
            )
    return LessonStep(
        _checked_text(first, title.removeprefix("## ").strip()),
        text,
        opens,
        **{name: parsed.get(name, "") for name in (*SELECTOR_FIELDS, "do")},
        task=_parse_task(parsed, lines),
        question=_parse_question(first, parsed, lines, choices),
    )


def _parse_fields(
    step: list[NumberedLine],
) -> tuple[tuple[str, ...], dict[str, str], dict[str, int], list[tuple[str, bool]]]:
    """Return paragraphs, fields and their line numbers by name, and choices.

    A choice is a pair of its text and True for a correct choice.
    """
    paragraphs: list[list[str]] = [[]]
    parsed: dict[str, str] = {}
    lines: dict[str, int] = {}
    choices: list[tuple[str, bool]] = []
    last = ""
    for number, line in step:
        name, colon, value = line.partition(":")
        if choice := re.match(r"- \[([ x])\] +(.+)", line):
            choices.append((_checked_text(number, choice[2]), choice[1] == "x"))
        elif colon and name in STEP_FIELDS:
            if name in parsed:
                raise _LessonSyntaxError(number, f"the field '{name}' occurs twice in one step.")
            parsed[name], lines[name] = _checked_text(number, value.strip()), number
            last = name
        elif last and line.startswith(" ") and line.strip():
            parsed[last] += f" {_checked_text(number, line.strip())}"
        elif not line.strip():
            paragraphs.append([])
        elif parsed or choices:
            raise _LessonSyntaxError(
                number,
                f"unknown field '{line[:40]}'. The fields are {', '.join(sorted(STEP_FIELDS))}.",
            )
        else:
            paragraphs[-1].append(_checked_text(number, line.strip()))
    return tuple(" ".join(part) for part in paragraphs if part), parsed, lines, choices


def _parse_task(parsed: dict[str, str], lines: dict[str, int]) -> LessonTask | None:
    for name, needed in (("do", "task"), ("task", "do")):
        if name in parsed and needed not in parsed:
            raise _LessonSyntaxError(
                lines[name], f"the field '{name}' requires the field '{needed}'."
            )
    if "task" not in parsed:
        return None
    text = parsed["task"]
    for kind, pattern in TASK_PATTERNS.items():
        if match := pattern.fullmatch(text):
            groups = match.groupdict(default="")
            return LessonTask(kind, **groups, because=parsed.get("because", ""))
    choices = ", ".join(TASK_PATTERNS)
    raise _LessonSyntaxError(
        lines["task"], f"'{text[:60]}' is not a task. Begin with one of {choices}."
    )


def _parse_question(
    first: int, parsed: dict[str, str], lines: dict[str, int], choices: list[tuple[str, bool]]
) -> LessonQuestion | None:
    kinds = [name for name in ("number", "free") if name in parsed] + ["choices"] * bool(choices)
    if "ask" not in parsed:
        if kinds or ("because" in parsed and "task" not in parsed):
            line = min(lines.values(), default=first)
            raise _LessonSyntaxError(line, "an answer requires the field 'ask'.")
        return None
    line = lines["ask"]
    if len(kinds) != 1:
        raise _LessonSyntaxError(
            line, "a question needs either a number, choices or a free answer."
        )
    question = partial(LessonQuestion, parsed["ask"], because=parsed.get("because", ""))
    if kinds == ["free"]:
        return question(free=parsed["free"])
    if kinds == ["number"]:
        text = parsed["number"].replace("±", "+-")
        value, _, tolerance = (part.strip() for part in text.partition("+-"))
        for part in (value, tolerance or "0"):
            if not re.fullmatch(r"-?\d+(\.\d+)?|\{[^{}\s]+\}", part):
                raise _LessonSyntaxError(
                    lines["number"], f"'{part}' is not a number like 5 or 0.5."
                )
        return question(number=value, tolerance=tolerance or "0")
    right = [i for i, (_, is_correct) in enumerate(choices) if is_correct]
    if len(choices) < 2 or len(right) != 1:
        raise _LessonSyntaxError(
            line, "a question needs two or more choices, exactly one of them correct ('- [x] ...')."
        )
    return question(choices=tuple(text for text, _ in choices), right=right[0])


def _checked_text(line: int, text: str) -> str:
    """Return `text` unchanged; raise `_LessonSyntaxError` if it contains an unknown fact."""
    try:
        check_fact_names(text)
    except LessonError as error:
        raise _LessonSyntaxError(line, str(error)) from error
    return text
