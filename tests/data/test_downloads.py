"""Downloads: progress, stopping, resuming and progress texts."""

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.hub import RESOLVE_PATH, serve_hub
from vitdemo.data import downloads
from vitdemo.data.downloads import download_file, download_from_hub, run_with_progress
from vitdemo.errors import Stopped
from vitdemo.page import fetching
from vitdemo.page.fetching import DownloadManager, DownloadSpeed


def test_progress_text_has_a_speed_once_known_and_restarts_per_file(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(fetching.time, "monotonic", lambda: now[0])
    speed = DownloadSpeed()
    assert speed.format_progress(0, 0) == "connecting …"
    assert speed.format_progress(10**6, 50 * 10**6) == "1 of 50 MB"
    now[0] = 2
    assert speed.format_progress(11 * 10**6, 50 * 10**6) == "11 of 50 MB, 5.0 MB/s, 8 s left"
    assert speed.format_progress(50 * 10**6, 50 * 10**6) == "50 MB downloaded, checking …"
    assert speed.format_progress(10**6, 900 * 10**6) == "1 of 900 MB"
    now[0] = 4
    assert speed.format_progress(3 * 10**6, 900 * 10**6) == "3 of 900 MB, 1.0 MB/s, 15 min left"


def test_followed_download_yields_progress_and_raises_errors(monkeypatch):
    monkeypatch.setattr(downloads, "PROGRESS_SECONDS", 0.01)
    resume = threading.Event()

    def work(on_bytes):
        on_bytes(3, 10)
        resume.wait(10)
        raise OSError("no route to host")

    progress = run_with_progress(work, lambda: False)
    while next(progress) != (3, 10):
        pass
    resume.set()
    with pytest.raises(OSError, match="no route"):
        list(progress)


def test_download_ends_when_it_is_stopped():
    started, ended, manager = [], threading.Event(), DownloadManager()

    def work(on_bytes):
        started.append(threading.current_thread())
        try:
            while not ended.wait(0.001):
                on_bytes(1, 2)
        finally:
            ended.set()

    manager.start("key", work)
    manager.start("key", work)  # one at a time
    assert manager.get_progress("key").description == "connecting …"
    manager.stop("key")  # waits for the end of the download
    assert manager.get_progress("key") is None and manager.errors["key"] == ""
    assert ended.wait(10) and len(started) == 1
    manager.stop("key")  # a second stop has no effect


def test_concurrent_requests_download_a_file_once(monkeypatch, tmp_path):
    content = np.random.default_rng(0).bytes(2**21)
    hub = serve_hub(monkeypatch, {"model.bin": content}, pause=0.1)
    with hub as requests, ThreadPoolExecutor(3) as pool:
        arguments = "a/b", "model.bin", tmp_path
        fetches = [pool.submit(download_from_hub, *arguments, label="it") for _ in range(3)]
        (path,) = {fetch.result() for fetch in fetches}
    assert path.read_bytes() == content
    assert path.name == f"{hashlib.sha256(content).hexdigest()}-model.bin"
    assert len([line for line in requests if line.startswith("GET")]) == 1


@pytest.mark.parametrize("size", [3 * 2**20, None])
def test_complete_partial_file_does_not_block_the_download(monkeypatch, tmp_path, size):
    content, file = np.random.default_rng(0).bytes(3 * 2**20), tmp_path / "model.bin"

    def stop_at_the_end(done, total):
        if done == total:
            raise Stopped

    def fetch(**options):
        download_file(url, file, label="it", size=size, **options)

    with serve_hub(monkeypatch, {"model.bin": content}) as requests:
        url = f"{os.environ['HF_ENDPOINT']}/a/b/{RESOLVE_PATH}model.bin"
        with pytest.raises(Stopped):
            fetch(on_bytes=stop_at_the_end)
        assert not file.exists()
        fetch()
    assert file.read_bytes() == content
    # If the size is unknown, the server rejects the range and the download restarts.
    assert requests == ["GET 0", *([] if size else [f"GET {len(content)}", "GET 0"])]
