"""The panel "More models": Vision Transformers from timm, the Hub or this computer, on request.

On a page bound to localhost, the user can add any model, and all users then see the model. On other
pages, and through a proxy, users can add only suggested models, for the current session. Therefore,
only the user of this computer can open paths on the server.

The payload is {"rows": rows that `createTaskRows` draws, "acceptsNames": bool, "added": name and
number of the model that the session added last, or None}. The script chooses a new model once.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial

import gradio as gr
from gradio.utils import LRUCache

from vitdemo.context import AppContext
from vitdemo.data.downloads import OnBytes
from vitdemo.errors import ModelError
from vitdemo.page.bridge import add_view
from vitdemo.page.components.task_list import Task, parse_task_action
from vitdemo.page.feature import Feature, PageSetup
from vitdemo.page.fetching import MAX_ERRORS, DownloadManager
from vitdemo.page.gradio_patches import current_request, session_id
from vitdemo.page.kit import is_local_request
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs.opened_model import (
    add_timm_prefix,
    is_model_address,
    open_model,
    parse_labels,
)
from vitdemo.runs.timm_run import (
    MODEL_SUGGESTIONS,
    TIMM_PREFIX,
    TimmRun,
    create_timm_run,
    download_weights,
)

VIEW, CHANGE = "more_models", "more_models.change"
MODEL_ACTIONS = ("add", "stop", "remove")
SUGGESTIONS_BY_NAME = {suggestion.name: suggestion for suggestion in MODEL_SUGGESTIONS}
MAX_LABELS_LENGTH = 10**6  # ImageNet-22k's labels have 300,000 characters


def build(setup: PageSetup) -> Feature:
    with gr.Accordion("More models", open=False, elem_id="more-models"):
        add_view(VIEW, elem_id="offered-models")
    return MoreModels(setup.context, local_only=setup.local_only).make_feature()


class MoreModels:
    """The models of the panel, and their downloads."""

    def __init__(self, context: AppContext, *, local_only: bool):
        self.context, self.local_only, self.downloads = context, local_only, DownloadManager()
        # session -> name and number of the model that it added last
        self._added: LRUCache[str | None, tuple[str, int]] = LRUCache(MAX_ERRORS)
        self._numbers = itertools.count(1)

    @property
    def is_for_all_users(self) -> bool:
        """Return whether this request adds models for all users, which requires a local page."""
        return self.local_only and is_local_request(current_request())

    def download_key(self, name: str) -> tuple:
        """Return the key of a download; sessions share a key if models are added for all users."""
        return (None if self.is_for_all_users else session_id(), name)

    def make_feature(self) -> Feature:
        return Feature({VIEW: self.payload}, actions={CHANGE: self.change})

    @needs()
    def payload(self, context: AppContext, state: ViewState) -> dict:
        rows = [asdict(row) for row in self.task_rows()]
        added = self._added.get(session_id())
        return {"rows": rows, "acceptsNames": self.is_for_all_users, "added": added}

    def change(self, context: AppContext, state: ViewState, fields: Mapping) -> list[str]:
        """Add or remove a model, or stop its download. Raises `VitdemoError`."""
        action, name = parse_task_action(fields, MODEL_ACTIONS)
        if action == "add":
            labels = str(fields.get("labels") or "")[:MAX_LABELS_LENGTH]
            self.start_download(name.strip().removeprefix(TIMM_PREFIX), parse_labels(labels))
        elif action == "stop":
            self.downloads.stop(self.download_key(name))
        else:
            self.downloads.forget(self.download_key(name))
            for run in self.list_added_models():
                if run.name == add_timm_prefix(name):
                    self.context.timm_models.remove(run, for_all=self.is_for_all_users)
        return [VIEW]

    def task_rows(self) -> list[Task]:
        there = {run.name.removeprefix(TIMM_PREFIX): run for run in self.list_added_models()}
        tried = [
            name
            for key, name in self.downloads.list_keys()
            if (key, name) == self.download_key(name)
        ]
        names = dict.fromkeys([*SUGGESTIONS_BY_NAME, *there, *tried])
        return [self.task_row(name, there.get(name)) for name in names]

    def list_added_models(self) -> list[TimmRun]:
        """Return the timm models of all users and of the current user, with unique names."""
        found, _ = self.context.list_runs_and_models()
        return [run for run in found if not run.has_folder]

    def task_row(self, name: str, added_run: TimmRun | None) -> Task:
        """Return the task row of the model `name`; `added_run` is its run, or None if not added."""
        run = added_run
        if run is None and not is_model_address(name):
            run = self.context.cache.call(create_timm_run, f"{TIMM_PREFIX}{name}")
        known = SUGGESTIONS_BY_NAME.get(name)
        notices = run.notices if run else ()
        note = " ".join([*([known.description] if known else []), *notices])
        about = {"note": note, "title": known.title if known else ""}
        if now := self.downloads.get_progress(self.download_key(name)):
            stop = [("stop", "Stop")]
            return Task(
                name, "downloading", now.description, min(now.fraction, 0.999), stop, **about
            )
        if added_run:
            removable = self.context.timm_models.is_removable(run, for_all=self.is_for_all_users)
            remove = [("remove", "Remove")] if removable else []
            return Task(name, "added", describe_timm_model(run), 1.0, remove, **about)
        words = describe_timm_model(run) if run else ""
        if error := self.downloads.errors.get(self.download_key(name)):
            again = [("add", "Try again"), ("remove", "Remove")]
            return Task(name, "failed", words, 1.0, again, error, about["title"])
        return Task(name, "", words, 1.0, [("add", "Add")], **about)

    def start_download(self, name: str, labels: tuple[str, ...] = ()) -> None:
        """Download the model `name`, and add it. The row of the model shows an error."""
        fetch, for_all = self.resolve_model(name, labels), self.is_for_all_users

        def download(on_bytes: OnBytes) -> None:
            run = fetch(on_bytes)
            self.context.load_model(run)  # before the model is added, so that errors appear now
            self.replace_opened_model(run)
            self.context.timm_models.add(run, for_all=for_all)
            shown = next(each for each in self.list_added_models() if each.path == run.path)
            self._added[session_id()] = shown.name, next(self._numbers)

        self.downloads.start(self.download_key(name), download)

    def replace_opened_model(self, run: TimmRun) -> None:
        """Remove the same model with other labels, so that the new labels are shown."""
        for known in self.context.timm_models.list():
            if known.path == run.path and known.stamp != run.stamp:
                self.context.timm_models.remove(known, for_all=self.is_for_all_users)

    def resolve_model(
        self, name: str, labels: tuple[str, ...] = ()
    ) -> Callable[[OnBytes], TimmRun]:
        """Return a function that downloads a model and returns its run. Raises `ModelError`."""
        if not name:
            raise ModelError("Enter the name of a timm model, such as vit_base_patch16_224.")
        is_address = is_model_address(name)
        if not self.is_for_all_users and name not in SUGGESTIONS_BY_NAME:
            raise ModelError(f"'{name}' cannot be added here. Choose one of the listed models.")
        if "=" in name and not is_address:
            raise ModelError(f"'{name}' cannot be added here. Open a file with local:PATH.")
        if self.downloads.get_progress(self.download_key(name)):
            raise ModelError(f"'{name}' is already being downloaded. Wait until it is finished.")
        if is_address:
            return partial(open_model, name, labels)
        if labels:
            raise ModelError("timm has the labels of this model. Leave the field Labels empty.")
        return partial(
            download_weights, self.context.cache.call(create_timm_run, f"{TIMM_PREFIX}{name}")
        )


def describe_timm_model(run: TimmRun) -> str:
    """Return the model's size and licence, and whether its weights were downloaded."""
    size = 4 * run.config["parameters"] / 1e6  # MB: the Hub stores 4 bytes per weight (float32)
    words = [
        f"{size:.0f} MB",
        run.licence,
        "already downloaded" if run.find_downloaded() else "",
    ]
    return ", ".join(word for word in words if word)
