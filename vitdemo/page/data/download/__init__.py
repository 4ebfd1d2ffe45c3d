"""The message about a missing dataset, and the download of CIFAR-10.

    {"message": str, "can_download": bool}

The message is empty if there is a dataset. A download is an event of gradio, not a task of the
bridge: it may take an hour, and tasks run one at a time.
"""

from collections.abc import Iterator
from functools import partial

import gradio as gr

from vitdemo import data
from vitdemo.context import AppContext
from vitdemo.data.downloads import OnBytes
from vitdemo.errors import DataError, Stopped, VitdemoError
from vitdemo.page.bridge import ViewState, add_view
from vitdemo.page.components.task_list import Task, TaskList, parse_task_action
from vitdemo.page.fetching import DownloadManager
from vitdemo.page.kit import NO_PROGRESS, show_user_errors

VIEW = "dataset"
CIFAR10, DOWNLOAD_ACTIONS = "CIFAR-10", ("get", "stop")
DOWNLOAD_HELP = (
    "Source: the Hugging Face Hub or, if it cannot be reached, CIFAR-10's website, which is slow. "
    "A stopped download can be continued later."
)
DOWNLOAD_STOPPED_MESSAGE = "Download stopped. The next download continues from here."
TEXTS = {"done": "The dataset was downloaded. Reload the page to show its images in Explore."}
# Downloads have a separate queue, so that they do not block other requests.
DOWNLOAD_QUEUE = {"concurrency_id": "dataset download", "concurrency_limit": 20}
JS_RELOAD = "() => vitdemo.dataset.reload()"


def build(context: AppContext) -> None:
    """Lay out the message, and the row of the download, which CSS hides without a message."""
    add_view(VIEW, elem_id="data-missing")
    fetching = DownloadManager()
    fetch = TaskList([download_row(fetching)], elem_id="data-download")

    @show_user_errors
    def act(event: gr.EventData) -> Iterator[list[Task]]:
        if parse_task_action(event, DOWNLOAD_ACTIONS)[0] == "stop":
            fetching.stop(CIFAR10)
            yield gr.skip()
            return
        if fetching.get_progress(CIFAR10):
            raise DataError("The dataset is already being downloaded. Wait until it is complete.")
        try:
            for _ in fetching.run_download(CIFAR10, partial(download_cifar10, context)):
                yield [download_row(fetching)]
        except Stopped:
            yield [download_row(fetching, DOWNLOAD_STOPPED_MESSAGE)]
        except VitdemoError:
            yield [download_row(fetching)]
            raise

    done = fetch.act(act, None, fetch, trigger_mode="multiple", **NO_PROGRESS, **DOWNLOAD_QUEUE)
    done.then(None, js=JS_RELOAD, **NO_PROGRESS)


def payload(context: AppContext, state: ViewState) -> dict:
    """Return the error message of a missing dataset, and whether CIFAR-10 can be downloaded."""
    try:
        context.open_dataset()
    except DataError as error:
        is_missing = data.is_dataset_missing(context.data_root)
        return {"message": str(error), "can_download": is_missing}
    return {"message": "", "can_download": False}


def download_row(fetching: DownloadManager, note: str = DOWNLOAD_HELP) -> Task:
    """Return the task row of the dataset download, with the current progress or a `note`."""
    if now := fetching.get_progress(CIFAR10):
        stop = [("stop", "Stop")]
        return Task(CIFAR10, "downloading", now.description, min(now.fraction, 0.999), stop)
    return Task(CIFAR10, "", "170 MB", 1.0, [("get", "Download")], note)


def download_cifar10(context: AppContext, on_bytes: OnBytes) -> None:
    """Download CIFAR-10 to the page's data folder.

    Raises `DataError` without a network connection, or if the folder contains other files.
    """
    data.open_dataset(context.data_root, download=True, on_bytes=on_bytes)
