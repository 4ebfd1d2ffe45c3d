"""The panel "More models": Vision Transformers from timm, downloaded on request.

On a page bound to localhost, the user can add any timm model, and all users then see the model. On
other pages, and through a proxy, users can add only suggested models, for the current session.
"""

from collections.abc import Iterator

import gradio as gr
from gradio.utils import LRUCache

from vitdemo.errors import ModelError, Stopped, VitdemoError
from vitdemo.page.components.run_choice import update_run_choices
from vitdemo.page.components.task_list import Task, TaskList, parse_task_action
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.fetching import DownloadManager
from vitdemo.page.gradio_patches import current_request, session_id
from vitdemo.page.kit import NO_PROGRESS, REFRESH_EVENT, is_local_request, show_user_errors
from vitdemo.runs.timm_run import (
    MODEL_SUGGESTIONS,
    TIMM_PREFIX,
    TimmRun,
    create_timm_run,
    download_weights,
    find_downloaded_weights,
    get_licence,
)

MORE_MODELS_INTRO = (
    "Adds pretrained Vision Transformers from [timm](https://huggingface.co/timm) to the list of "
    "models. Their weights are downloaded from the Hugging Face Hub."
)
SESSION_ONLY_NOTE = " Only you can see an added model, until you leave this page."
MODEL_ACTIONS = ("add", "stop", "remove")
SUGGESTIONS_BY_NAME = {suggestion.name: suggestion for suggestion in MODEL_SUGGESTIONS}
MAX_ERRORS = 200  # remembered failed downloads of all sessions
MODEL_DOWNLOAD_QUEUE = {"concurrency_id": "downloads of models", "concurrency_limit": 20}


class MoreModelsPanel:
    """Components and event handlers of the panel."""

    def __init__(self, look: ExploreTab, *, local_only: bool):
        self.look, self.local_only, self.downloads = look, local_only, DownloadManager()
        self.context = look.context
        # The message of the last failed download, by its key.
        self.errors: LRUCache[tuple, str] = LRUCache(MAX_ERRORS)
        with gr.Accordion("More models", open=False, elem_id="more-models") as self.panel:
            self.intro = gr.Markdown(
                MORE_MODELS_INTRO if local_only else MORE_MODELS_INTRO + SESSION_ONLY_NOTE
            )
            self.model_list = TaskList(elem_id="offered-models")
            self.name_input = gr.Textbox(
                label="Other timm model",
                placeholder="vit_base_patch16_224",
                max_length=200,
                visible=local_only,
                elem_id="model-name",
            )
            self.add_button = gr.Button(
                "Add model", size="sm", visible=local_only, elem_id="add-model"
            )

    def wire(self) -> None:
        """Connect the events; call this after all components of `look` were created."""
        opened = [self.model_list, self.intro, self.name_input, self.add_button]
        self.panel.expand(self.render_panel, None, opened, **REFRESH_EVENT)
        told, several = [self.model_list, self.look.model], {"trigger_mode": "multiple"}
        self.model_list.act(
            self.run_action, self.look.model, told, **several, **NO_PROGRESS, **MODEL_DOWNLOAD_QUEUE
        )
        by_name = (
            [self.add_button.click, self.name_input.submit],
            self.add_entered_model,
            self.name_input,
            told,
        )
        gr.on(*by_name, **NO_PROGRESS, **MODEL_DOWNLOAD_QUEUE)

    @property
    def is_for_all_users(self) -> bool:
        """Return whether this request adds models for all users, which needs a local page."""
        return self.local_only and is_local_request(current_request())

    def download_key(self, name: str) -> tuple:
        """Return the key of a download; sessions share it if models are added for all users."""
        return (None if self.is_for_all_users else session_id(), name)

    def render_panel(self) -> tuple:
        """Return the content of the panel for the current user."""
        named = gr.update(visible=self.is_for_all_users)
        return (
            self.task_rows(),
            MORE_MODELS_INTRO if self.is_for_all_users else MORE_MODELS_INTRO + SESSION_ONLY_NOTE,
            named,
            named,
        )

    def task_rows(self) -> list[Task]:
        """Return a task row for each suggested model, each added model and each failed download."""
        there = {run.name.removeprefix(TIMM_PREFIX): run for run in self.context.timm_models}
        failed = [name for key, name in self.errors if (key, name) == self.download_key(name)]
        names = dict.fromkeys([*SUGGESTIONS_BY_NAME, *there, *failed])
        return [self.task_row(name, there.get(name)) for name in names]

    def task_row(self, name: str, added_run: TimmRun | None) -> Task:
        """Return the task row of the model `name`; `added_run` is its run, or None if not added."""
        run = added_run or self.context.cache.call(create_timm_run, f"{TIMM_PREFIX}{name}")
        known = SUGGESTIONS_BY_NAME.get(name)
        about = {"note": known.description if known else "", "title": known.title if known else ""}
        if now := self.downloads.get_progress(self.download_key(name)):
            stop = [("stop", "Stop")]
            return Task(
                name, "downloading", now.description, min(now.fraction, 0.999), stop, **about
            )
        if added_run:
            removable = self.context.is_removable_model(run.name, for_all=self.is_for_all_users)
            remove = [("remove", "Remove")] if removable else []
            return Task(name, "added", describe_timm_model(run), 1.0, remove, **about)
        if error := self.errors.get(self.download_key(name)):
            again = [("add", "Try again")]
            return Task(name, "failed", describe_timm_model(run), 1.0, again, error, about["title"])
        return Task(name, "", describe_timm_model(run), 1.0, [("add", "Add")], **about)

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
            self.context.remove_timm_model(f"{TIMM_PREFIX}{name}", for_all=self.is_for_all_users)
        yield self.task_rows(), update_run_choices(self.context.explainable_runs(), chosen)[0]

    @show_user_errors
    def add_entered_model(self, name: str) -> Iterator[tuple]:
        """Add the model whose timm name the user entered."""
        yield from self.download_and_add((name or "").strip().removeprefix(TIMM_PREFIX))

    def download_and_add(self, name: str) -> Iterator[tuple]:
        """Download the model `name`, add it and choose it. The row of the model shows an error."""
        run, key = self.resolve_model(name), self.download_key(name)
        self.errors.pop(key, None)
        try:
            for _ in self.downloads.run_download(
                key, lambda on_bytes: download_weights(run, on_bytes)
            ):
                yield self.task_rows(), gr.skip()
            self.context.load_model(run)  # before adding, so that errors appear now
        except Stopped:
            yield self.task_rows(), gr.skip()
            return
        except VitdemoError as error:
            self.errors[key] = str(error)
            yield self.task_rows(), gr.skip()
            return
        self.context.add_timm_model(run, for_all=self.is_for_all_users)
        shown = next(model.name for model in self.context.timm_models if model.path == run.path)
        choice, _ = update_run_choices(self.context.explainable_runs(), shown)
        yield self.task_rows(), choice | {"value": shown}

    def resolve_model(self, name: str) -> TimmRun:
        """Return the run of a model. Raises `ModelError` if it is unknown or may not be added."""
        if not name:
            raise ModelError("Enter the name of a timm model, such as vit_base_patch16_224.")
        if "=" in name or (not self.is_for_all_users and name not in SUGGESTIONS_BY_NAME):
            raise ModelError(f"'{name}' cannot be added here. Choose one of the listed models.")
        if self.downloads.get_progress(self.download_key(name)):
            raise ModelError(f"'{name}' is already being downloaded. Wait until it is finished.")
        return self.context.cache.call(create_timm_run, f"{TIMM_PREFIX}{name}")


def describe_timm_model(run: TimmRun) -> str:
    """Return the model's size and licence, and whether its weights were downloaded."""
    size = 4 * run.config["parameters"] / 1e6  # MB: the Hub stores 4 bytes per weight (float32)
    words = [
        f"{size:.0f} MB",
        get_licence(run),
        "already downloaded" if find_downloaded_weights(run) else "",
    ]
    return ", ".join(word for word in words if word)
