"""The panel "More models": Vision Transformers from timm, downloaded on request.

On a page bound to localhost, any timm model can be added, and it is added for all users. Otherwise,
and for users behind a proxy, only suggested models can be added, for the current session only.
"""

from collections.abc import Iterator

import gradio as gr
from gradio.context import LocalContext

from vitdemo.errors import ModelError, Stopped, VitdemoError
from vitdemo.page.components.run_choice import renewed_runs
from vitdemo.page.components.task_list import Task, TaskList, wanted
from vitdemo.page.fetching import Fetching
from vitdemo.page.kit import HIDDEN, QUIET, came_from_here, for_people, visitor
from vitdemo.page.look.tab import Look
from vitdemo.timm_models import (
    PREFIX,
    SUGGESTIONS,
    TimmRun,
    download,
    known_weights,
    licence,
    timm_run,
)

WORDS = (
    "Adds pretrained Vision Transformers from [timm](https://huggingface.co/timm) to the list of "
    "models. Their weights are downloaded from the Hugging Face Hub."
)
FOR_A_VISIT = " Only you can see an added model, until you leave this page."
ACTIONS = ("add", "stop", "remove")
TITLES = {suggestion.name: suggestion for suggestion in SUGGESTIONS}
QUEUE = {"concurrency_id": "downloads of models", "concurrency_limit": 20}


class MoreModels:
    """The components of the panel and their event handlers."""

    def __init__(self, look: Look, *, alone: bool):
        self.look, self.alone, self.fetching = look, alone, Fetching()
        self.workbench = look.workbench
        with gr.Accordion("More models", open=False, elem_id="more-models") as self.panel:
            self.words = gr.Markdown(WORDS if alone else WORDS + FOR_A_VISIT)
            self.list = TaskList(elem_id="offered-models")
            self.name = gr.Textbox(
                label="Other timm model",
                placeholder="vit_base_patch16_224",
                max_length=200,
                visible=alone,
                elem_id="model-name",
            )
            self.add = gr.Button("Add model", size="sm", visible=alone, elem_id="add-model")

    def wire(self) -> None:
        """Connect the events. Call this after all components of `look` were created."""
        opened = [self.list, self.words, self.name, self.add]
        self.panel.expand(self.opened, None, opened, **QUIET)
        told, several = [self.list, self.look.model], {"trigger_mode": "multiple"}
        acted = self.list.act(self.act, self.look.model, told, **several, **HIDDEN, **QUEUE)
        by_name = [self.add.click, self.name.submit], self.add_named, self.name, told
        named = gr.on(*by_name, **HIDDEN, **QUEUE)
        for done in (acted, named):
            self.look.answer_again_on(done.success)

    @property
    def for_all(self) -> bool:
        """Return whether this request adds models for all users: it comes from this computer."""
        return self.alone and came_from_here(LocalContext.request.get(None))

    def key(self, name: str) -> tuple:
        """Return the key of a download, which is shared if the model is added for all users."""
        return (None if self.for_all else visitor(), name)

    def opened(self) -> tuple:
        """Return the contents of the panel for the user who opens it."""
        named = gr.update(visible=self.for_all)
        return self.rows(), WORDS if self.for_all else WORDS + FOR_A_VISIT, named, named

    def rows(self) -> list[Task]:
        """Return the suggested models, then the other added models."""
        there = {run.name.removeprefix(PREFIX): run for run in self.workbench.timm_models}
        names = [*TITLES, *(name for name in there if name not in TITLES)]
        return [self.row(name, there.get(name)) for name in names]

    def row(self, name: str, shown: TimmRun | None) -> Task:
        """Return the row of the model `name`; `shown` is its run if it was already added."""
        run = shown or self.workbench.cache.of(timm_run, f"{PREFIX}{name}")
        known = TITLES.get(name)
        about = {"note": known.use if known else "", "title": known.title if known else ""}
        if now := self.fetching.progress(self.key(name)):
            stop = [("stop", "Stop")]
            return Task(name, "downloading", now.words, min(now.share, 0.999), stop, **about)
        if shown:
            removable = self.workbench.is_removable(run.name, for_all=self.for_all)
            remove = [("remove", "Remove")] if removable else []
            return Task(name, "added", described(run), 1.0, remove, **about)
        return Task(name, "", described(run), 1.0, [("add", "Add")], **about)

    @for_people
    def act(self, event: gr.EventData, chosen: str | None) -> Iterator[tuple]:
        """Add or remove a model, or stop its download; yield the list and the model choice."""
        action, name = wanted(event, ACTIONS)
        if action == "add":
            yield from self.fetch(name)
            return
        if action == "stop":
            self.fetching.stop(self.key(name))
        else:
            self.workbench.remove(f"{PREFIX}{name}", for_all=self.for_all)
        yield self.rows(), renewed_runs(self.workbench.explained_runs(), chosen)[0]

    @for_people
    def add_named(self, name: str) -> Iterator[tuple]:
        """Add the model whose timm name the user entered."""
        yield from self.fetch((name or "").strip().removeprefix(PREFIX))

    def fetch(self, name: str) -> Iterator[tuple]:
        """Download the model `name`, add it and choose it."""
        run = self.checked(name)
        try:
            for _ in self.fetching.follow(self.key(name), lambda on_bytes: download(run, on_bytes)):
                yield self.rows(), gr.skip()
            self.workbench.model(run)  # loaded now, so that an error appears before it is added
        except Stopped:
            yield self.rows(), gr.skip()
            return
        except VitdemoError:
            yield self.rows(), gr.skip()
            raise
        self.workbench.add(run, for_all=self.for_all)
        shown = next(model.name for model in self.workbench.timm_models if model.path == run.path)
        choice, _ = renewed_runs(self.workbench.explained_runs(), shown)
        yield self.rows(), choice | {"value": shown}

    def checked(self, name: str) -> TimmRun:
        """Return the run of a model. Raises `ModelError` if it is unknown or may not be added."""
        if not name:
            raise ModelError("Enter the name of a timm model, such as vit_base_patch16_224.")
        if "=" in name or (not self.for_all and name not in TITLES):
            raise ModelError(f"'{name}' cannot be added here. Choose one of the listed models.")
        if self.fetching.progress(self.key(name)):
            raise ModelError(f"'{name}' is already being downloaded. Wait until it is finished.")
        return self.workbench.cache.of(timm_run, f"{PREFIX}{name}")


def described(run: TimmRun) -> str:
    """Return the model's size and licence, and whether its weights were downloaded."""
    size = 4 * run.config["parameters"] / 1e6  # MB: the Hub stores 4 bytes per weight (float32)
    words = [f"{size:.0f} MB", licence(run), "already downloaded" if known_weights(run) else ""]
    return ", ".join(word for word in words if word)
