"""Downloads of models and of the dataset, with progress; the user can stop a download."""

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from vitdemo.data.downloads import OnBytes, run_with_progress
from vitdemo.metrics import format_time

MIN_SPEED_SECONDS = 1  # minimum time before a speed is shown
STOP_TIMEOUT = 2.0  # seconds to wait for a stopped download to end


class DownloadProgress(NamedTuple):
    """Progress of a download: fraction (0 to 1), and a text with size and speed."""

    fraction: float
    description: str


class DownloadSpeed:
    """Text formatter for the progress of a download: "62 of 170 MB, 8.0 MB/s, 13 s left".

    For each file, the time is measured from the first reported bytes.
    """

    def __init__(self):
        self.total, self.first_done, self.started = 0, 0, 0.0

    def format_progress(self, done: int, total: int) -> str:
        if not done:
            return "connecting …"
        now = time.monotonic()
        if total != self.total or done < self.first_done:  # another file has started
            self.total, self.first_done, self.started = total, done, now
        if done >= total:
            return f"{total / 1e6:.0f} MB downloaded, checking …"
        words = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        seconds = now - self.started
        if seconds < MIN_SPEED_SECONDS or done == self.first_done:
            return words
        speed = (done - self.first_done) / seconds
        left = (total - done) / speed
        return f"{words}, {speed / 1e6:.1f} MB/s, {format_time(left)} left"


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
