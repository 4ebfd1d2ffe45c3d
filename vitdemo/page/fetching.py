"""Downloads of models and of the dataset, with progress; the user can stop a download."""

import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from vitdemo.data.downloads import DownloadSpeed, OnBytes, run_with_progress

STOP_TIMEOUT = 2.0  # seconds to wait for a stopped download to end


class DownloadProgress(NamedTuple):
    """Progress of a download: fraction (0 to 1), and a text with size and speed."""

    fraction: float
    description: str


@dataclass(eq=False)
class _Download:
    progress: DownloadProgress
    stopped: threading.Event = field(default_factory=threading.Event)  # set by the user
    ended: threading.Event = field(default_factory=threading.Event)


class DownloadManager:
    """Downloads in progress, at most one per key."""

    def __init__(self):
        self._in_progress: dict[Hashable, _Download] = {}

    def get_progress(self, key: Hashable) -> DownloadProgress | None:
        """Return the progress of the download `key`, or None if this download is not running."""
        found = self._in_progress.get(key)
        return found.progress if found else None

    def list_keys(self) -> list[Hashable]:
        return list(self._in_progress)

    def stop(self, key: Hashable) -> None:
        """Stop the download `key`, and wait at most `STOP_TIMEOUT` seconds until it ends."""
        if found := self._in_progress.get(key):
            found.stopped.set()
            found.ended.wait(STOP_TIMEOUT)

    def run_download(self, key: Hashable, work: Callable[[OnBytes], object]) -> Iterator[None]:
        """Run the download `work(on_bytes)`, and yield after each update of the progress.

        Yields nothing if the download `key` is already running. Closing the generator stops the
        download. Raises `Stopped` after a call of `stop`, and any error of `work`.
        """
        speed = DownloadSpeed()
        own = _Download(DownloadProgress(0.0, speed.format_progress(0, 0)))
        if self._in_progress.setdefault(key, own) is not own:
            return
        try:
            for done, total in run_with_progress(work, own.stopped.is_set):
                share = done / total if total else 0.0
                own.progress = DownloadProgress(share, speed.format_progress(done, total))
                yield
        finally:
            del self._in_progress[key]
            own.ended.set()
