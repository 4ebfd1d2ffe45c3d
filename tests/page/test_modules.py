"""The page's scripts: ES modules, the names that they use, and the route that sends them."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.support.serving import ROOT
from vitdemo.page.modules import (
    FOLDER,
    MODULES,
    URL,
    build_app_options,
    build_first_head,
    build_head,
)


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(**build_app_options()))


def test_modules_are_sent_for_good_but_only_in_their_version(client):
    response = client.get(f"/{URL}/store.js")
    assert response.content == (FOLDER / "store.js").read_bytes()
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in response.headers["cache-control"]
    for path in ("modules/0/store.js", f"{URL}/__init__.py", f"{URL}/../page/store.js"):
        assert client.get(f"/{path}").status_code == 404


# Codes of TypeScript for a name that is not defined, and for an import that is not exported.
UNKNOWN_NAMES = re.compile(r"TS(?:2304|2305|2307|2552|2614|2724) \[ERROR\]: .*")


def find_unknown_names(*modules: Path) -> list[str]:
    """Return the messages about names that `modules` and their imports use but nobody defines."""
    deno = Path(sys.executable).with_name("deno")
    program = str(deno) if deno.exists() else shutil.which("deno")
    if program is None:
        pytest.skip("deno is not installed: see requirements-dev.txt")
    command = [program, "check", "--config", str(ROOT / "deno.json"), *map(str, modules)]
    variables = {**os.environ, "NO_COLOR": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120)
    assert "Check " in result.stderr, result.stderr
    return UNKNOWN_NAMES.findall(result.stderr)


def test_modules_use_only_names_that_exist(tmp_path):
    for name, content in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    wrong = tmp_path / "wrong.js"  # the only module with messages
    wrong.write_text('import { nothing } from "./store.js";\nundefinedName(nothing);\n')
    messages = find_unknown_names(tmp_path / "main.js", wrong)
    assert len(messages) == 2 and "'nothing'" in messages[0] and "'undefinedName'" in messages[1]


def test_head_preloads_all_modules_from_addresses_relative_to_the_page():
    links = re.findall(r'href="([^"]*)"', build_first_head())
    assert links == [f"./{URL}/{name}" for name in MODULES]
    assert f'"main": "./{URL}/main.js"' in build_head()


def test_vendored_library_is_the_file_of_its_npm_package():
    """`npm pack lit-html@3.3.3` has the file with this checksum, and the licence."""
    assert "3.3.3" in (FOLDER / "markup.js").read_text("utf-8")
    content = (FOLDER / "vendor" / "lit-html.js").read_bytes()
    assert b'litHtmlVersions??=[]).push("3.3.3")' in content
    checksum = "b878e7f95dec8a9b6e9b217faca6b6a11bad82ebc44c0caa77419ed83edd81f2"
    assert hashlib.sha256(content).hexdigest() == checksum
    assert "BSD 3-Clause" in (FOLDER / "vendor" / "lit-html.LICENSE").read_text("utf-8")
