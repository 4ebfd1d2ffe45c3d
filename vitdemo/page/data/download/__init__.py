"""Download of CIFAR-10: a banner above all tabs, and a card wherever the dataset is missing.

    {"state": "ready", "missing", "running", "stopped" or "failed", "done": 0..1, "text": str}

The text is the progress or the error. The script draws the card instead of each message that begins
with `MISSING_DATASET`. The download runs in the background, for all users of the page. When it has
ended, the browser requests all data again (see `bridge.list_new_models`).
"""

from collections.abc import Collection, Mapping

from vitdemo import data
from vitdemo.context import AppContext
from vitdemo.data.downloads import OnBytes
from vitdemo.page.bridge import Action, Payload, ViewState, add_view
from vitdemo.page.fetching import BackgroundDownload

VIEW = "dataset"
START, STOP = "dataset.download", "dataset.stop"
TEXTS = {
    "missing": data.MISSING_DATASET,
    "needed": "This part needs the CIFAR-10 images.",
    "images": "Test images of CIFAR-10:",
    "offer": "The CIFAR-10 images are not downloaded yet.",
    "download": "Download CIFAR-10 (170 MB)",
    "running": "CIFAR-10 downloads in the background: {progress}",
    "connecting": "connecting …",
    "stop": "Stop",
    "stopped": "The download of CIFAR-10 is stopped.",
    "continue": "Continue the download",
    "again": "Try again",
    "ready": "CIFAR-10 is downloaded.",
    "label": "CIFAR-10",
}


class DatasetDownload(BackgroundDownload):
    """The download of CIFAR-10 to the data folder of `context`."""

    def __init__(self, context: AppContext):
        def download(on_bytes: OnBytes) -> None:
            data.open_dataset(context.data_root, download=True, on_bytes=on_bytes)

        super().__init__(download)
        self.context = context

    def payloads(self) -> Mapping[str, Payload]:
        """Return the payload function of the view."""
        return {VIEW: lambda context, state: self.describe()}

    def actions(self) -> Mapping[str, Action]:
        """Return the actions that start and stop the download."""

        def start(context: AppContext, state: ViewState, fields: Mapping) -> Collection[str]:
            if self.context.is_dataset_missing():
                self.start()
            return [VIEW]

        def stop(context: AppContext, state: ViewState, fields: Mapping) -> Collection[str]:
            self.stop()
            return [VIEW]

        return {START: start, STOP: stop}

    def describe(self) -> dict:
        """Return the payload, see the module docstring."""
        now = self.progress
        if not self.context.is_dataset_missing():
            return {"state": "ready", "done": 1.0, "text": ""}
        if now is not None:
            return {"state": "running", "done": now.fraction, "text": now.description}
        state = "failed" if self.error else "stopped" if self.is_stopped else "missing"
        return {"state": state, "done": 0.0, "text": self.error}


def build() -> None:
    """Lay out the banner."""
    add_view(VIEW, elem_id="dataset")


def build_card(elem_id: str) -> None:
    """Lay out a card, which is visible while the dataset is missing."""
    add_view("dataset_card", elem_id=elem_id)
