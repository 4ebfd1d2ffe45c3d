"""Cache of values that are computed once for all sessions."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.factories import VIT, make_run
from vitdemo import runs
from vitdemo.cache import Cache, estimate_bytes, make_key

LIMIT = 2**20


def test_concurrent_requests_compute_a_value_once():
    slow, cache = Mock(side_effect=lambda _: time.sleep(0.2) or []), Cache(LIMIT)
    with ThreadPoolExecutor(30) as pool:
        results = list(pool.map(lambda number: cache.call(slow, number), [7] * 30))
    slow.assert_called_once_with(7)
    assert all(result is results[0] for result in results)


def test_waiting_and_later_requests_retry_a_failed_computation_once():
    cache, starts, running = Cache(LIMIT), [], []
    first_fails = threading.Event()

    def compute():
        starts.append(1)
        running.append(1)
        if len(starts) == 1:
            first_fails.wait(10)
            running.pop()
            raise ValueError("no")
        time.sleep(0.3)
        concurrent = len(running)
        running.pop()
        return [concurrent]

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.get_or_compute, ("key",), compute)
        while not starts:
            time.sleep(0.001)
        later = [pool.submit(cache.get_or_compute, ("key",), compute) for _ in range(2)]
        time.sleep(0.05)  # both wait for the first request
        first_fails.set()
        with pytest.raises(ValueError, match="no"):
            first.result()
        later.append(pool.submit(cache.get_or_compute, ("key",), compute))
        assert [request.result() for request in later] == [[1]] * 3
    assert len(starts) == 2


def test_least_recently_used_value_is_evicted_above_the_limit():
    cache = Cache(250)
    for number in range(3):
        cache.put((number,), np.zeros(100, np.uint8))
        cache.get((0,))
    assert [cache.get((number,)) is None for number in range(3)] == [False, True, False]
    assert cache.used_bytes == 200
    cache.put((0,), np.zeros(50, np.uint8))  # replaces the previous value
    assert cache.used_bytes == 150
    large = np.zeros(1000, np.uint8)
    assert cache.get_or_compute(("large",), lambda: large) is large
    assert cache.get(("large",)) is large and cache.used_bytes == 1000


def test_key_depends_on_array_and_image_content_and_run_files(tmp_path):
    ones = np.ones((2, 3), np.uint8)
    assert make_key([ones, 1]) == make_key((ones.copy(), 1)) != make_key((ones.T, 1))
    assert make_key(torch.from_numpy(ones)) == make_key(ones) != make_key(ones.astype(np.int8))
    grey, wide = Image.new("L", (2, 3), 1), Image.new("L", (3, 2), 1)
    assert make_key(grey) == make_key(grey.copy()) != make_key(wide)
    run = make_run(tmp_path / "run", VIT)
    before = make_key(run)
    assert make_key(runs.read_run(run.path)) == before
    with (run.path / "history.jsonl").open("a") as history:
        history.write("\n")
    assert make_key(runs.read_run(run.path)) != before


def test_bytes_of_counts_tensors_arrays_and_images():
    weights = torch.zeros(10, 10)
    assert estimate_bytes(torch.nn.Linear(10, 10)) == 440
    assert estimate_bytes({"a": [weights, weights.numpy()]}) == pytest.approx(800, abs=300)
    assert estimate_bytes(Image.new("RGB", (10, 20))) == 600
