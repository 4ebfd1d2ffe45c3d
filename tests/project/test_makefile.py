"""The Makefile with and without uv, with stubs that record their arguments."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.serving import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
# A stub writes its name and arguments to a log. If it creates the environment, it adds its python.
# It fails for torch's own server, as without a connection, if `FAIL` is set.
STUB = """#!/bin/sh
echo "$(basename "$0")" "$@" >> "$LOG"
case "$*" in *venv*) mkdir -p .venv/bin && cp "$0" .venv/bin/python;; esac
case "$FAIL$*" in yes*torch-backend*) exit 1;; esac
"""
PIP = "python -m pip install --disable-pip-version-check -q"
UV = "uv pip install -q --python .venv/bin/python"


@pytest.fixture
def make(tmp_path):
    """Runner of `make` with stubs of some programs, which returns the recorded commands."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "make", "mkdir", "cp", "rm", "touch", "basename"):
        (tools / name).symlink_to(shutil.which(name))

    def run(*arguments: str, stubs: tuple[str, ...], fail: str = "") -> list[str]:
        for name in stubs:
            write_stub(tools / name)
        log = tmp_path / "log"
        log.write_text("")
        environment = {"PATH": str(tools), "LOG": str(log), "HOME": os.environ.get("HOME", "/")}
        environment["FAIL"] = fail
        subprocess.run(["make", "-s", *arguments], cwd=tmp_path, env=environment, check=True)
        return log.read_text().splitlines()

    return run


def write_stub(path: Path) -> None:
    path.write_text(STUB)
    path.chmod(0o755)


def test_app_is_installed_and_downloads_the_dataset(make):
    install = f"python -m {UV} --torch-backend=auto -r requirements.txt"
    start = "python app.py --download"
    commands = ["python3 -m venv .venv", f"{PIP} uv", install, start]
    assert make("app", stubs=("python3",)) == commands
    assert make("app", "ARGS=--no-download", stubs=()) == [f"{start} --no-download"]


@pytest.mark.parametrize(("program", "fallback"), [("python3", PIP), ("uv", UV)])
def test_torch_is_installed_from_pypi_if_its_own_server_is_not_available(make, program, fallback):
    commands = make("app", stubs=(program,), fail="yes")
    assert commands[-3].endswith(f"{UV} --torch-backend=auto -r requirements.txt")
    assert commands[-2:] == [f"{fallback} -r requirements.txt", "python app.py --download"]


def test_app_is_installed_with_uv_if_there_is_one(make):
    venv = "uv venv -q --seed --python >=3.10 .venv"
    install = f"{UV} --torch-backend=auto -r requirements.txt"
    commands = make("app", stubs=("python3", "uv"))
    assert commands == [venv, install, "python app.py --download"]
    assert make("app", "PYTHON=python3.12", stubs=()) == ["python app.py --download"]


def test_uv_uses_the_chosen_python(make):
    assert make("app", "PYTHON=python3.12", stubs=("uv",))[0].endswith("--python python3.12 .venv")


def test_environment_with_another_torch_is_kept(make, tmp_path):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    write_stub(tmp_path / ".venv" / "bin" / "python")
    assert make("app", stubs=("python3",))[0].startswith("python -m pip install")
