"""Cache of function results, shared by all users of one process.

A key is a function with its arguments. Runs are compared by their stamp, so a result is computed
again when the files of its run change. Arrays, tensors and images are compared by their content.
Concurrent calls with the same key compute the result once; calls with other keys do not wait.
Callers must not modify a result, because other callers receive the same object.

    cache = Cache(2**20)
    cache.call(sorted, "banana")  # computes the list
    cache.call(sorted, "banana")  # returns the same list
"""

import dataclasses
import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np
from PIL import Image
from torch import Tensor, nn

from vitdemo.runs import Run

T = TypeVar("T")


class Cache:
    """Least-recently-used cache of at most `max_bytes` bytes, or of one larger result."""

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self.used_bytes = 0
        # key -> value and size in bytes
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._key_locks: dict[Hashable, threading.Lock] = {}  # keys in computation
        self._lock = threading.Lock()

    def call(self, function: Callable[..., T], *arguments) -> T:
        """Return `function(*arguments)`, which must be deterministic; exceptions are not cached."""
        return self.get_or_compute((function, *arguments), partial(function, *arguments))

    def get_or_compute(self, key: tuple, compute: Callable[[], T]) -> T:
        """Return the cached value of `key`, or compute it with `compute` and cache it."""
        key = make_key(key)
        while True:
            with self._lock:
                if key in self._entries:
                    return self._get_and_mark_used(key)
                turn = self._key_locks.setdefault(key, threading.Lock())
            with turn:
                with self._lock:
                    if self._key_locks.get(key) is not turn:  # another thread has finished this key
                        continue
                try:
                    return self.put(key, compute())
                finally:
                    with self._lock:
                        self._key_locks.pop(key, None)

    def get(self, key: tuple):
        key = make_key(key)
        with self._lock:
            return self._get_and_mark_used(key) if key in self._entries else None

    def _get_and_mark_used(self, key: Hashable):
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: tuple, value: T) -> T:
        key, size = make_key(key), estimate_bytes(value)
        with self._lock:
            self.used_bytes -= self._entries.pop(key, (None, 0))[1]
            self._entries[key] = value, size
            self.used_bytes += size
            while self.used_bytes > self.max_bytes and len(self._entries) > 1:
                _, (_, gone) = self._entries.popitem(last=False)
                self.used_bytes -= gone
        return value


def make_key(value: object) -> Hashable:
    """Convert `value` to a hashable key; values with the same content have the same key."""
    if isinstance(value, Run):
        return value.path, value.name, value.stamp
    if isinstance(value, (tuple, list)):
        return tuple(map(make_key, value))
    if isinstance(value, Image.Image):
        # The key is stored with the image, because images do not change.
        if not hasattr(value, "vitdemo_key"):
            value.vitdemo_key = value.mode, value.size, _digest(value.tobytes())
        return value.vitdemo_key
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, _digest(np.ascontiguousarray(value).data)
    return value


def _digest(content) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def estimate_bytes(value: object) -> int:
    """Estimate the memory of `value` in bytes, from its arrays, tensors, weights and texts."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, nn.Module):
        return sum(map(estimate_bytes, [*value.parameters(), *value.buffers()]))
    if isinstance(value, Image.Image):
        return value.width * value.height * len(value.getbands())
    if isinstance(value, Run):
        return 0  # runs need no memory of their own here, because the context also stores them
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return sum(estimate_bytes(getattr(value, field.name)) for field in fields)
    if isinstance(value, Mapping):
        return sum(estimate_bytes(key) + estimate_bytes(item) for key, item in value.items())
    if isinstance(value, (tuple, list, set, frozenset)):
        return sys.getsizeof(value) + sum(map(estimate_bytes, value))
    return sys.getsizeof(value)
