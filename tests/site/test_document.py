"""The document of views without gradio; `tests/browser` shows it in Chromium."""

import gzip
import hashlib
import json
import re

from tests.page.test_modules import find_unknown_names
from vitdemo.page.saved_view.html import IMPORT, resolve_import
from vitdemo.site.document import FILES, build_document, read_runtime

CHECKSUMS = """
219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b ort.wasm.min.mjs
e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b ort-wasm-simd-threaded.mjs
3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2 ort-wasm-simd-threaded.wasm
"""


def test_document_contains_the_settings_and_files_without_gradio():
    given = {"places": {"answers": "</script>"}, "description": {"a": {"kind": "flag"}}}
    text = build_document(given, files_url="./f")
    assert json.loads(re.search(r'id="site">(.*?)</script>', text)[1]) == given
    assert re.findall(r'(?:src|href)="\./f/([^"]*)"', text) == ["style.css"]
    imports = json.loads(re.search(r'<script type="importmap">(.*?)</script>', text)[1])["imports"]
    entry = re.search(r'import "(.*?)"', text)[1]
    assert {entry.replace(*each) for each in imports.items()} == {"./f/site/main.js"}
    assert {"style.css", "site/main.js"} <= {*FILES}
    assert "gradio" not in text


def test_modules_import_files_that_exist(tmp_path):
    files = FILES | read_runtime()
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    modules = {name for name in FILES if name.startswith("site/")}
    paths = [(name, path) for name in modules for _, path in IMPORT.findall(FILES[name].decode())]
    assert {resolve_import(*each) for each in paths} <= {*files}
    assert find_unknown_names(*(tmp_path / name for name in sorted(modules))) == []


def test_vendored_runtime_is_that_of_its_npm_package():
    """`npm pack onnxruntime-web@1.30.0` has these files; the WebAssembly is compressed here."""
    files = {path.rpartition("/")[2]: content for path, content in read_runtime().items()}
    wasm = "ort-wasm-simd-threaded.wasm"
    files[wasm] = gzip.decompress(files[f"{wasm}.gz"])
    for checksum, name in map(str.split, CHECKSUMS.strip().splitlines()):
        assert hashlib.sha256(files[name]).hexdigest() == checksum
    assert files["onnxruntime-web.LICENSE"].startswith(b"MIT License")
    assert b"THIRD PARTY" in files["onnxruntime-web.NOTICES.txt"].upper()
