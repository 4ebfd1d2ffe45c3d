"""Downloads that a page follows and can stop, as lines of a `TaskList`."""

import threading
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from vitdemo.downloads import OnBytes, Speed, followed

PATIENCE = 2.0  # seconds, for a download to end that was told to


class DownloadProgress(NamedTuple):
    """The share 0..1 of a file that is here, and how fast it comes, in words."""

    share: float
    words: str


class Fetching:
    """The downloads under way: each has a key, of which there is one at a time."""

    def __init__(self):
        self._stops: dict[Hashable, tuple[threading.Event, threading.Event]] = {}
        self._now: dict[Hashable, DownloadProgress] = {}

    def progress(self, key: Hashable) -> DownloadProgress | None:
        """How far it is; None: none is under way."""
        return self._now.get(key)

    def stop(self, key: Hashable) -> None:
        """Returns once it has ended: what is shown next must not call it under way still."""
        if key in self._stops:
            stopped, ended = self._stops[key]
            stopped.set()
            ended.wait(PATIENCE)

    def follow(self, key: Hashable, work: Callable[[OnBytes], object]) -> Iterator[None]:
        """Do `work(on_bytes)`, a download; it gives now and then, with `progress` up to date.

        Nothing where one of this key is under way. Raises `Stopped` after `stop`, and what the work
        raises; who asks for no more values ends it, too.
        """
        if key in self._stops:
            return
        stopped, ended, speed = threading.Event(), threading.Event(), Speed()
        self._stops[key], self._now[key] = (stopped, ended), DownloadProgress(0.0, speed.told(0, 0))
        try:
            for done, total in followed(work, stopped.is_set):
                share = done / total if total else 0.0
                self._now[key] = DownloadProgress(share, speed.told(done, total))
                yield
        finally:
            del self._stops[key], self._now[key]
            ended.set()
