"""Messages name only buttons that the page has."""

import ast
import re
from pathlib import Path

import vitdemo

PACKAGE = Path(vitdemo.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
PRESS = re.compile(r"[Pp]ress (?:the button )?(['\"])(.+?)\1")


def list_texts() -> list[str]:
    """Return all string literals of the package; parts of an f-string count as several."""
    trees = [ast.parse(file.read_text("utf-8")) for file in FILES]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [node.value for node in nodes if isinstance(node.value, str)]


def test_messages_name_existing_buttons():
    texts, scripts = list_texts(), "".join(f.read_text("utf-8") for f in PACKAGE.rglob("*.js"))
    named = {label for text in (*texts, scripts) for _, label in PRESS.findall(text)}
    assert "Train classifier" in named
    missing = named - {*texts}
    assert not [
        label for label in missing if not re.search(rf'[">]{re.escape(label)}["<]', scripts)
    ]
