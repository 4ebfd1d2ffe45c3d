"""What was worked out, kept for all who ask: the one cache of a `Workbench`.

A key is a function and its arguments. A run counts as the same while its stamp is (so what its
files decide is worked out anew when they change), an array, tensor or picture while its content is.
However many ask at once for the same, it is worked out once; who asks for something else does not
wait. Answers are shared between those who ask: nobody writes into one.

    cache = Cache(2**20)
    cache.of(sorted, "banana")  # works it out
    cache.of(sorted, "banana")  # the same list
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
    """The answers asked for last, up to `limit` bytes together; the newest stays however large."""

    def __init__(self, limit: int):
        self.limit = limit
        self.bytes = 0
        self._kept: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()  # with their bytes
        self._turns: dict[Hashable, threading.Lock] = {}  # of what is being worked out now
        self._lock = threading.Lock()

    def of(self, function: Callable[..., T], *arguments) -> T:
        """`function(*arguments)`, which they alone decide; what it raises is not kept."""
        return self.get_or_make((function, *arguments), partial(function, *arguments))

    def get_or_make(self, key: tuple, make: Callable[[], T]) -> T:
        """What is kept under `key`, or else what `make` returns, kept from now on."""
        key = as_key(key)
        while True:
            with self._lock:
                if key in self._kept:
                    return self._newest(key)
                turn = self._turns.setdefault(key, threading.Lock())
            with turn:
                with self._lock:
                    if self._turns.get(key) is not turn:  # somebody else's try has ended meanwhile
                        continue
                with self._turn_ends(key):
                    return self.put(key, make())

    def get(self, key: tuple):
        """What is kept under `key`; None without it."""
        key = as_key(key)
        with self._lock:
            return self._newest(key) if key in self._kept else None

    def _newest(self, key: Hashable):
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: tuple, answer: T) -> T:
        """Keep `answer` under `key`, and return it."""
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
    """A hashable value that is equal for what counts as the same question."""
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
    """Worked out once for each picture object: nobody changes a picture that was asked about."""
    if not hasattr(image, "vitdemo_key"):
        image.vitdemo_key = image.mode, image.size, _digest(image.tobytes())
    return image.vitdemo_key


def _digest(content) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def bytes_of(value: object) -> int:
    """About how much memory an answer takes: its arrays, tensors, weights and texts."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, nn.Module):
        return sum(map(bytes_of, [*value.parameters(), *value.buffers()]))
    if isinstance(value, Image.Image):
        return value.width * value.height * len(value.getbands())
    if isinstance(value, Run):
        return 0  # it is kept elsewhere
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return sum(bytes_of(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, Mapping):
        return sum(bytes_of(key) + bytes_of(item) for key, item in value.items())
    if isinstance(value, (tuple, list, set, frozenset)):
        return sys.getsizeof(value) + sum(map(bytes_of, value))
    return sys.getsizeof(value)
