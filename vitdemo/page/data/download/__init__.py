"""Download of CIFAR-10: a banner above all tabs, and a card wherever the dataset is missing.

    {"state": "ready", "missing", "running", "stopped" or "failed", "done": 0..1, "text": str}

The text is the progress or the error. The script draws the card instead of each message that begins
with `MISSING_DATASET`. The download runs in the background, for all users of the page. When it has
ended, the browser requests all data again (see `bridge.list_new_models`).
"""

import logging
import threading
from collections.abc import Callable, Mapping

from vitdemo import data
from vitdemo.context import AppContext
from vitdemo.data.downloads import OnBytes
from vitdemo.errors import Stopped, VitdemoError
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Action, Feature
from vitdemo.page.fetching import STOP_TIMEOUT, DownloadManager, DownloadProgress
from vitdemo.page.view_state import ViewState, needs

LOGGER = logging.getLogger(__name__)
UNEXPECTED_ERROR_MESSAGE = "The download failed. The log of the server has the details."
VIEW = "dataset"
START, STOP = "dataset.download", "dataset.stop"


class DatasetDownload:
    """The download of CIFAR-10 to the data folder of `context`, in its own thread.

    `error` is the message of the last failure, and `is_stopped` is True after a call of `stop`.
    """

    def __init__(self, context: AppContext):
        self.context = context
        self._manager, self._lock = DownloadManager(), threading.Lock()
        self._thread: threading.Thread | None = None
        self.error, self.is_stopped = "", False

    @property
    def progress(self) -> DownloadProgress | None:
        """The progress, or None if no download is running."""
        if self._thread is None or not self._thread.is_alive():
            return None
        return self._manager.get_progress(None) or DownloadProgress(0.0, "")

    def start(self) -> None:
        """Start the download unless it is running, or the dataset exists."""
        with self._lock:
            if self.progress is None and self.context.is_dataset_missing():
                self.error, self.is_stopped = "", False
                self._thread = threading.Thread(target=self._run, name="dataset", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop the download. The next call of `start` continues the download."""
        self._manager.stop(None)
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT)

    def _run(self) -> None:
        def download(on_bytes: OnBytes) -> None:
            data.open_dataset(self.context.data_root, download=True, on_bytes=on_bytes)

        try:
            for _ in self._manager.run_download(None, download):
                pass
        except Stopped:
            self.is_stopped = True
        except VitdemoError as error:
            self.error = str(error)
        except Exception:  # The thread's traceback would be lost.
            LOGGER.exception("A download failed.")
            self.error = UNEXPECTED_ERROR_MESSAGE

    def make_feature(self) -> Feature:
        def act(change: Callable[[], None]) -> Action:
            def run(context: AppContext, state: ViewState, fields: Mapping) -> list[str]:
                change()
                return [VIEW]

            return run

        actions = {START: act(self.start), STOP: act(self.stop)}
        return Feature({VIEW: needs()(lambda context, state: self.describe())}, actions=actions)

    def describe(self) -> dict:
        now = self.progress
        if not self.context.is_dataset_missing():
            return {"state": "ready", "done": 1.0, "text": ""}
        if now is not None:
            return {"state": "running", "done": now.fraction, "text": now.description}
        state = "failed" if self.error else "stopped" if self.is_stopped else "missing"
        return {"state": state, "done": 0.0, "text": self.error}


def build_card(elem_id: str) -> None:
    """Lay out a card, which is visible while the dataset is missing."""
    add_view("dataset_card", elem_id=elem_id)
