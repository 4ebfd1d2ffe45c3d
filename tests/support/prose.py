"""Text of the project with its place: strings of the page, docstrings, comments, documentation."""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.scripts import iterate_literals, visible_part

ROOT = Path(__file__).parents[2]
PYTHON = ["app.py", "train.py", *(str(p.relative_to(ROOT)) for p in ROOT.glob("vitdemo/**/*.py"))]
SCRIPTS = [str(p.relative_to(ROOT)) for p in ROOT.glob("vitdemo/**/*.js")]
LESSONS = [str(p.relative_to(ROOT)) for p in ROOT.glob("vitdemo/lessons/en/*.md")]
DOCS = ["README.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md"))]
MIN_WORDS = 3  # a shorter string does not count as text


class Unit(NamedTuple):
    """One text with its place."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def is_prose(text: str) -> bool:
    """Return whether a string is text for people: several words, no query, selector or markup."""
    words = re.findall(r"[A-Za-z]{2,}", text)
    return len(words) >= MIN_WORDS and " " in text.strip() and not re.match(r"[?#./<{]", text)


def python_strings(files: list[str]) -> Iterator[Unit]:
    """Yield string literals that are text, without docstrings; template fields become {…}."""
    for file in sorted(files):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        skipped = {id(node) for node in docstring_nodes(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                skipped |= {id(part) for part in node.values}
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else "{…}" for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value if id(node) not in skipped else ""
            else:
                continue
            if is_prose(text):
                yield Unit(file, node.lineno, " ".join(text.split()))


def script_strings(files: list[str]) -> Iterator[Unit]:
    """Yield string and template literals of scripts that are text; expressions become {…}."""
    for file in sorted(files):
        for literal in iterate_literals((ROOT / file).read_text(encoding="utf-8")):
            text = " ".join(visible_part(literal).split())
            if is_prose(text):
                yield Unit(file, literal.line, text)


def docstring_nodes(tree: ast.AST) -> Iterator[ast.Constant]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and node.body and isinstance(node.body[0], ast.Expr):
            value = node.body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def docstrings(files: list[str]) -> Iterator[Unit]:
    for file in sorted(files):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        for node in docstring_nodes(tree):
            yield Unit(file, node.lineno, " ".join(node.value.split()))


def comments(files: list[str]) -> Iterator[Unit]:
    """Yield comments of several words; consecutive lines are one comment."""
    for file in sorted(files):
        source = (ROOT / file).read_text(encoding="utf-8")
        blocks: list[Unit] = []
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type != tokenize.COMMENT or "noqa" in token.string or "fmt:" in token.string:
                continue
            text, line = token.string.lstrip("# "), token.start[0]
            if blocks and blocks[-1].line == line - 1:
                text = f"{blocks.pop().text} {text}"
            blocks.append(Unit(file, line, text))
        yield from (unit for unit in blocks if is_prose(unit.text))


def markdown(files: list[str]) -> Iterator[Unit]:
    """Yield sentences of Markdown files, without code blocks, front matter and tables."""
    for file in sorted(files):
        fenced = False
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
            fenced ^= line.startswith("```")
            if fenced or line.startswith(("```", "    ", "|", "open:", "ring:", "task:", "#")):
                continue
            for sentence in re.split(r"(?<=[.?!:])\s+", line):
                if is_prose(sentence):
                    yield Unit(file, number, sentence)


@functools.cache
def units() -> dict[str, list[Unit]]:
    """Return all texts by kind, in the order of their files."""
    return {
        "strings": [*python_strings(PYTHON), *script_strings(SCRIPTS)],
        "docstrings": list(docstrings(PYTHON)),
        "comments": list(comments(PYTHON)),
        "lessons": list(markdown(LESSONS)),
        "docs": list(markdown(DOCS)),
    }
