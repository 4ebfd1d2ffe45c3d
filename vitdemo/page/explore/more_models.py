"""The panel "More models": Vision Transformers from timm, the Hub or this computer, on request.

On a page bound to localhost, the user can add any model, and all users then see the model. On other
pages, and through a proxy, users can add only suggested models, for the current session. Therefore,
only the user of this computer can open paths on the server.
"""

from collections.abc import Callable, Iterator
from functools import partial

import gradio as gr
from gradio.utils import LRUCache

from vitdemo.data.downloads import OnBytes
from vitdemo.errors import ModelError, Stopped, VitdemoError
from vitdemo.page.components.run_choice import update_run_choices
from vitdemo.page.components.task_list import Task, TaskList, parse_task_action
from vitdemo.page.feature import PageSetup
from vitdemo.page.fetching import DownloadManager
from vitdemo.page.gradio_patches import current_request, session_id
from vitdemo.page.kit import NO_PROGRESS, REFRESH_EVENT, is_local_request, show_user_errors
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

MORE_MODELS_INTRO = (
    "Adds pretrained Vision Transformers from [timm](https://huggingface.co/timm) to the list of "
    "models. Their weights are downloaded from the Hugging Face Hub."
)
ANY_MODEL_NOTE = (
    " To open your own model, enter `hf-hub:USER/NAME`, or `local:PATH` for a folder or a weights "
    "file on this computer."
)
LABELS_INFO = (
    "Optional, for a model whose labels are not stored: one label per line, in output order."
)
SESSION_ONLY_NOTE = " Only you can see an added model, until you leave this page."
MODEL_ACTIONS = ("add", "stop", "remove")
SUGGESTIONS_BY_NAME = {suggestion.name: suggestion for suggestion in MODEL_SUGGESTIONS}
MAX_LABELS_LENGTH = 10**6  # ImageNet-22k's labels have 300,000 characters
MAX_ERRORS = 200  # maximum number of stored messages about failed downloads
MODEL_DOWNLOAD_QUEUE = {"concurrency_id": "downloads of models", "concurrency_limit": 20}


class MoreModelsPanel:
    """Components and event handlers of the panel."""

    def __init__(self, setup: PageSetup):
        self.setup, self.context, self.downloads = setup, setup.context, DownloadManager()
        self.local_only = local_only = setup.local_only
        # download key -> message of the last failure
        self.errors: LRUCache[tuple, str] = LRUCache(MAX_ERRORS)
        with gr.Accordion("More models", open=False, elem_id="more-models") as self.panel:
            self.intro = gr.Markdown(
                MORE_MODELS_INTRO + (ANY_MODEL_NOTE if local_only else SESSION_ONLY_NOTE)
            )
            self.model_list = TaskList(elem_id="offered-models")
            self.name_input = gr.Textbox(
                label="Other model",
                placeholder="vit_base_patch16_224, hf-hub:USER/NAME or local:PATH",
                max_length=1000,
                visible=local_only,
                elem_id="model-name",
            )
            self.labels_input = gr.Textbox(
                label="Labels",
                info=LABELS_INFO,
                lines=2,
                max_lines=8,
                max_length=MAX_LABELS_LENGTH,
                visible=local_only,
                elem_id="model-labels",
            )
            self.add_button = gr.Button(
                "Add model", size="sm", visible=local_only, elem_id="add-model"
            )

    def wire(self) -> None:
        """Connect the events; call this after the menu of models was created."""
        opened = [
            self.model_list, self.intro, self.name_input, self.labels_input, self.add_button
        ]  # fmt: skip
        self.panel.expand(self.render_panel, None, opened, **REFRESH_EVENT)
        model, several = self.setup.shown["model"], {"trigger_mode": "multiple"}
        told = [self.model_list, model]
        self.model_list.act(
            self.run_action, model, told, **several, **NO_PROGRESS, **MODEL_DOWNLOAD_QUEUE
        )
        by_name = (
            [self.add_button.click, self.name_input.submit],
            self.add_entered_model,
            [self.name_input, self.labels_input],
            told,
        )
        gr.on(*by_name, **NO_PROGRESS, **MODEL_DOWNLOAD_QUEUE)

    @property
    def is_for_all_users(self) -> bool:
        """Return whether this request adds models for all users, which requires a local page."""
        return self.local_only and is_local_request(current_request())

    def download_key(self, name: str) -> tuple:
        """Return the key of a download; sessions share a key if models are added for all users."""
        return (None if self.is_for_all_users else session_id(), name)

    def render_panel(self) -> tuple:
        named = gr.update(visible=self.is_for_all_users)
        return (
            self.task_rows(),
            MORE_MODELS_INTRO + (ANY_MODEL_NOTE if self.is_for_all_users else SESSION_ONLY_NOTE),
            named,
            named,
            named,
        )

    def task_rows(self) -> list[Task]:
        there = {run.name.removeprefix(TIMM_PREFIX): run for run in self.list_added_models()}
        failed = [name for key, name in self.errors if (key, name) == self.download_key(name)]
        keys = self.downloads.list_keys()
        running = [name for key, name in keys if (key, name) == self.download_key(name)]
        names = dict.fromkeys([*SUGGESTIONS_BY_NAME, *there, *running, *failed])
        return [self.task_row(name, there.get(name)) for name in names]

    def list_added_models(self) -> list[TimmRun]:
        """Return the timm models of all users and of the current user, with unique names."""
        found, _ = self.context.list_runs_and_models()
        return [run for run in found if isinstance(run, TimmRun)]

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
        if error := self.errors.get(self.download_key(name)):
            again = [("add", "Try again")]
            return Task(name, "failed", words, 1.0, again, error, about["title"])
        return Task(name, "", words, 1.0, [("add", "Add")], **about)

    @show_user_errors
    def run_action(self, event: gr.EventData, chosen: str | None) -> Iterator[tuple]:
        """Add or remove a model, or stop its download; yield the list and the model choice."""
        action, name = parse_task_action(event, MODEL_ACTIONS)
        if action == "add":
            yield from self.download_and_add(name)
            return
        if action == "stop":
            self.downloads.stop(self.download_key(name))
        else:
            for run in self.list_added_models():
                if run.name == add_timm_prefix(name):
                    self.context.timm_models.remove(run, for_all=self.is_for_all_users)
        yield self.task_rows(), update_run_choices(self.context.explainable_runs(), chosen)[0]

    @show_user_errors
    def add_entered_model(self, name: str, labels: str = "") -> Iterator[tuple]:
        """Add the model whose timm name or address the user entered, with optional labels."""
        name = (name or "").strip().removeprefix(TIMM_PREFIX)
        yield from self.download_and_add(name, parse_labels((labels or "")[:MAX_LABELS_LENGTH]))

    def download_and_add(self, name: str, labels: tuple[str, ...] = ()) -> Iterator[tuple]:
        """Download the model `name`, add it and choose it. The row of the model shows an error."""
        fetch, key = self.resolve_model(name, labels), self.download_key(name)
        self.errors.pop(key, None)
        found: list[TimmRun] = []
        try:
            for _ in self.downloads.run_download(
                key, lambda on_bytes: found.append(fetch(on_bytes))
            ):
                yield self.task_rows(), gr.skip()
            if not found:  # another session downloads the same model
                return
            (run,) = found
            self.context.load_model(run)  # before the model is added, so that errors appear now
        except (Stopped, VitdemoError) as error:
            if not isinstance(error, Stopped):
                self.errors[key] = str(error)
            yield self.task_rows(), gr.skip()
            return
        self.replace_opened_model(run)
        self.context.timm_models.add(run, for_all=self.is_for_all_users)
        shown = next(each.name for each in self.list_added_models() if each.path == run.path)
        choice, _ = update_run_choices(self.context.explainable_runs(), shown)
        yield self.task_rows(), choice | {"value": shown}

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
