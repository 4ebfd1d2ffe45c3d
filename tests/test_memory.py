"""What is worked out once for each version of a run's files."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from vitdemo.explorer.memory import once_a_version


def test_many_who_ask_at_once_have_it_worked_out_once():
    asked = []

    @once_a_version(4)
    def slow(number):
        asked.append(number)
        time.sleep(0.2)
        return [number]

    with ThreadPoolExecutor(30) as class_of_30:
        found = list(class_of_30.map(slow, [7] * 30))
    assert asked == [7]
    assert all(one is found[0] for one in found)


def test_who_asks_for_another_does_not_wait():
    going, done = threading.Event(), threading.Event()

    @once_a_version(4)
    def answer(number):
        if number == 1:
            going.set()
            assert done.wait(10)
        return number

    with ThreadPoolExecutor(1) as worker:
        first = worker.submit(answer, 1)
        assert going.wait(10)
        assert answer(2) == 2  # while the first is worked out
        done.set()
        assert first.result() == 1


def test_what_fails_is_tried_again():
    times = iter([ValueError("no"), 5])

    @once_a_version(4)
    def answer():
        found = next(times)
        if isinstance(found, Exception):
            raise found
        return found

    with pytest.raises(ValueError):
        answer()
    assert answer() == answer() == 5
