"""The site of one model as one HTML file: its content and refusals. `tests/browser` opens it."""

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from tests.support.loops import call_in_loop
from tests.support.sites import ignore_progress
from vitdemo.errors import ModelError, RunError, SiteError
from vitdemo.page import FEATURE
from vitdemo.page.feature import Feature
from vitdemo.publishing import onnx_file
from vitdemo.site import command, document, export, graphs
from vitdemo.site.record import Recorder
from vitdemo.site.single_file import WORKER, bundle_module

ELEMENT = re.compile(r'<script type="text/plain" id="([^"]*)"[^>]*>([^<]*)</script>')


@pytest.fixture
def few_results(monkeypatch):
    """Only the graph of the predictions is exported, and no answers are recorded."""
    graph = {"predictions": FEATURE.graphs["predictions"]}
    monkeypatch.setattr(export, "FEATURE", Feature(graphs=graph))
    monkeypatch.setattr(Recorder, "record", lambda *arguments: None)


def export_file(file: Path, runs: Path, name: str = "vit", **options: bool) -> int:
    return call_in_loop(
        lambda: export.export_single_file(file, name, [runs], report=ignore_progress, **options)
    )


@pytest.mark.usefixtures("few_results")
def test_the_file_contains_the_files_of_one_model(shown_runs, tmp_path):
    file = tmp_path / "new" / "one.html"
    assert export_file(file, shown_runs) == file.stat().st_size
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    text = file.read_text("utf-8")
    settings = json.loads(re.search(r'id="site">(.*?)</script>', text)[1])
    assert [names for _, names in settings["models"]["groups"]] == [["vit"]]
    files = dict(ELEMENT.findall(text))
    contents = {name: gzip.decompress(base64.b64decode(each)) for name, each in files.items()}
    entry, *others = json.loads(contents["data/graphs/predictions.json"]).values()
    [graph] = entry["graphs"]
    assert not others and graph["run"] == "vit"
    assert len(contents[f"data/graphs/{graph['file']}"]) > 0
    weights = {name: len(contents[f"data/graphs/{name}"]) for name in graph["weights"]}
    assert weights == graph["weights"]
    assert list(files)[-1] == "end"
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text.split("<body")[0])


def test_the_worker_contains_its_modules():
    modules = document.MODULES | document.read_runtime()
    bundle = bundle_module(WORKER, modules.__getitem__).decode()
    imports = re.findall(r'^import .* from "([^"]*)";', bundle, re.MULTILINE)
    assert len(imports) == 2
    contents = [base64.b64decode(each.partition("base64,")[2]) for each in imports]
    assert {*contents} == {modules["site/pixels.js"], modules["site/vendor/ort.wasm.min.mjs"]}


def test_an_existing_file_is_kept(tmp_path):
    file = tmp_path / "one.html"
    file.write_text("own")
    with pytest.raises(SiteError, match="--force"):
        export_file(file, tmp_path)
    assert file.read_text() == "own"


@pytest.mark.usefixtures("few_results")
def test_a_stopped_export_leaves_the_old_file(shown_runs, tmp_path, monkeypatch):
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "record_graphs", stop)
    file = tmp_path / "one.html"
    file.write_text("own")
    with pytest.raises(KeyboardInterrupt):
        export_file(file, shown_runs, force=True)
    assert [*tmp_path.iterdir()] == [file] and file.read_text() == "own"


@pytest.mark.usefixtures("few_results")
def test_a_model_that_browsers_cannot_run_is_refused(shown_runs, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs, "FILTERS", ())
    with pytest.raises(SiteError, match="cannot run the model 'vit'"):
        export_file(tmp_path / "one.html", shown_runs)
    assert [*tmp_path.iterdir()] == []


def test_missing_packages_and_an_unknown_model_are_named(shown_runs, tmp_path, monkeypatch):
    with pytest.raises(RunError, match="no run 'other'"):
        export_file(tmp_path / "one.html", shown_runs, "other")
    monkeypatch.setattr(onnx_file, "NEEDED_PACKAGES", ("no_such_package",))
    with pytest.raises(ModelError, match="no_such_package"):
        export_file(tmp_path / "one.html", shown_runs)


@pytest.mark.parametrize("arguments", [[], ["site", "--single-file", "one.html"]])
def test_the_command_needs_either_a_folder_or_a_file(arguments, capsys):
    with pytest.raises(SystemExit):
        command.run(arguments)
    assert "either DIR or --single-file" in capsys.readouterr().err


def test_the_command_reports_an_error_in_one_line(tmp_path, capsys):
    file = tmp_path / "one.html"
    file.write_text("own")
    assert command.run(["--single-file", str(file)]) == 2
    assert "Use --force" in capsys.readouterr().err
