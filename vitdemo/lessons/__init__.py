"""Lessons as data: a Markdown file each, in a folder for each language (`en/`).

    ---
    title: From pixels to tokens
    minutes: 15
    goal: Say what a Vision Transformer is given, and count it.
    figures: patches                 # of the hand-out, see `handout.py`; may be left out
    answers: gains                   # and those of the teacher's own alone, since they tell
    ---
    ## A picture is cut                           a step: its title, and up to 60 words of text
    **{vit.name}** cuts it into {vit.patches} patches.      a fact of a run, see `facts.py`

    open: ?section=heads&model={vit.name}         the view it speaks of, as a link to the page
    ring: #attention .large                       what to point at, a CSS selector
    cover: #answers                               what is hidden until the question is answered
    do: Point at the cat's eye.                   what to do, in words ...
    task: point                                   ... and how the page knows, see `TASKS`
    then: #answers                                what to bring into the window when it is done
    ask: How many patches are there?              or a question:
    number: {vit.patches} +- 0                    with a number and how far off counts as right,
    - [x] of many                                 or choices, of which one is right,
    - [ ] of few
    free: Because it is cut.                      or an answer that a person compares with theirs
    because: 8 rows of 8.                         the reason, shown behind the answer or the task

Lines that begin with a field's name and a colon are fields; a field goes on in indented lines.
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
MOST_WORDS = 60  # of a step's text
MOST_BYTES = 200_000
HEAD = ("title", "minutes", "goal")
FIGURES = ("figures", "answers")  # of the hand-out
SELECTORS = ("ring", "cover", "then")  # each is one CSS selector
FIELDS = {"open", *SELECTORS, "do", "task", "ask", "number", "free", "because"}
# How the page knows that a task is done: by the person's own click or change, not by its own.
TASKS = {
    "point": re.compile(r"point"),  # at a patch of the large map, by pointer or keys
    "press": re.compile(r"press (?P<where>.+)"),  # a button, tab, link or cell
    "set": re.compile(r"set (?P<where>.+?) *(?P<op>>=|<=|=) *(?P<value>-?[\d.]+|\{\S+\})"),
    "choose": re.compile(r"choose (?P<where>[^=]+?)(?: *= *(?P<value>.+))?"),  # by its words
    "see": re.compile(r"see (?P<where>[a-z]+) *= *(?P<value>\S+)"),  # a value of the page's address
    "shown": re.compile(r"shown (?P<where>.+)"),  # what is not there at first
}


@dataclass(frozen=True)
class Task:
    """`kind` is one of `TASKS`; what it needs of the others is filled."""

    kind: str
    where: str = ""
    op: str = ""
    value: str = ""
    because: str = ""


@dataclass(frozen=True)
class Question:
    """One of: `choices`, of which number `right` is; `number` with its `tolerance`; `free`."""

    words: str
    choices: tuple[str, ...] = ()
    right: int = -1
    number: str = ""
    tolerance: str = "0"
    free: str = ""
    because: str = ""


@dataclass(frozen=True)
class Step:
    """`text` is paragraphs; `opens` a query of the page's address; `ring`, `cover` and `then` are
    CSS selectors: what to point at, what to hide until it is answered, what to show then."""

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
    """`name` is its file's; `minutes` what a student needs; `figures` are the hand-out's, and
    `answers` those that only the teacher's has."""

    name: str
    title: str
    minutes: int
    goal: str
    steps: tuple[Step, ...]
    figures: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


def read_lessons(*folders: Path) -> tuple[list[Lesson], list[str]]:
    """The lessons in `folders` by the names of their files, and a sentence for each that is broken.

    Of files of the same name the last folder's counts, so that a teacher may replace one.
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
    """Raises `LessonError` naming the file and the line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LessonError(f"{path.name}: over {MOST_BYTES // 1000} kB, which is no lesson.")
        return parse(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise LessonError(f"{path.name}: it cannot be read as text.") from error


def parse(text: str, file: str) -> Lesson:
    """A lesson's text. Raises `LessonError` naming the `file` and the line."""
    if not re.fullmatch(r"[a-z0-9-]{1,60}\.md", file):
        raise LessonError(f"{file}: a lesson's name has small letters, digits and '-' alone.")
    try:
        lines = list(enumerate(text.splitlines(), 1))
        head, body = _front_matter(lines)
        steps = tuple(_step(part) for part in _parts(body))
        return Lesson(Path(file).stem, steps=steps, **head)
    except _Broken as error:
        raise LessonError(f"{file}, line {error.line}: {error}") from error


def with_facts(lesson: Lesson, workbench: Workbench, tell: Tell = looked_up) -> Lesson:
    """With the numbers of the runs as they are now, or `unread`. Raises `MissingFact`."""
    find = cache(partial(run_of, workbench))  # each run is looked for once

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


Line = tuple[int, str]  # its number and its text


def _front_matter(lines: list[Line]) -> tuple[dict, list[Line]]:
    ends = [i for i, (_, text) in enumerate(lines) if text.strip() == "---"]
    if not lines or len(ends) < 2 or ends[0] != 0:
        raise _Broken(1, "it has to begin with a head between two lines '---'.")
    found = {}
    for number, text in lines[1 : ends[1]]:
        name, colon, value = text.partition(":")
        if not colon or name.strip() not in (*HEAD, *FIGURES):
            raise _Broken(number, f"'{text[:40]}' is none of {', '.join((*HEAD, *FIGURES))}.")
        found[name.strip()] = _known(number, value.strip())
    for name in HEAD:
        if not found.get(name):
            raise _Broken(1, f"its head has no '{name}'.")
    if not found["minutes"].isdecimal() or not 0 < int(found["minutes"]) < 1000:
        raise _Broken(1, "'minutes' is a whole number.")
    drawn = {name: tuple(found.get(name, "").replace(",", " ").split()) for name in FIGURES}
    return found | drawn | {"minutes": int(found["minutes"])}, lines[ends[1] + 1 :]


def _parts(lines: Iterable[Line]) -> list[list[Line]]:
    """The lines of each step, its title first."""
    parts: list[list[Line]] = []
    for number, text in lines:
        if text.startswith("## "):
            parts.append([])
        elif not parts and text.strip():
            raise _Broken(number, "a step begins with '## ' and its title.")
        if parts:
            parts[-1].append((number, text))
    if not parts:
        raise _Broken(1, "it has no step: one begins with '## ' and its title.")
    return parts


def _step(lines: list[Line]) -> Step:
    (first, title), *rest = lines
    text, given, choices = _fields(rest)
    words = sum(len(paragraph.split()) for paragraph in text)
    if words > MOST_WORDS:
        raise _Broken(first, f"its text has {words} words, more than {MOST_WORDS}.")
    if not text and "ask" not in given:
        raise _Broken(first, "it has neither a text nor a question.")
    for one, other in (("do", "task"), ("task", "do")):
        if one in given and other not in given:
            raise _Broken(given[one][0], f"a '{one}' needs a '{other}'.")
    if "task" in given and "ask" in given:
        raise _Broken(given["ask"][0], "a task or a question, not both: make two steps of it.")
    opens = given.get("open", (0, ""))
    if opens[1] and not re.fullmatch(r"\?[^\s#]*", opens[1]):
        raise _Broken(opens[0], "'open' is the part of a link to the page from '?' on.")
    selectors = {name: given[name][1] for name in SELECTORS if name in given}
    for name, selector in selectors.items():
        if set(selector) & set("{}<;@"):
            raise _Broken(given[name][0], f"'{name}' is one CSS selector.")
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
    """Paragraphs, fields by name, and choices with whether each is right."""
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
                raise _Broken(number, f"a second '{name}' in one step.")
            given[name], last = (number, _known(number, value.strip())), name
        elif last and line.startswith(" ") and line.strip():
            given[last] = (given[last][0], f"{given[last][1]} {_known(number, line.strip())}")
        elif not line.strip():
            paragraphs.append([])
        elif given or choices:
            raise _Broken(number, f"'{line[:40]}' is none of {', '.join(sorted(FIELDS))}.")
        else:
            paragraphs[-1].append(_known(number, line.strip()))
    return tuple(" ".join(each) for each in paragraphs if each), given, choices


def _task(line: int, text: str, because: str) -> Task:
    for kind, form in TASKS.items():
        if found := form.fullmatch(text):
            needs = {name: each or "" for name, each in found.groupdict().items()}
            return Task(kind, **needs, because=because)
    raise _Broken(line, f"'{text[:60]}' is no task: one is {', '.join(TASKS)} ...")


def _question(given: dict[str, Line], choices: list[tuple[Line, bool]]) -> Question | None:
    kinds = [name for name in ("number", "free") if name in given] + ["choices"] * bool(choices)
    if "ask" not in given:
        if kinds or ("because" in given and "task" not in given):
            raise _Broken(min(line for line, _ in given.values()), "an answer needs an 'ask'.")
        return None
    line, words = given["ask"]
    if len(kinds) != 1:
        raise _Broken(line, "a question has one of: a number, choices, or a free answer.")
    because = given.get("because", (0, ""))[1]
    if kinds == ["free"]:
        return Question(words, free=given["free"][1], because=because)
    if kinds == ["number"]:
        at, text = given["number"]
        value, _, tolerance = (part.strip() for part in text.replace("±", "+-").partition("+-"))
        for part in (value, tolerance or "0"):
            if not re.fullmatch(r"-?\d+(\.\d+)?|\{[^{}\s]+\}", part):
                raise _Broken(at, f"'{part}' is no number.")
        return Question(words, number=value, tolerance=tolerance or "0", because=because)
    right = [i for i, (_, is_right) in enumerate(choices) if is_right]
    if len(choices) < 2 or len(right) != 1:
        raise _Broken(line, "two choices or more, and one of them right: '- [x] ...'.")
    return Question(words, tuple(text for (_, text), _ in choices), right[0], because=because)


def _known(line: int, text: str) -> str:
    """`text`, if all facts that it names are known ones."""
    try:
        check_names(text)
    except LessonError as error:
        raise _Broken(line, str(error)) from error
    return text
