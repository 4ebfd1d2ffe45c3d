"""More models: Vision Transformers of timm's, downloaded at a click and shown beside the runs.

On a page that serves this machine alone a model is added for all who look, any that timm knows by
name. Elsewhere, and for who comes through a proxy, it is added for the visit of who asked, and only
one of those suggested.
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
    "Pretrained Vision Transformers of [timm](https://huggingface.co/timm), from the Hugging Face "
    "Hub, beside those that were trained here."
)
FOR_A_VISIT = " They are shown to you alone, until you leave this page."
ACTIONS = ("add", "stop", "remove")
TITLES = {suggestion.name: suggestion for suggestion in SUGGESTIONS}
QUEUE = {"concurrency_id": "downloads of models", "concurrency_limit": 20}


class MoreModels:
    """The panel's components and its answers."""

    def __init__(self, look: Look, *, alone: bool):
        self.look, self.alone, self.fetching = look, alone, Fetching()
        self.workbench = look.workbench
        with gr.Accordion("More models", open=False, elem_id="more-models") as self.panel:
            self.words = gr.Markdown(WORDS if alone else WORDS + FOR_A_VISIT)
            self.list = TaskList(elem_id="offered-models")
            self.name = gr.Textbox(
                label="Any other, by timm's name",
                placeholder="vit_base_patch16_224",
                max_length=200,
                visible=alone,
                elem_id="model-name",
            )
            self.add = gr.Button("Add it", size="sm", visible=alone, elem_id="add-model")

    def wire(self) -> None:
        """Connect the events; called once `look` is laid out."""
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
        """Whether what is asked for now is asked for all: this machine asks, on its own page."""
        return self.alone and came_from_here(LocalContext.request.get(None))

    def key(self, name: str) -> tuple:
        """Of a download: everyone's on this machine's own page, else of who asks."""
        return (None if self.for_all else visitor(), name)

    def opened(self) -> tuple:
        """What the panel shows to who opens it."""
        named = gr.update(visible=self.for_all)
        return self.rows(), WORDS if self.for_all else WORDS + FOR_A_VISIT, named, named

    def rows(self) -> list[Task]:
        """The suggestions, then what else was added."""
        there = {run.name.removeprefix(PREFIX): run for run in self.workbench.timm_models}
        names = [*TITLES, *(name for name in there if name not in TITLES)]
        return [self.row(name, there.get(name)) for name in names]

    def row(self, name: str, shown: TimmRun | None) -> Task:
        """The line of the model `name`: `shown` where it is on the page already."""
        run = shown or self.workbench.cache.of(timm_run, f"{PREFIX}{name}")
        known = TITLES.get(name)
        about = {"note": known.use if known else "", "title": known.title if known else ""}
        if now := self.fetching.progress(self.key(name)):
            stop = [("stop", "Stop")]
            return Task(name, "downloading", now.words, min(now.share, 0.999), stop, **about)
        if shown:
            removable = self.workbench.is_removable(run.name, for_all=self.for_all)
            remove = [("remove", "Remove")] if removable else []
            return Task(name, "here", described(run), 1.0, remove, **about)
        return Task(name, "", described(run), 1.0, [("add", "Add")], **about)

    @for_people
    def act(self, event: gr.EventData, chosen: str | None) -> Iterator[tuple]:
        """Add, stop or remove a model; gives the list, and the choice of models."""
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
        """Add a model that a person named."""
        yield from self.fetch((name or "").strip().removeprefix(PREFIX))

    def fetch(self, name: str) -> Iterator[tuple]:
        """Download the model `name` and add it: it is then the chosen one."""
        run = self.checked(name)
        try:
            for _ in self.fetching.follow(self.key(name), lambda on_bytes: download(run, on_bytes)):
                yield self.rows(), gr.skip()
            self.workbench.model(run)  # before it is shown: what cannot be loaded is said here
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
        """Raises `ModelError` for what may not be added here, or is no model."""
        if not name:
            raise ModelError("Name a model first, such as vit_base_patch16_224.")
        if "=" in name or (not self.for_all and name not in TITLES):
            raise ModelError("There is nothing of this kind on the page.")
        if self.fetching.progress(self.key(name)):
            raise ModelError(f"'{name}' is being downloaded already.")
        return self.workbench.cache.of(timm_run, f"{PREFIX}{name}")


def described(run: TimmRun) -> str:
    """Its size and licence, and what of it is here."""
    size = 4 * run.config["parameters"] / 1e6  # MB, as the Hub has it: float32
    words = [f"{size:.0f} MB", licence(run), "downloaded before" if known_weights(run) else ""]
    return ", ".join(word for word in words if word)
