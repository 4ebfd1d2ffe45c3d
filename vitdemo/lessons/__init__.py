"""Lessons as data, in one Markdown file per lesson and one folder per language (`en/`).

    ---
    title: From pixels to tokens
    minutes: 15
    goal: Say what a Vision Transformer is given, and count it.
    figures: patches                 # of the handout, see `handout.py`; optional
    answers: gains                   # further figures of the teacher's handout; optional
    ---
    ## Dividing the image into patches           a step: its title, and up to 60 words of text
    **{vit.name}** reads {vit.patches} patches.   a fact of a run, see `facts.py`

    open: ?section=heads&model={vit.name}         the view to open, as a link to the page
    ring: #attention .large                       the element to outline, as a CSS selector
    cover: #answers                               the element to hide until the answer
    do: Point at the cat's eye.                   the task in words ...
    task: point                                   ... and how it is detected, see `TASKS`
    then: #answers                                the element to scroll to after the task
    ask: How many patches are there?              or a question:
    number: {vit.patches} +- 0                    with a number and its tolerance,
    - [x] 64                                      or with choices, one of which is correct,
    - [ ] 32
    free: 8 rows of 8 patches.                    or with a sample answer
    because: 8 rows of 8.                         the explanation after the answer or the task

Lines that begin with a field's name and a colon are fields. Indented lines continue a field.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial
from pathlib import Path

from vitdemo.errors import LessonError
from vitdemo.lessons.facts import Tell, check_names, filled, looked_up, run_of
from vitdemo.workbench import Workbench

FOLDER = Path(__file__).parent
LANGUAGE = "en"
MOST_WORDS = 60  # per step text
MOST_BYTES = 200_000
HEAD = ("title", "minutes", "goal")
FIGURES = ("figures", "answers")  # figures of the handout
SELECTORS = ("ring", "cover", "then")  # each is one CSS selector
FIELDS = {"open", *SELECTORS, "do", "task", "ask", "number", "free", "because"}
# Kinds of tasks; they are completed by a click or change of the user, not of the page itself.
TASKS = {
    "point": re.compile(r"point"),  # at a patch of the large map, with pointer or keys
    "press": re.compile(r"press (?P<where>.+)"),  # a button, tab, link or cell
    "set": re.compile(r"set (?P<where>.+?) *(?P<op>>=|<=|=) *(?P<value>-?[\d.]+|\{\S+\})"),
    "choose": re.compile(r"choose (?P<where>[^=]+?)(?: *= *(?P<value>.+))?"),  # by its label
    "see": re.compile(r"see (?P<where>[a-z]+) *= *(?P<value>\S+)"),  # a URL parameter
    "shown": re.compile(r"shown (?P<where>.+)"),  # an element that appears
}


@dataclass(frozen=True)
class Task:
    """A task; `kind` is a key of `TASKS`, and the other fields depend on it."""

    kind: str
    where: str = ""
    op: str = ""
    value: str = ""
    because: str = ""


@dataclass(frozen=True)
class Question:
    """A question with `choices` (index `right`), a `number` and `tolerance`, or a `free` answer."""

    words: str
    choices: tuple[str, ...] = ()
    right: int = -1
    number: str = ""
    tolerance: str = "0"
    free: str = ""
    because: str = ""


@dataclass(frozen=True)
class Step:
    """A step with paragraphs `text` and the query string `opens`.

    The CSS selectors `ring`, `cover` and `then` name the elements to outline, to hide until the
    answer, and to scroll to afterwards.
    """

    title: str
    text: tuple[str, ...]
    opens: str = ""
    ring: str = ""
    cover: str = ""
    then: str = ""
    do: str = ""
    task: Task | None = None
    question: Question | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Lesson:
    """A lesson; `name` is the stem of its file, `minutes` the expected working time.

    `figures` are shown on the handout, and `answers` only on the teacher's version.
    """

    name: str
    title: str
    minutes: int
    goal: str
    steps: tuple[Step, ...]
    figures: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


def read_lessons(*folders: Path) -> tuple[list[Lesson], list[str]]:
    """Read the lessons in `folders`, sorted by name, and return them and the errors.

    A file in a later folder replaces one of the same name, so that teachers can change a lesson.
    """
    found: dict[str, Lesson] = {}
    problems = []
    for path in [path for folder in folders for path in sorted(folder.glob("*.md"))]:
        try:
            found[path.stem] = read_lesson(path)
        except LessonError as error:
            problems.append(str(error))
    return [found[name] for name in sorted(found)], problems


def read_lesson(path: Path) -> Lesson:
    """Read a lesson file. Raises `LessonError` that names the file and the line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LessonError(
                f"{path.name} is larger than {MOST_BYTES // 1000} kB, the limit for a lesson."
            )
        return parse(path.read_text(encoding="utf-8-sig"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise LessonError(f"{path.name} cannot be read as UTF-8 text.") from error


def parse(text: str, file: str) -> Lesson:
    """Parse the text of a lesson. Raises `LessonError` that names the `file` and the line."""
    if not re.fullmatch(r"[a-z0-9-]{1,60}\.md", file):
        raise LessonError(
            f"{file}: the file name may only contain lower-case letters, digits and '-'."
        )
    try:
        lines = list(enumerate(text.splitlines(), 1))
        head, body = _front_matter(lines)
        steps = tuple(_step(part) for part in _parts(body))
        return Lesson(Path(file).stem, steps=steps, **head)
    except _Broken as error:
        raise LessonError(f"{file}, line {error.line}: {error}") from error


def with_facts(lesson: Lesson, workbench: Workbench, tell: Tell = looked_up) -> Lesson:
    """Replace the facts in a lesson by the values of `tell`. Raises `MissingFact`."""
    find = cache(partial(run_of, workbench))  # search for each run only once

    def fill(value):
        if isinstance(value, str):
            return filled(value, workbench, find, tell)
        if isinstance(value, tuple):
            return tuple(fill(each) for each in value)
        if is_dataclass(value):
            found = {each.name: fill(getattr(value, each.name)) for each in fields(value)}
            return type(value)(**found)
        return value

    return fill(lesson)


class _Broken(Exception):
    def __init__(self, line: int, words: str):
        super().__init__(words)
        self.line = line


Line = tuple[int, str]  # line number and text


def _front_matter(lines: list[Line]) -> tuple[dict, list[Line]]:
    ends = [i for i, (_, text) in enumerate(lines) if text.strip() == "---"]
    if not lines or len(ends) < 2 or ends[0] != 0:
        raise _Broken(1, "the file must begin with a header between two lines '---'.")
    found = {}
    for number, text in lines[1 : ends[1]]:
        name, colon, value = text.partition(":")
        if not colon or name.strip() not in (*HEAD, *FIGURES):
            known = ", ".join((*HEAD, *FIGURES))
            raise _Broken(number, f"unknown field '{text[:40]}'. The fields are {known}.")
        found[name.strip()] = _known(number, value.strip())
    for name in HEAD:
        if not found.get(name):
            raise _Broken(1, f"the field '{name}' is missing in the header.")
    if not found["minutes"].isdecimal() or not 0 < int(found["minutes"]) < 1000:
        raise _Broken(1, "'minutes' must be a whole number from 1 to 999.")
    drawn = {name: tuple(found.get(name, "").replace(",", " ").split()) for name in FIGURES}
    return found | drawn | {"minutes": int(found["minutes"])}, lines[ends[1] + 1 :]


def _parts(lines: Iterable[Line]) -> list[list[Line]]:
    """Return the lines of each step, beginning with its title."""
    parts: list[list[Line]] = []
    for number, text in lines:
        if text.startswith("## "):
            parts.append([])
        elif not parts and text.strip():
            raise _Broken(number, "a step must begin with '## ' and its title.")
        if parts:
            parts[-1].append((number, text))
    if not parts:
        raise _Broken(1, "the lesson has no steps. A step begins with '## ' and its title.")
    return parts


def _step(lines: list[Line]) -> Step:
    (first, title), *rest = lines
    text, given, choices = _fields(rest)
    words = sum(len(paragraph.split()) for paragraph in text)
    if words > MOST_WORDS:
        raise _Broken(first, f"the text has {words} words, more than the limit of {MOST_WORDS}.")
    if not text and "ask" not in given:
        raise _Broken(first, "the step has neither a text nor a question.")
    for one, other in (("do", "task"), ("task", "do")):
        if one in given and other not in given:
            raise _Broken(given[one][0], f"the field '{one}' requires the field '{other}'.")
    if "task" in given and "ask" in given:
        raise _Broken(
            given["ask"][0], "a step cannot have both a task and a question. Use two steps."
        )
    opens = given.get("open", (0, ""))
    if opens[1] and not re.fullmatch(r"\?[^\s#]*", opens[1]):
        raise _Broken(opens[0], "'open' must be a query string that begins with '?'.")
    selectors = {name: given[name][1] for name in SELECTORS if name in given}
    for name, selector in selectors.items():
        if set(selector) & set("{}<;@"):
            raise _Broken(given[name][0], f"'{name}' must be a single CSS selector.")
    return Step(
        _known(first, title.removeprefix("## ").strip()),
        text,
        opens[1],
        **selectors,
        do=given.get("do", (0, ""))[1],
        task=_task(*given["task"], given.get("because", (0, ""))[1]) if "task" in given else None,
        question=_question(given, choices),
        line=first,
    )


def _fields(lines: list[Line]) -> tuple[tuple[str, ...], dict[str, Line], list[tuple[Line, bool]]]:
    """Return paragraphs, fields by name, and choices with whether each is correct."""
    paragraphs: list[list[str]] = [[]]
    given: dict[str, Line] = {}
    choices: list[tuple[Line, bool]] = []
    last = ""
    for number, line in lines:
        name, colon, value = line.partition(":")
        choice = re.match(r"- \[([ x])\] +(.+)", line)
        if choice:
            choices.append(((number, _known(number, choice[2])), choice[1] == "x"))
        elif colon and name in FIELDS:
            if name in given:
                raise _Broken(number, f"the field '{name}' occurs twice in one step.")
            given[name], last = (number, _known(number, value.strip())), name
        elif last and line.startswith(" ") and line.strip():
            given[last] = (given[last][0], f"{given[last][1]} {_known(number, line.strip())}")
        elif not line.strip():
            paragraphs.append([])
        elif given or choices:
            known = ", ".join(sorted(FIELDS))
            raise _Broken(number, f"unknown field '{line[:40]}'. The fields are {known}.")
        else:
            paragraphs[-1].append(_known(number, line.strip()))
    return tuple(" ".join(each) for each in paragraphs if each), given, choices


def _task(line: int, text: str, because: str) -> Task:
    for kind, form in TASKS.items():
        if found := form.fullmatch(text):
            needs = {name: each or "" for name, each in found.groupdict().items()}
            return Task(kind, **needs, because=because)
    raise _Broken(line, f"'{text[:60]}' is not a task. A task begins with {', '.join(TASKS)}.")


def _question(given: dict[str, Line], choices: list[tuple[Line, bool]]) -> Question | None:
    kinds = [name for name in ("number", "free") if name in given] + ["choices"] * bool(choices)
    if "ask" not in given:
        if kinds or ("because" in given and "task" not in given):
            raise _Broken(
                min(line for line, _ in given.values()), "an answer requires the field 'ask'."
            )
        return None
    line, words = given["ask"]
    if len(kinds) != 1:
        raise _Broken(line, "a question needs either a number, choices or a free answer.")
    because = given.get("because", (0, ""))[1]
    if kinds == ["free"]:
        return Question(words, free=given["free"][1], because=because)
    if kinds == ["number"]:
        at, text = given["number"]
        value, _, tolerance = (part.strip() for part in text.replace("±", "+-").partition("+-"))
        for part in (value, tolerance or "0"):
            if not re.fullmatch(r"-?\d+(\.\d+)?|\{[^{}\s]+\}", part):
                raise _Broken(at, f"'{part}' is not a number.")
        return Question(words, number=value, tolerance=tolerance or "0", because=because)
    right = [i for i, (_, is_right) in enumerate(choices) if is_right]
    if len(choices) < 2 or len(right) != 1:
        raise _Broken(
            line, "a question needs two or more choices, exactly one of them correct ('- [x] ...')."
        )
    return Question(words, tuple(text for (_, text), _ in choices), right[0], because=because)


def _known(line: int, text: str) -> str:
    """Return `text` after checking that all facts in it exist."""
    try:
        check_names(text)
    except LessonError as error:
        raise _Broken(line, str(error)) from error
    return text
