"""What is worked out once for all who ask."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import VIT, make_run
from vitdemo import runs
from vitdemo.cache import Cache, as_key, bytes_of

LIMIT = 2**20


def test_many_who_ask_at_once_have_it_worked_out_once():
    slow, cache = Mock(side_effect=lambda _: time.sleep(0.2) or []), Cache(LIMIT)
    with ThreadPoolExecutor(30) as class_of_30:
        found = list(class_of_30.map(lambda number: cache.of(slow, number), [7] * 30))
    slow.assert_called_once_with(7)
    assert all(one is found[0] for one in found)


def test_what_fails_is_tried_again():
    answer, cache = Mock(side_effect=[ValueError("no"), 5]), Cache(LIMIT)
    with pytest.raises(ValueError, match="no"):
        cache.of(answer)
    assert cache.of(answer) == cache.of(answer) == 5


def test_who_waited_for_what_failed_and_who_comes_then_work_it_out_once():
    cache, starts, running = Cache(LIMIT), [], []
    first_fails = threading.Event()

    def make():
        starts.append(1)
        running.append(1)
        if len(starts) == 1:
            first_fails.wait(10)
            running.pop()
            raise ValueError("no")
        time.sleep(0.3)
        together = len(running)
        running.pop()
        return [together]

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache.get_or_make, ("key",), make)
        while not starts:
            time.sleep(0.001)
        later = [pool.submit(cache.get_or_make, ("key",), make) for _ in range(2)]
        time.sleep(0.05)  # they wait
        first_fails.set()
        with pytest.raises(ValueError, match="no"):
            first.result()
        later.append(pool.submit(cache.get_or_make, ("key",), make))
        assert [one.result() for one in later] == [[1]] * 3
    assert len(starts) == 2


def test_of_more_than_the_limit_what_was_asked_for_long_ago_goes():
    cache = Cache(250)
    for number in range(3):
        cache.put((number,), np.zeros(100, np.uint8))
        cache.get((0,))
    assert [cache.get((number,)) is None for number in range(3)] == [False, True, False]
    assert cache.bytes == 200
    cache.put((0,), np.zeros(50, np.uint8))  # in place of the one before
    assert cache.bytes == 150
    large = np.zeros(1000, np.uint8)
    assert cache.get_or_make(("large",), lambda: large) is large
    assert cache.get(("large",)) is large and cache.bytes == 1000


def test_a_key_is_the_content_of_arrays_and_pictures_and_the_stamp_of_a_run(tmp_path):
    ones = np.ones((2, 3), np.uint8)
    assert as_key([ones, 1]) == as_key((ones.copy(), 1)) != as_key((ones.T, 1))
    assert as_key(torch.from_numpy(ones)) == as_key(ones) != as_key(ones.astype(np.int8))
    grey, wide = Image.new("L", (2, 3), 1), Image.new("L", (3, 2), 1)
    assert as_key(grey) == as_key(grey.copy()) != as_key(wide)
    run = make_run(tmp_path / "run", VIT)
    before = as_key(run)
    assert as_key(runs.read_run(run.path)) == before
    with (run.path / "history.jsonl").open("a") as history:
        history.write("\n")
    assert as_key(runs.read_run(run.path)) != before


def test_bytes_count_what_answers_hold():
    weights = torch.zeros(10, 10)
    assert bytes_of(torch.nn.Linear(10, 10)) == 440
    assert bytes_of({"a": [weights, weights.numpy()]}) == pytest.approx(800, abs=300)
    assert bytes_of(Image.new("RGB", (10, 20))) == 600
