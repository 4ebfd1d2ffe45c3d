"""The start of the page with proxies, shared temporary folders and wrong port numbers."""

import os
import stat
from argparse import ArgumentTypeError

import pytest

from vitdemo.cli import environment


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    names = (*environment.PROXY_VARIABLES, "NO_PROXY", "no_proxy", environment.TEMP_VARIABLE)
    for name in (*names, *environment.NUMBER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_local_addresses_bypass_proxies_and_other_exceptions_stay(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "intranet.example, 127.0.0.1")
    environment.exclude_local_addresses("192.168.1.5")
    assert os.environ["NO_PROXY"].split(",")[0] == "intranet.example"
    for name in ("NO_PROXY", "no_proxy"):
        assert {"127.0.0.1", "localhost", "192.168.1.5"} <= set(os.environ[name].split(","))


def test_socks_proxies_without_their_package_are_ignored_with_a_notice(monkeypatch):
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    (notice,) = environment.ignore_socks_proxies()
    assert "ALL_PROXY" in notice and "httpx[socks]" in notice
    assert "ALL_PROXY" not in os.environ and os.environ["http_proxy"]
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: name)
    assert environment.ignore_socks_proxies() == [] and os.environ["ALL_PROXY"]


def test_temporary_folder_belongs_to_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(environment.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(environment.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "gradio").mkdir()  # of another user
    folder = environment.create_temp_folder()
    assert folder.parent == tmp_path and folder.name != "gradio"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert environment.create_temp_folder() == folder
    folder.rmdir()
    folder.write_bytes(b"")  # the name is taken
    assert environment.create_temp_folder().is_dir()


def test_missing_temporary_folder_is_one_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(environment.tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(SystemExit) as caught:
        environment.prepare_environment("app.py")
    message = capsys.readouterr().err
    assert caught.value.code == 2 and "Set TMPDIR or GRADIO_TEMP_DIR" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("value", ["abc", "99999", "-1"])
def test_port_that_does_not_exist_is_one_sentence(monkeypatch, capsys, value):
    with pytest.raises(ArgumentTypeError, match=f"'{value}' is not a port: choose 0 to 65535"):
        environment.parse_port(value)
    monkeypatch.setenv("GRADIO_SERVER_PORT", value)
    with pytest.raises(SystemExit) as caught:
        environment.prepare_environment("app.py")
    assert caught.value.code == 2
    assert f"GRADIO_SERVER_PORT is '{value}'" in capsys.readouterr().err
