"""The document of views without gradio; `tests/browser` shows it in Chromium."""

import json
import re

from tests.page.test_modules import find_unknown_names
from vitdemo.page.saved_view.html import IMPORT, resolve_import
from vitdemo.site.document import FILES, build_document


def test_document_contains_the_settings_and_files_without_gradio():
    given = {"places": {"answers": "</script>"}, "description": {"a": {"kind": "flag"}}}
    text = build_document(given, files_url="f")
    assert json.loads(re.search(r'id="site">(.*?)</script>', text)[1]) == given
    files = {path.removeprefix("f/") for path in re.findall(r'(?:src|href)="(f/[^"]*)"', text)}
    assert files == {"style.css", "site/main.js"} <= {*FILES}
    assert "gradio" not in text


def test_modules_import_files_that_exist(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    modules = {name for name in FILES if name.startswith("site/")}
    paths = [(name, path) for name in modules for _, path in IMPORT.findall(FILES[name].decode())]
    assert {resolve_import(*each) for each in paths} <= {*FILES}
    assert find_unknown_names(*(tmp_path / name for name in sorted(modules))) == []
