"""Downloads that are followed, stopped, gone on with, and told in words."""

import hashlib
import os
import threading

import numpy as np
import pytest

from tests.hub import MARK, hub
from vitdemo.downloads import Speed, download, download_from_hub, followed
from vitdemo.errors import Stopped
from vitdemo.page.fetching import Fetching


def test_a_speed_is_told_once_it_is_known_and_anew_for_each_file():
    now = [0.0]
    speed = Speed(lambda: now[0])
    assert speed.told(0, 0) == "connecting …"
    assert speed.told(10**6, 50 * 10**6) == "1 of 50 MB"
    now[0] = 2
    assert speed.told(11 * 10**6, 50 * 10**6) == "11 of 50 MB, 5.0 MB/s, 8 s left"
    assert speed.told(50 * 10**6, 50 * 10**6) == "50 MB downloaded, checking …"
    assert speed.told(10**6, 900 * 10**6) == "1 of 900 MB"
    now[0] = 4
    assert speed.told(3 * 10**6, 900 * 10**6) == "3 of 900 MB, 1.0 MB/s, 15 min left"


def test_what_is_followed_tells_how_far_it_is_and_raises_what_went_wrong():
    go_on = threading.Event()

    def work(on_bytes):
        on_bytes(3, 10)
        go_on.wait(10)
        raise OSError("no route to host")

    found = followed(work, lambda: False, every=0.01)
    while next(found) != (3, 10):
        pass
    go_on.set()
    with pytest.raises(OSError, match="no route"):
        list(found)


@pytest.mark.parametrize("end", ["stop", "leave"])
def test_who_stops_or_leaves_ends_the_work(end):
    ended, fetching = threading.Event(), Fetching()

    def work(on_bytes):
        try:
            while not ended.wait(0.001):
                on_bytes(1, 2)
        finally:
            ended.set()

    found = fetching.follow("key", work)
    next(found)
    assert fetching.progress("key") is not None
    assert list(fetching.follow("key", work)) == []  # one at a time
    if end == "stop":
        told = []
        thread = threading.Thread(
            target=lambda: (fetching.stop("key"), told.append(fetching.progress("key")))
        )
        thread.start()
        with pytest.raises(Stopped):
            list(found)
        thread.join()
        assert told == [None]  # who stops it hears of its end
    else:
        found.close()
    assert ended.wait(10)
    assert fetching.progress("key") is None
    fetching.stop("key")  # too late, and no harm


def test_two_who_want_the_same_file_fetch_it_once(monkeypatch, tmp_path):
    content = np.random.default_rng(0).bytes(2**21)
    found = []
    with hub(monkeypatch, {"model.bin": content}, pause=0.1) as asked:

        def fetch():
            found.append(download_from_hub("a/b", "model.bin", tmp_path, words="it"))

        threads = [threading.Thread(target=fetch) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(found)) == 1 and found[0].read_bytes() == content
    assert found[0].name == f"{hashlib.sha256(content).hexdigest()}-model.bin"
    assert len([line for line in asked if line.startswith("GET")]) == 1


@pytest.mark.parametrize("size", [3 * 2**20, None])
def test_a_part_that_is_whole_is_no_dead_end(monkeypatch, tmp_path, size):
    content, file = np.random.default_rng(0).bytes(3 * 2**20), tmp_path / "model.bin"

    def stop_at_the_end(done, total):
        if done == total:
            raise Stopped

    def fetch(**options):
        download(url, file, words="it", size=size, **options)

    with hub(monkeypatch, {"model.bin": content}) as asked:
        url = f"{os.environ['HF_ENDPOINT']}/a/b/{MARK}model.bin"
        with pytest.raises(Stopped):
            fetch(on_bytes=stop_at_the_end)
        assert not file.exists()
        fetch()
    assert file.read_bytes() == content
    # Who knows how much it is need not ask; who does not is told so, and begins anew.
    assert asked == ["GET 0", *([] if size else [f"GET {len(content)}", "GET 0"])]
