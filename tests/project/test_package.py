"""The built wheel in an environment of its own; `test_container.py` starts its page."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.serving import ENVIRONMENT, ROOT
from vitdemo import __version__
from vitdemo.installation import find_included

BUILD_FILES = ("pyproject.toml", "requirements.txt", "README.md", "LICENSE")
NOT_INCLUDED = shutil.ignore_patterns("__pycache__")
MAX_WHEEL_MB = 78


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Wheel of this checkout, built without network access."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, source)
    for name in ("vitdemo", "assets"):
        shutil.copytree(ROOT / name, source / name, ignore=NOT_INCLUDED)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    command += ["--no-index", "-w", str(target), str(source)]
    subprocess.run(command, check=True)
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """Folder of the commands of an environment with the wheel."""
    programs = create_environment(tmp_path_factory.mktemp("environment"))
    install(programs, wheel)
    return programs


def create_environment(folder: Path) -> Path:
    """Create an environment that sees this environment's libraries; return its commands' folder."""
    venv.create(folder, symlinks=os.name != "nt")
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    print_path = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(programs / "python", "-c", print_path, cwd=folder).strip())
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return programs


def install(programs: Path, project: Path) -> None:
    """Install a wheel or a source folder without its dependencies and without network access."""
    command = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "-q"]
    offline = ("--no-deps", "--no-index", "--no-compile", "--no-build-isolation")
    subprocess.run([*command, *offline, str(project)], check=True)


def run(*command: object, cwd: Path) -> str:
    environment = os.environ | ENVIRONMENT | {"PYTHONPATH": ""}
    texts = [str(text) for text in command]
    return subprocess.run(
        texts, cwd=cwd, env=environment, capture_output=True, text=True, check=True
    ).stdout


def list_project_files(folder: str) -> set[str]:
    files = (file for file in (ROOT / folder).rglob("*") if file.is_file())
    return {
        file.relative_to(ROOT).as_posix()
        for file in files
        if file.suffix != ".pyc" and file.name != ".jobs.lock"
    }


def test_the_wheel_contains_all_files_of_the_package_and_no_others(wheel):
    expected = list_project_files("vitdemo")
    for folder in ("assets/runs", "assets/ground_truth", "assets/photos"):
        expected |= {f"vitdemo/{name}" for name in list_project_files(folder)}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected
    assert wheel.stat().st_size < MAX_WHEEL_MB * 1e6


def test_the_metadata_names_the_dependencies_of_requirements_txt_and_the_extras(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    assert f"\nVersion: {__version__}\n" in metadata
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    names = [re.match(r"[\w-]+", line)[0] for line in lines if line[0] != "#"]
    found = re.findall(r"^Requires-Dist: ([\w-]+)(.*)$", metadata, re.M)
    required = {name for name, rest in found if "extra ==" not in rest}
    assert required == {name.replace("_", "-") for name in names}
    extras = {(name, re.search(r"extra == '(\w+)'", rest)) for name, rest in found}
    assert {(name, extra[1]) for name, extra in extras if extra} == {
        ("gradio", "mcp"),
        ("onnx", "site"),
        ("onnx-ir", "site"),
        ("onnxscript", "site"),
        ("tensorboard", "tracking"),
        ("trackio", "tracking"),
    }


def test_the_installed_training_program_writes_into_the_current_folder(programs, tmp_path):
    command = (programs / "vitdemo-train", "vit-small-cpu", "--smoke", "--device", "cpu")
    run(*command, "--epochs", 1, cwd=tmp_path)
    config = json.loads((tmp_path / "runs" / "vit-small-cpu-smoke" / "config.json").read_text())
    assert config["command"] == "vitdemo-train vit-small-cpu --smoke --device cpu --epochs 1"
    assert config["git_commit"] is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs"]


def test_messages_of_the_installed_programs_name_the_installed_commands(programs, tmp_path):
    script = "from vitdemo.cli import app, train\n"
    script += "print(train.build_parser().format_help(), app.build_parser().format_help())"
    help_text = run(programs / "python", "-c", script, cwd=tmp_path)
    assert "vitdemo-train vit-small-cpu --resume" in help_text
    assert "torchrun --nproc_per_node=4 -m vitdemo.cli.train vit-plain" in help_text
    assert "train.py" not in help_text and "vitdemo-train [-h]" in help_text
    assert "vitdemo [-h]" in help_text


def test_included_files_are_found_from_any_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = find_included("assets/runs/conv-baseline")
    assert (found / "model.safetensors").is_file()
    assert find_included("runs/conv-baseline") == Path("runs/conv-baseline")
    own = tmp_path / "assets" / "runs" / "conv-baseline"
    own.mkdir(parents=True)
    assert find_included("assets/runs/conv-baseline").resolve() == own
