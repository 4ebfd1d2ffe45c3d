"""Downloads that a page follows and can stop, as lines of a `TaskList`."""

import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from vitdemo.downloads import OnBytes, Speed, followed

PATIENCE = 2.0  # seconds, for a download to end that was told to


class DownloadProgress(NamedTuple):
    """The share 0..1 of a file that is here, and how fast it comes, in words."""

    share: float
    words: str


@dataclass(eq=False)
class _Download:
    progress: DownloadProgress
    stopped: threading.Event = field(default_factory=threading.Event)  # by a person
    ended: threading.Event = field(default_factory=threading.Event)


class Fetching:
    """The downloads under way: each has a key, of which there is one at a time."""

    def __init__(self):
        self._under_way: dict[Hashable, _Download] = {}

    def progress(self, key: Hashable) -> DownloadProgress | None:
        """How far it is; None: none is under way."""
        found = self._under_way.get(key)
        return found.progress if found else None

    def stop(self, key: Hashable) -> None:
        """Returns once it has ended: what is shown next must not call it under way still."""
        if found := self._under_way.get(key):
            found.stopped.set()
            found.ended.wait(PATIENCE)

    def follow(self, key: Hashable, work: Callable[[OnBytes], object]) -> Iterator[None]:
        """Do `work(on_bytes)`, a download; it gives now and then, with `progress` up to date.

        Nothing where one of this key is under way. Raises `Stopped` after `stop`, and what the work
        raises; who asks for no more values ends it, too.
        """
        speed = Speed()
        own = _Download(DownloadProgress(0.0, speed.told(0, 0)))
        if self._under_way.setdefault(key, own) is not own:
            return
        try:
            for done, total in followed(work, own.stopped.is_set):
                share = done / total if total else 0.0
                own.progress = DownloadProgress(share, speed.told(done, total))
                yield
        finally:
            del self._under_way[key]
            own.ended.set()
