"""Texts of the browser: scripts contain none, and use all texts that Python defines."""

import re
import string
from pathlib import Path

import pytest

from tests.support.scripts import PLACEHOLDER, Literal, iterate_literals
from vitdemo import page
from vitdemo.page.texts import TEXTS

PAGE = Path(page.__file__).parent
SCRIPTS = sorted({*PAGE.rglob("*.js")} - {*(PAGE / "vendor").iterdir()})
# Literals that look like texts, with the reason why they are none.
ALLOWED = {
    "Notice": "kind of a block",
    "en": "language of numbers",
    "Overlay": "value of the URL parameter view",
    "Raw": "value of the URL parameter view",
    "map canvas": "selector",
    "system-ui, sans-serif": "fonts",
    f"{PLACEHOLDER}.md": "name of a file",
    f"data: {PLACEHOLDER}": "message of a response stream",
}
# Code before a literal that is no text: a selector, class, style or compared value.
CODE_CONTEXT = re.compile(
    r"(querySelector(All)?|closest|matches|toggle)\($"
    r"|(class(Name)?|style|transform|(data-)?pick)\"?: [^,{}]*$"
    r"|(className|\.cssText|\.style\.\w+|\bstyle) = [^;]*$"
    r"|\b(class|style|data-pick)=\"?\$\{[^{}]*$"  # an expression in a template
    r"|(===|!==) $"
)
CODE_PATTERN = re.compile(
    r"^(--)?(background(-image)?|color|colour|height|left|rows|shape|sheet|top|vd-width|width): "
    r"|^[a-z-]+\(.*\)$"  # CSS functions, as "rgb(1 2 3)"
    r"|^[.#\[]"  # selectors
    r"|\{ [a-z-]+: .* \}$"  # rules of a style sheet
)
LABEL_CONTEXT = re.compile(
    r"(\b(text|title|alt|label|caption|placeholder|ariaLabel)|\"aria-(label|valuetext)\"): [^,{}]*$"
    r"|\.(textContent|title|alt|placeholder|ariaLabel) = [^;]*$|\"aria-(label|valuetext)\", $"
)


def name_of(script: Path) -> str:
    """Return the name of a script; for a view, with its folder."""
    return f"{script.parent.name}/view.js" if script.name == "view.js" else script.name


def visible_part(literal: Literal) -> str:
    """Return what a user reads of a literal; of markup, its text and labels."""
    if not literal.before.endswith(("markup", "shapes")):
        return literal.text
    labels = re.findall(r'(?:aria-label|alt|title|placeholder)="([^"]*)"', literal.text)
    return " ".join([re.sub(r"<[^>]*>", " ", literal.text), *labels])


def is_text(literal: Literal) -> bool:
    """Return whether a user can read the literal: several words, a label, or a capitalised word.

    An error for developers begins with a lower-case letter.
    """
    if CODE_CONTEXT.search(literal.before) or CODE_PATTERN.search(literal.text):
        return False
    text = visible_part(literal)
    words = re.findall(r"[A-Za-z]{2,}", text.replace(PLACEHOLDER, " "))
    if literal.before.endswith("throw new Error("):
        return text[:1].isupper()
    if text != literal.text or LABEL_CONTEXT.search(literal.before):
        return bool(words)
    parts = len(words) + text.count(PLACEHOLDER)
    is_capitalised = bool(re.fullmatch(r"[A-Z][a-z]+[.:]? ?", text))
    return is_capitalised or (bool(words) and parts > 1 and " " in text.strip())


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_scripts_contain_no_texts(script):
    found = [
        f"{name_of(script)}:{literal.line}: {literal.text}"
        for literal in iterate_literals(script.read_text("utf-8"))
        if is_text(literal) and literal.text not in ALLOWED
    ]
    assert not found, "\n".join(found)


def read_keys(script: Path) -> tuple[set[tuple[str, str]], list[str]]:
    """Return the texts that a script uses as (feature, key), and its faulty uses.

    A script reads the texts of its own feature by the name `texts`.
    """
    source = re.sub(r"(?m)^\s*//.*$", "", script.read_text("utf-8"))
    own = re.findall(r"const texts = TEXTS\.(\w+);", source)
    others = re.findall(r"\bTEXTS\.(\w+)\.(\w+)", source)
    keys = set(re.findall(r"(?<![\w./])texts\.(\w+)", source)) if own else set()
    for name in re.findall(r"fillPlural\(\s*texts,\s*\"(\w+)\"", source):
        keys |= {f"{name}_one", f"{name}_other"}
    faults = [f"{script} has {len(own)} names of its texts"] if len(own) > 1 else []
    faults += [f"{script} computes a key" for _ in re.findall(r"(?<![\w.])texts\[", source)]
    return {*others, *((feature, key) for feature in own for key in keys)}, faults


def test_scripts_and_python_have_the_same_keys():
    used: set[tuple[str, str]] = set()
    for script in SCRIPTS:
        if script.name != "texts.js":  # which reads texts by any key
            keys, faults = read_keys(script)
            assert not faults
            used |= keys
    defined = {(feature, key) for feature, texts in TEXTS.items() for key in texts}
    assert used - defined == set(), "scripts use texts that Python does not define"
    assert defined - used == set(), "no script uses these texts"


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_scripts_fill_all_placeholders(script):
    source = re.sub(r"\s+", " ", script.read_text("utf-8"))
    feature = "".join(re.findall(r"const texts = TEXTS\.(\w+);", source))
    calls = re.findall(r"fill(?:Parts)?\( ?texts\.(\w+), \{ ([^{}]*?),? \},? ?\)", source)
    for key, values in calls:
        names = {value.split(":")[0].strip() for value in split_arguments(values)}
        assert names == set(placeholders(TEXTS[feature][key])), (feature, key)


def split_arguments(code: str) -> list[str]:
    """Split code at the commas outside parentheses."""
    while code != (code := re.sub(r"[(\[][^()\[\]]*[)\]]", "", code)):
        pass
    return code.split(",")


def placeholders(text: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]


def test_texts_have_named_placeholders_only():
    for texts in TEXTS.values():
        for text in texts.values():
            assert text.count("{") == len(re.findall(r"\{\w+\}", text)) == text.count("}")
