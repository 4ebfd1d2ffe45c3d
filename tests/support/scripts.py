"""String literals of JavaScript files, with their place and the code before them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

STRING = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
TOKEN = re.compile(rf"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>{STRING})|(?P<open>`)", re.DOTALL)
BEFORE_REGEX = re.compile(r"(?:^|[(,=:\[!&|?{};+>]|\breturn)\s*$")
PLACEHOLDER = "{…}"  # stands for an expression in a template literal


@dataclass(frozen=True)
class Literal:
    """A string or template literal; `before` is the code or the template text before it."""

    line: int
    text: str
    before: str


def iterate_literals(source: str) -> Iterator[Literal]:
    """Yield all literals of a script, also those inside the expressions of template literals."""
    yield from _read_code(source, 0, "")[0]


def _read_code(source: str, at: int, end: str, code: str = "") -> tuple[list[Literal], int]:
    """Read code after `code` until its closing bracket `end`.

    Return its literals and the next position.
    """
    found: list[Literal] = []
    depth = 0
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None and source[at] == "/" and BEFORE_REGEX.search(code):
            regex = REGEX.match(source, at)
            at, code = (regex.end(), code + "/…/") if regex else (at + 1, code + "/")
        elif match is None:
            letter = source[at]
            depth += (letter == "{") - (letter == "}")
            at += 1
            if end and depth < 0:
                return found, at
            code += letter
        elif match["comment"]:
            at = match.end()
        elif match["string"]:
            line = source.count("\n", 0, at) + 1
            found.append(Literal(line, match["string"][1:-1], code[-200:]))
            at, code = match.end(), code + match["string"]
        else:
            literals, at = _read_template(source, match.end(), code[-200:])
            found += literals
            code += "`…`"
    return found, at


def _read_template(source: str, at: int, before: str) -> tuple[list[Literal], int]:
    """Read a template literal from after its first backtick."""
    line, text, inner = source.count("\n", 0, at) + 1, "", []
    while source[at] != "`":
        if source.startswith("${", at):
            literals, at = _read_code(source, at + 2, "}", f"{text[-200:]}${{")
            inner += literals
            text += PLACEHOLDER
        else:
            width = 2 if source[at] == "\\" else 1
            text += source[at : at + width]
            at += width
    return [Literal(line, text, before), *inner], at + 1


def visible_part(literal: Literal) -> str:
    """Return the part of a literal that a user reads: of markup, its text and labels."""
    if not literal.before.endswith(("markup", "shapes")):
        return literal.text
    labels = re.findall(r'(?:aria-label|alt|title|placeholder)="([^"]*)"', literal.text)
    return " ".join([re.sub(r"<[^>]*>", " ", literal.text), *labels])
