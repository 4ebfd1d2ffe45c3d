"""The download of CIFAR-10 by the page, from a local server: every end, and what the page says."""

import time

import pytest

from tests.support.factories import make_context
from tests.support.hub import serve_hub
from vitdemo import data
from vitdemo.cli import app
from vitdemo.data import cifar10
from vitdemo.data.cifar10.download import NO_NETWORK_MESSAGE
from vitdemo.page import bridge
from vitdemo.page.data.download import START, STOP, DatasetDownload
from vitdemo.page.view_state import ViewState

NO_STATE = ViewState(None, "")
CONTENT = b"0123456789" * 300_000  # 3 MB


@pytest.fixture
def context(tmp_path):
    return make_context(data_root=tmp_path / "data")


@pytest.fixture
def rebuild(monkeypatch):
    """Accept any downloaded file, without the rows of the real parquet files."""

    def write_dataset(pictures, folder):
        (folder / "test_batch").touch()

    monkeypatch.setattr(cifar10, "iter_parquet_images", lambda file: [])
    monkeypatch.setattr(cifar10, "write_arrays", write_dataset)


def hub_files(content: bytes = CONTENT) -> dict[str, bytes]:
    return dict.fromkeys(cifar10.PARQUET_FILES, content)


def act(download: DatasetDownload, name: str) -> None:
    assert download.make_feature().actions[name](download.context, NO_STATE, {}) == ["dataset"]


def wait_for_state(download: DatasetDownload, *states: str) -> dict:
    """Return the payload once its state is one of `states`."""
    deadline = time.monotonic() + 120
    while (found := download.describe())["state"] not in states:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def test_download_reports_its_progress_and_is_continued_after_a_stop(monkeypatch, context, rebuild):
    download = DatasetDownload(context)
    assert download.describe() == {"state": "missing", "done": 0.0, "text": ""}
    before = bridge.list_new_models(context, None)["stamp"]
    with serve_hub(monkeypatch, hub_files(), pause=0.7) as requests:
        act(download, START)
        act(download, START)  # a second click changes nothing
        while not (found := wait_for_state(download, "running"))["done"]:
            time.sleep(0.02)
        assert "of 3 MB" in found["text"] and 0 < found["done"] <= 1
        act(download, STOP)
        assert download.describe() == {"state": "stopped", "done": 0.0, "text": ""}
        act(download, START)
        wait_for_state(download, "ready")
    assert any(request.startswith("GET") and request != "GET 0" for request in requests)
    assert cifar10.find_folder(context.data_root)
    assert bridge.list_new_models(context, before)["stamp"] != before  # all data are requested


def test_interrupted_download_fails_and_is_continued(monkeypatch, context, rebuild):
    download = DatasetDownload(context)
    with serve_hub(monkeypatch, hub_files(), limit=2**20):
        act(download, START)
        found = wait_for_state(download, "failed")
    assert "could not be downloaded" in found["text"]
    with serve_hub(monkeypatch, hub_files()) as requests:
        act(download, START)
        wait_for_state(download, "ready")
    assert f"GET {2**20}" in requests


@pytest.mark.parametrize("offline", [True, False])
def test_without_a_network_one_short_message_comes_at_once(monkeypatch, context, offline):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    download = DatasetDownload(context)
    act(download, START)
    assert wait_for_state(download, "failed")["text"] == NO_NETWORK_MESSAGE
    assert not context.data_root.exists()


def test_bug_in_the_download_is_reported_and_logged(monkeypatch, context, caplog):
    monkeypatch.setattr(data, "open_dataset", lambda *args, **options: 1 / 0)
    download = DatasetDownload(context)
    act(download, START)
    assert "log of the server" in wait_for_state(download, "failed")["text"]
    assert "ZeroDivisionError" in caplog.text


def test_existing_dataset_is_not_downloaded(put_pictures):
    root = put_pictures({"train/ant": 2, "train/bee": 2, "test/ant": 2})
    download = DatasetDownload(make_context(data_root=root))
    act(download, START)
    assert download.progress is None and download.describe()["state"] == "ready"


@pytest.mark.parametrize(
    ("option", "is_space", "folder", "expected"),
    [
        (None, False, None, False),
        (None, True, None, True),
        (False, True, None, False),
        (True, False, None, True),
        (True, False, "mistyped", False),
        (True, False, "empty", True),
    ],
)
def test_only_a_space_and_an_option_download_at_the_start(
    monkeypatch, tmp_path, option, is_space, folder, expected
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VITDEMO_DATA", raising=False)
    if is_space:
        monkeypatch.setenv("SPACE_ID", "user/vitdemo")
    (tmp_path / "empty").mkdir()
    words = {None: [], True: ["--download"], False: ["--no-download"]}[option]
    args = app.build_parser().parse_args([*words, *(["--data", folder] if folder else [])])
    assert app.may_download(args) is expected
