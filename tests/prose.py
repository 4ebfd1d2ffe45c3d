"""Text of the project with its place: strings of the page, docstrings, comments, documentation.

`python -m tests.prose --seed 0` prints a random sample of each kind, with file and line, for a
reader who grades it against a style guide.
"""

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = ["app.py", "train.py", *(str(p.relative_to(ROOT)) for p in ROOT.glob("vitdemo/**/*.py"))]
SCRIPTS = [str(p.relative_to(ROOT)) for p in ROOT.glob("vitdemo/**/*.js")]
LESSONS = [str(p.relative_to(ROOT)) for p in ROOT.glob("vitdemo/lessons/en/*.md")]
DOCS = ["README.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md"))]
MIN_WORDS = 3  # of a string that counts as text
SAMPLE = {"strings": 60, "docstrings": 60, "comments": 40, "lessons": 40, "docs": 40}


@dataclass(frozen=True)
class Unit:
    """One text with its place."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def is_prose(text: str) -> bool:
    """Whether a string is text for people: some words, and no query, selector or markup alone."""
    words = re.findall(r"[A-Za-z]{2,}", text)
    return len(words) >= MIN_WORDS and " " in text.strip() and not re.match(r"[?#./<{]", text)


def python_strings(files: list[str]) -> Iterator[Unit]:
    """String literals that are text, without docstrings; a template's fields stay in braces."""
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
    """String and template literals of scripts that are text."""
    for file in sorted(files):
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
            code = re.sub(r"^\s*//.*", "", line)
            for match in re.finditer(r"\"([^\"]+)\"|`([^`]+)`|'([^']+)'", code):
                text = next(group for group in match.groups() if group)
                if is_prose(text):
                    yield Unit(file, number, text)


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
    """Comments of more than a word; consecutive lines are one comment."""
    for file in sorted(files):
        source = (ROOT / file).read_text(encoding="utf-8")
        found: list[Unit] = []
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type != tokenize.COMMENT or "noqa" in token.string or "fmt:" in token.string:
                continue
            text, line = token.string.lstrip("# "), token.start[0]
            if found and found[-1].line == line - 1:
                text = f"{found.pop().text} {text}"
            found.append(Unit(file, line, text))
        yield from (unit for unit in found if is_prose(unit.text))


def markdown(files: list[str]) -> Iterator[Unit]:
    """Sentences of Markdown files, without code blocks, front matter and tables."""
    for file in sorted(files):
        fenced = False
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
            fenced ^= line.startswith("```")
            if fenced or line.startswith(("```", "    ", "|", "open:", "ring:", "task:", "#")):
                continue
            for sentence in re.split(r"(?<=[.?!:])\s+", line):
                if is_prose(sentence):
                    yield Unit(file, number, sentence)


def units() -> dict[str, list[Unit]]:
    """All texts by kind, in the order of their files."""
    return {
        "strings": [*python_strings(PYTHON), *script_strings(SCRIPTS)],
        "docstrings": list(docstrings(PYTHON)),
        "comments": list(comments(PYTHON)),
        "lessons": list(markdown(LESSONS)),
        "docs": list(markdown(DOCS)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Print a random sample of the project's texts.")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    draw = random.Random(parser.parse_args().seed)
    for kind, found in units().items():
        print(f"\n## {kind}: {min(SAMPLE[kind], len(found))} of {len(found)}")
        for unit in draw.sample(found, min(SAMPLE[kind], len(found))):
            print(unit)


if __name__ == "__main__":
    main()
