"""Paths with "~" and patterns, which shells of Windows do not expand."""

from pathlib import Path

from vitdemo.data import default_root
from vitdemo.paths import expand_path, expand_pattern, expand_patterns


def test_patterns_and_home_are_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("b", "a"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    both = [tmp_path / "runs" / name for name in ("a", "b")]
    assert expand_pattern(tmp_path / "runs" / "*") == expand_pattern("~/runs/*") == both
    assert expand_patterns(["~/runs/b", "x"]) == [both[1], Path("x")]
    assert expand_pattern("none/*") == [Path("none/*")]
    assert expand_path("~/runs/a*") == both[0]
    assert expand_path("~/runs/*") == Path("~/runs/*")  # two paths for an option of one path
    monkeypatch.setenv("VITDEMO_DATA", "~/runs")
    assert default_root() == tmp_path / "runs"


def test_existing_path_is_not_expanded_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("[a]", "a", "~"):
        Path(name).mkdir()
    assert expand_path("[a]") == Path("[a]")
    assert expand_path("~") == Path("~")
