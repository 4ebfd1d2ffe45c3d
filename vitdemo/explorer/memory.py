"""Answers about runs that are worked out once for each version of their files."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from vitdemo.runs import Run

T = TypeVar("T")


def once_a_version(limit: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Keep the last `limit` answers of a function whose arguments are runs and hashable values.

    A run counts as the same while its stamp is, so this is for what its files alone decide. However
    many ask at once for the same, it is worked out once; who asks for another does not wait.
    Answers are shared between those who ask: nobody writes into one.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        kept: OrderedDict[tuple, T] = OrderedDict()
        turns: dict[tuple, threading.Lock] = {}  # of what is being worked out now
        lock = threading.Lock()

        @functools.wraps(function)
        def remembered(*arguments) -> T:
            key = tuple(map(_version, arguments))
            with lock:
                if key in kept:
                    kept.move_to_end(key)
                    return kept[key]
                turn = turns.setdefault(key, threading.Lock())
            with turn:
                with lock:
                    if key in kept:  # somebody else has worked it out meanwhile
                        return kept[key]
                try:
                    answer = function(*arguments)
                    with lock:
                        kept[key] = answer
                        while len(kept) > limit:
                            kept.popitem(last=False)
                finally:
                    with lock:
                        turns.pop(key, None)
            return answer

        return remembered

    return decorate


def _version(argument: object) -> object:
    if isinstance(argument, Run):
        return argument.path, argument.name, argument.stamp
    return argument
