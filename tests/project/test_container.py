"""The steps of the Dockerfile in a clean folder, because tests cannot start a container."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.project.test_package import create_environment, install
from tests.support.page_requests import read_script, read_views
from tests.support.serving import ROOT, free_port, run_server
from vitdemo.cli import app
from vitdemo.lessons import LESSONS_FOLDER

PORT = "7860"
# A stub of a program that changes the system appends its command line to a log.
STUB = '#!/bin/sh\necho "$(basename "$0")" "$@" >> "$LOG"\n'


def read_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile as pairs of name and arguments."""
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", "")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


INSTRUCTIONS = read_instructions()


def arguments_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in INSTRUCTIONS if instruction == name]


def is_in_context(path: str) -> bool:
    """Return whether Docker sends the file `path` to the build: the last matching line decides."""
    included = True
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(.*/)?")
        pattern = pattern.replace(r"\*", "[^/]*")
        if re.match(rf"{pattern}(/|$)", path):
            included = line.startswith("!")
    return included


def copy_context(target: Path) -> None:
    """Copy the files that Docker sends to the build."""
    skipped = (".git", ".venv", "data", "runs")  # large; a test checks that they are not sent
    for top in (entry for entry in ROOT.iterdir() if entry.name not in skipped):
        for file in [top] if top.is_file() else top.rglob("*"):
            name = file.relative_to(ROOT)
            if file.is_file() and is_in_context(name.as_posix()):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (target / name).write_bytes(file.read_bytes())


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Commands that the build installs, and the command lines of stubs that it runs."""
    root = tmp_path_factory.mktemp("image")
    context, build, tools = root / "context", root / "build", root / "tools"
    copy_context(context)
    for folder in (build, tools):
        folder.mkdir()
    for name in ("pip", "uv", "useradd", "install"):
        (tools / name).write_text(STUB)
        (tools / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(root / "log")}
    programs = create_environment(root / "environment")
    for instruction, arguments in INSTRUCTIONS:
        if instruction == "COPY":
            *sources, target = arguments.split()
            for source in sources:
                subprocess.run(["cp", "-r", f"{context}/{source}", f"{build}/{target}"], check=True)
        elif instruction == "RUN":
            subprocess.run(["sh", "-e", "-c", arguments], cwd=build, env=environment, check=True)
            log = (root / "log").read_text().splitlines()
            if log[-1].startswith("uv pip install") and log[-1].endswith(" ."):
                assert "--no-deps" in log[-1]
                install(programs, build)
            for file in re.findall(r"-r (\S+)", arguments):
                assert (build / file).is_file()
    return programs, log


def test_only_files_of_the_package_are_sent_to_the_build(tmp_path):
    copy_context(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {
        *("vitdemo", "assets", "pyproject.toml", "requirements.txt", "requirements-dev.txt"),
        *("README.md", "LICENSE"),
    }
    folders = {entry.name for entry in (tmp_path / "assets").iterdir()}
    assert folders == {"runs", "ground_truth", "photos"}
    for path in (".git/config", ".venv/bin/python", "data/x", "runs/mine/config.json", "secret"):
        assert not is_in_context(path)
    assert not is_in_context("vitdemo/page/__pycache__/kit.cpython-312.pyc")
    assert is_in_context("vitdemo/runs/writer.py") and is_in_context("vitdemo/data/__init__.py")


def test_the_container_names_no_other_host_and_has_no_root_process():
    (base,) = arguments_of("FROM")
    assert re.fullmatch(r"python:[\w.-]+", base)
    others = [arguments for name, arguments in INSTRUCTIONS if name != "FROM"]
    hosts = re.findall(r"https?://([\w.]+)", " ".join(others))
    assert set(hosts) == {"127.0.0.1"}
    names = [name for name, _ in INSTRUCTIONS]
    (user,) = arguments_of("USER")
    assert user != "root" and names.index("USER") < names.index("ENTRYPOINT")
    assert "RUN" not in names[names.index("USER") :]


def test_the_build_installs_the_cpu_build_and_creates_the_volume_for_the_user(image):
    _, log = image
    (requirements,) = [line for line in log if "requirements.txt" in line]
    assert "--torch-backend=cpu" in requirements
    (volume,) = json.loads(arguments_of("VOLUME")[0])
    assert arguments_of("WORKDIR")[-1] == volume
    user = arguments_of("USER")[0]
    assert any(line.startswith("useradd ") and line.endswith(f" {user}") for line in log)
    assert f"install --directory --owner={user} --group={user} {volume}" in log


def test_the_container_serves_the_page_and_is_healthy(image, tmp_path):
    programs, _ = image
    port = str(free_port())
    assert arguments_of("EXPOSE") == [PORT]
    command = [
        *json.loads(arguments_of("ENTRYPOINT")[0].replace(PORT, port)),
        *["--no-download", "--root-path", "/vitdemo"],  # as in docs/deployment.md
    ]
    check = arguments_of("HEALTHCHECK")[0].replace(PORT, port)
    check = json.loads(check[check.index("CMD ") + len("CMD ") :])
    check[0] = str(programs / check[0])
    variables = {"PYTHONPATH": "", "HF_HOME": str(tmp_path / "models")}
    assert subprocess.run(check, capture_output=True).returncode != 0
    command[0] = str(programs / command[0])
    with run_server(command, int(port), tmp_path, variables, 400) as address:
        assert subprocess.run(check, capture_output=True).returncode == 0
        assert "STATE_KEYS" in read_script(address, "store/state.js")
        views = read_views(address, "lesson_panel", "models_table", lesson="1-tokens")
    lesson = (LESSONS_FOLDER / "en" / "1-tokens.md").read_text("utf-8")
    assert f"title: {views['lesson_panel']['lesson']['title']}\n" in lesson
    assert "vit-scratch" in json.dumps(views["models_table"])
    assert list(tmp_path.iterdir()) == []


def test_the_default_arguments_download_into_the_volume():
    args = app.build_parser().parse_args(
        [*json.loads(arguments_of("ENTRYPOINT")[0])[1:], *json.loads(arguments_of("CMD")[0])]
    )
    assert app.may_download(args) and args.data is None  # data/ of the working folder
    assert not app.is_local_only(args)
