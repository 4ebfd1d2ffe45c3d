"""Download of CIFAR-10: a banner above all tabs, and a card wherever the dataset is missing.

    {"state": "ready", "missing", "running", "stopped" or "failed", "done": 0..1, "text": str}

The text is the progress or the error. The script draws the card instead of each message that begins
with `MISSING_DATASET`. The download runs in the background, for all users of the page. When it has
ended, the browser requests all data again (see `bridge.list_new_models`).
"""

from collections.abc import Callable, Mapping

from vitdemo import data
from vitdemo.context import AppContext
from vitdemo.data.downloads import OnBytes
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Action, Feature
from vitdemo.page.fetching import DownloadManager, DownloadProgress
from vitdemo.page.view_state import ViewState, needs

VIEW = "dataset"
START, STOP = "dataset.download", "dataset.stop"


class DatasetDownload:
    """The download of CIFAR-10 to the data folder of `context`."""

    def __init__(self, context: AppContext):
        self.context, self._manager = context, DownloadManager()

    @property
    def progress(self) -> DownloadProgress | None:
        """The progress, or None if no download is running."""
        return self._manager.get_progress(None)

    def start(self) -> None:
        """Start the download unless it is running, or the dataset exists."""

        def download(on_bytes: OnBytes) -> None:
            data.open_dataset(self.context.data_root, download=True, on_bytes=on_bytes)

        if self.context.is_dataset_missing():
            self._manager.start(None, download)

    def stop(self) -> None:
        """Stop the download. The next call of `start` continues the download."""
        self._manager.stop(None)

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
        error = self._manager.errors.get(None)
        state = "missing" if error is None else "failed" if error else "stopped"
        return {"state": state, "done": 0.0, "text": error or ""}


def build_card(elem_id: str) -> None:
    """Lay out a card, which is visible while the dataset is missing."""
    add_view("dataset_card", elem_id=elem_id)
