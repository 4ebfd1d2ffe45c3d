"""Downloads of models and of the dataset, with progress; the user can stop a download."""

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from gradio.utils import LRUCache

from vitdemo.data.downloads import OnBytes, run_with_progress
from vitdemo.errors import Stopped, VitdemoError
from vitdemo.metrics import format_time

MIN_SPEED_SECONDS = 1  # minimum time before a speed is shown
STOP_TIMEOUT = 2.0  # seconds to wait for a stopped download to end
MAX_ERRORS = 200  # maximum number of stored messages
CONNECTING_TEXT = "connecting …"
UNEXPECTED_ERROR_MESSAGE = "The download failed. The log of the server has the details."
LOGGER = logging.getLogger(__name__)


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
            return CONNECTING_TEXT
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
    speed: DownloadSpeed = field(default_factory=DownloadSpeed)
    stopped: threading.Event = field(default_factory=threading.Event)  # set by the user
    ended: threading.Event = field(default_factory=threading.Event)

    def report(self, done: int, total: int) -> None:
        share = done / total if total else 0.0
        self.progress = DownloadProgress(share, self.speed.format_progress(done, total))


class DownloadManager:
    """Downloads in threads, at most one per key.

    `errors` are the messages of failed downloads by key, "" for a download that the user stopped.
    """

    def __init__(self):
        self._in_progress: dict[Hashable, _Download] = {}
        self.errors: LRUCache[Hashable, str] = LRUCache(MAX_ERRORS)

    def get_progress(self, key: Hashable) -> DownloadProgress | None:
        """Return the progress of the download `key`, or None if this download is not running."""
        found = self._in_progress.get(key)
        return found.progress if found else None

    def list_keys(self) -> list[Hashable]:
        """Return the keys of running and failed downloads."""
        return [*self._in_progress, *self.errors]

    def stop(self, key: Hashable) -> None:
        """Stop the download `key`, and wait at most `STOP_TIMEOUT` seconds until it ends."""
        if found := self._in_progress.get(key):
            found.stopped.set()
            found.ended.wait(STOP_TIMEOUT)

    def forget(self, key: Hashable) -> None:
        """Forget the error of a failed download."""
        self.errors.pop(key, None)

    def start(self, key: Hashable, work: Callable[[OnBytes], object]) -> None:
        """Run the download `work(on_bytes)` in a thread, unless the download `key` is running."""
        own = _Download(DownloadProgress(0.0, CONNECTING_TEXT))
        if self._in_progress.setdefault(key, own) is not own:
            return
        self.errors.pop(key, None)
        arguments = (self._run, key, own, work)
        run = contextvars.copy_context().run  # the thread belongs to the same session
        threading.Thread(target=run, args=arguments, name="download", daemon=True).start()

    def _run(self, key: Hashable, own: _Download, work: Callable[[OnBytes], object]) -> None:
        context = contextvars.copy_context()  # for the thread of `run_with_progress`
        try:
            for done, total in run_with_progress(partial(context.run, work), own.stopped.is_set):
                own.report(done, total)
        except Stopped:
            self.errors[key] = ""
        except VitdemoError as error:
            self.errors[key] = str(error)
        except Exception:  # The thread's traceback would be lost.
            LOGGER.exception("A download failed.")
            self.errors[key] = UNEXPECTED_ERROR_MESSAGE
        finally:
            del self._in_progress[key]
            own.ended.set()
