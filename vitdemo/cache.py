"""Cache of function results, shared by all users of one process.

A key is a function with its arguments. Runs are compared by their stamp, so a result is computed
again when the files of its run change. Arrays, tensors and images are compared by their content.
Concurrent calls with the same key compute the result once; calls with other keys do not wait.
Results are shared, so callers must not modify them.

    cache = Cache(2**20)
    cache.of(sorted, "banana")  # computes the list
    cache.of(sorted, "banana")  # returns the same list
"""

import dataclasses
import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import numpy as np
from PIL import Image
from torch import Tensor, nn

from vitdemo.runs import Run

T = TypeVar("T")


class Cache:
    """Least-recently-used cache of at most `limit` bytes; the newest result is always kept."""

    def __init__(self, limit: int):
        self.limit = limit
        self.bytes = 0
        self._kept: OrderedDict[Hashable, tuple[object, int]] = (
            OrderedDict()
        )  # value and size in bytes
        self._turns: dict[Hashable, threading.Lock] = {}  # one lock per key that is being computed
        self._lock = threading.Lock()

    def of(self, function: Callable[..., T], *arguments) -> T:
        """Return `function(*arguments)`, which must be deterministic; exceptions are not cached."""
        return self.get_or_make((function, *arguments), partial(function, *arguments))

    def get_or_make(self, key: tuple, make: Callable[[], T]) -> T:
        """Return the cached value of `key`, or compute it with `make` and cache it."""
        key = as_key(key)
        while True:
            with self._lock:
                if key in self._kept:
                    return self._newest(key)
                turn = self._turns.setdefault(key, threading.Lock())
            with turn:
                with self._lock:
                    if self._turns.get(key) is not turn:  # Another thread has finished this key.
                        continue
                with self._turn_ends(key):
                    return self.put(key, make())

    def get(self, key: tuple):
        """Return the cached value of `key`, or None."""
        key = as_key(key)
        with self._lock:
            return self._newest(key) if key in self._kept else None

    def _newest(self, key: Hashable):
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: tuple, answer: T) -> T:
        """Cache `answer` under `key` and return it."""
        key, size = as_key(key), bytes_of(answer)
        with self._lock:
            self.bytes -= self._kept.pop(key, (None, 0))[1]
            self._kept[key] = answer, size
            self.bytes += size
            while self.bytes > self.limit and len(self._kept) > 1:
                _, (_, gone) = self._kept.popitem(last=False)
                self.bytes -= gone
        return answer

    @contextmanager
    def _turn_ends(self, key: Hashable):
        try:
            yield
        finally:
            with self._lock:
                self._turns.pop(key, None)


def as_key(value: object) -> Hashable:
    """Return a hashable key: equal for equal content of runs, arrays, tensors and images."""
    if isinstance(value, Run):
        return value.path, value.name, value.stamp
    if isinstance(value, (tuple, list)):
        return tuple(map(as_key, value))
    if isinstance(value, Image.Image):
        return _of_picture(value)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, _digest(np.ascontiguousarray(value).data)
    return value


def _of_picture(image: Image.Image) -> Hashable:
    """Return the key of an image, computed once per object, since images are never modified."""
    if not hasattr(image, "vitdemo_key"):
        image.vitdemo_key = image.mode, image.size, _digest(image.tobytes())
    return image.vitdemo_key


def _digest(content) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def bytes_of(value: object) -> int:
    """Return the approximate memory of a value: its arrays, tensors, weights and texts."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, nn.Module):
        return sum(map(bytes_of, [*value.parameters(), *value.buffers()]))
    if isinstance(value, Image.Image):
        return value.width * value.height * len(value.getbands())
    if isinstance(value, Run):
        return 0  # Runs are stored elsewhere.
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return sum(bytes_of(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        return sum(bytes_of(key) + bytes_of(item) for key, item in value.items())
    if isinstance(value, (tuple, list, set, frozenset)):
        return sys.getsizeof(value) + sum(map(bytes_of, value))
    return sys.getsizeof(value)
