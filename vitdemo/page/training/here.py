"""The panel "Train a model": recipe and cost, training runs, live curves and the animation."""

import math
from collections.abc import Sequence

import gradio as gr

from vitdemo.cache import as_key
from vitdemo.errors import JobError, VitdemoError
from vitdemo.film import film, filmed
from vitdemo.jobs import ACTIONS, Jobs
from vitdemo.jobs.cost import cost_of
from vitdemo.jobs.options import OPTIONS, PRESETS, Option, preset_named, values_of
from vitdemo.jobs.state import AT_WORK
from vitdemo.page.components.article import Article
from vitdemo.page.components.curves import Curves
from vitdemo.page.components.film_view import FilmView, Screening
from vitdemo.page.components.run_choice import RunChoice, renewed_runs
from vitdemo.page.components.task_list import TaskList, wanted
from vitdemo.page.kit import (
    HIDDEN,
    KEPT_SECONDS,
    LIGHT_QUEUE,
    LONG_QUEUE,
    MODEL_QUEUE,
    QUIET,
    came_from_here,
    for_people,
)
from vitdemo.page.look.picture import TRUE_CLASS
from vitdemo.page.look.tab import Look
from vitdemo.page.training import live
from vitdemo.runs import Run

SECONDS = 2  # refresh interval
OFF = (
    "Training from this page is disabled because other computers can reach it. To enable it, "
    "start `app.py` with `--allow-training`. Runs started with `python train.py` appear below."
)
ON = "Training is enabled for {whom}. {limits}"
FIRST = next(iter(PRESETS))
ALONE = "None (no guess)"
PROBING = "Measuring the training time on this machine …"
BUSY = " Another training run is in progress; this one starts after it."
GUESS = "Expected gain"
NONE = "No training run has been started on this page yet."
POINTS = "percentage points of validation accuracy, for example +2.5"
NO_FILM = (
    "Training runs started here save their weights after each epoch. The animation shows the "
    "attention and prediction for the image in Explore. It starts after the first epoch."
)
NO_PICTURE = "Choose an image in the tab Explore to see how attention to it changes in training."
# The timer only runs while its output is visible, so that a page behind another tab stays idle.
WATCH = """async () => {
  await new Promise((done) => setTimeout(done, 100));
  return { __type__: "update", active: Boolean(document.querySelector("SEEN")?.offsetParent) };
}"""


def build(tab: gr.Tab, look: Look, jobs: Jobs | None) -> None:
    """Lay out and wire the panel; without `jobs` it only explains why training is disabled."""
    with gr.Accordion("Train a model", open=False, elem_id="train-here") as panel:
        if jobs is None:
            gr.Markdown(OFF)
            return
        whom = "everyone who can reach this page" if jobs.for_all else "this computer only"
        gr.Markdown(ON.format(whom=whom, limits=jobs.limits.words))
        TrainingPanel(jobs, look).wire(tab, panel)


class TrainingPanel:
    """Components and event handlers of the panel."""

    def __init__(self, jobs: Jobs, look: Look):
        self.jobs, self.look, self.workbench = jobs, look, look.workbench
        titles = [(preset.title, name) for name, preset in PRESETS.items()]
        self.preset = gr.Radio(titles, value=FIRST, label="Recipe", elem_id="preset")
        self.about = gr.Markdown(PRESETS[FIRST].words, elem_id="preset-words")
        with gr.Accordion("Recipe settings", open=False, elem_id="ingredients"), gr.Row():
            begin = values_of(FIRST)
            self.switches = [switch(name, option, begin[name]) for name, option in OPTIONS.items()]
        with gr.Row():
            with gr.Column(min_width=260):
                self.beside = RunChoice(
                    [], label="Baseline", nobody=ALONE, elem_id="beside",
                    info="run to compare the result with; requires a guess",
                )  # fmt: skip
            with gr.Column(min_width=260):
                self.guess = gr.Textbox(
                    label=GUESS, placeholder=POINTS, max_length=20, elem_id="guess"
                )
        self.cost = Article(elem_id="cost")
        self.start = gr.Button("Start training", variant="primary", elem_id="start-training")
        self.list = TaskList(elem_id="trainings", empty=NONE)
        self.curves = Curves(elem_id="live")
        self.of = RunChoice([], label="Animated run", elem_id="film-of", min_width=220)
        self.film = FilmView(elem_id="film")
        # The run shown last: when a newer one starts, the animation switches to it.
        self.followed = gr.State(None, time_to_live=KEPT_SECONDS)
        self.shot = gr.Textbox(visible="hidden", label="Animation source")
        self.timer = gr.Timer(SECONDS, active=False)

    def wire(self, tab: gr.Tab, panel: gr.Accordion) -> None:
        told = {
            "fn": self.tell,
            "inputs": [self.look.picture, self.beside, self.of, self.followed],
            "outputs": [self.list, self.curves, self.beside, self.of, self.followed, self.shot],
        }
        tab.select(self.open, None, panel, **QUIET)
        # Not on tab.select: a gradio component updated in a closed panel loses its initial values.
        gr.on([panel.expand, self.timer.tick, self.of.input], **told, **QUIET)
        for opened in (tab.parent.change, tab.select, panel.expand, panel.collapse):
            opened(None, js=WATCH.replace("SEEN", "#trainings"), outputs=self.timer, **HIDDEN)
        shown = [self.look.picture, self.shot]
        self.shot.change(self.screen, shown, self.film, **HIDDEN, **MODEL_QUEUE)
        costs = {"fn": self.costs, "inputs": [self.preset, *self.switches], "outputs": self.cost}
        often = HIDDEN | LONG_QUEUE | {"trigger_mode": "always_last"}
        gr.on([switch.input for switch in self.switches] + [panel.expand], **costs, **often)
        chosen = self.preset.input(
            self.set, self.preset, [self.about, self.cost, *self.switches], **HIDDEN, **LIGHT_QUEUE
        )
        chosen.then(**costs, **often)
        started = self.start.click(
            self.begin,
            [self.preset, self.beside, self.guess, *self.switches],
            self.list,
            **HIDDEN, **LIGHT_QUEUE,
        )  # fmt: skip
        started.success(**told, **QUIET)
        self.list.act(self.act, None, self.list, **HIDDEN, **LIGHT_QUEUE)

    # --- state of the runs -------------------------------------------------------------------

    def open(self) -> dict:
        """Open the panel if a training run is in progress."""
        busy = any(job.state in AT_WORK for job in self.jobs.all())
        return gr.update(open=True) if busy else gr.skip()

    def tell(self, image, beside: str | None, of: str | None, followed: str | None) -> tuple:
        """Return rows, curves, baselines, runs with snapshots, and the animation source."""
        found, watched = live.rows(self.jobs, self.workbench), live.watched(self.jobs.all())
        tested = [run for run in self.workbench.runs()[0] if run.has_evaluation]
        others, _ = renewed_runs(tested, beside, optional=True)
        shown = filmed(self.workbench)
        films, of = renewed_runs(shown, of)
        newest = watched.name if watched else None
        if newest != followed and newest in [run.name for run in shown]:
            films, of, followed = films | {"value": newest}, newest, newest
        return found, live.drawing(watched), others, films, followed, self.take(image, of, shown)

    def take(self, image, of: str | None, shown: list[Run]) -> str:
        """Return the run's name, and a second line that changes whenever the animation would."""
        kept = next((run for run in shown if run.name == of), None)
        epochs = sorted((kept.path / "epochs").glob("*")) if kept else []
        written = [path.stat().st_mtime_ns for path in epochs] or [kept and kept.stamp]
        picture = hash(as_key(image)) if image else None
        return f"{of or ''}\n{written[-1:]} {len(written)} {picture}"

    def screen(self, image, take: str) -> Screening | str:
        of = take.partition("\n")[0]
        if not of:
            return NO_FILM
        if image is None:
            return NO_PICTURE
        try:
            shown = film(self.workbench, self.workbench.run(of), image)
        except VitdemoError as error:
            return str(error)
        return Screening(shown, image.info.get(TRUE_CLASS))

    # --- settings and actions ----------------------------------------------------------------

    @for_people
    def set(self, preset) -> list:
        return [preset_named(preset).words, PROBING, *values_of(preset).values()]

    def costs(self, preset, *values) -> str:
        try:
            recipe = self.jobs.recipe(preset, dict(zip(OPTIONS, values, strict=True)))
            pictures = self.jobs.pictures(recipe)
            busy = any(job.state in AT_WORK for job in self.jobs.all())
            device = self.workbench.device
            found = cost_of(recipe, pictures, self.jobs.root, device, busy=busy)
            return found.words + (BUSY if busy else "")
        except VitdemoError as error:
            return str(error)

    @for_people
    def begin(self, request: gr.Request, preset, beside, guess, *values) -> Sequence:
        check_who(self.jobs, request)
        points = points_guessed(guess, beside) if beside else None
        if beside:
            self.workbench.run(beside)  # raises RunError if the baseline no longer exists
        chosen = dict(zip(OPTIONS, values, strict=True))
        job = self.jobs.start(preset, chosen, beside, points)
        gr.Info(f"{job.name} is {job.state}.")
        return live.rows(self.jobs, self.workbench)

    @for_people
    def act(self, request: gr.Request, event: gr.EventData) -> Sequence:
        check_who(self.jobs, request)
        action, name = wanted(event, list(ACTIONS))
        ACTIONS[action](self.jobs, name)
        return live.rows(self.jobs, self.workbench)


def check_who(jobs: Jobs, request: gr.Request) -> None:
    """Raise `JobError` if a localhost-only page was reached by a proxy or another host name."""
    if not jobs.for_all and not came_from_here(request):
        raise JobError(
            "Only this computer can train models. To allow others, start app.py with "
            "--allow-training."
        )


def points_guessed(words: object, beside: str) -> float:
    """Parse the guess, in percentage points. Raises `JobError` if it is not such a number."""
    text = words.strip().replace("−", "-").replace(",", ".") if isinstance(words, str) else ""
    if not text:
        raise JobError(f"Enter a guess: the expected gain over {beside}, in percentage points.")
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not -100 <= points <= 100:
        raise JobError(
            f"The guess '{text[:20]}' is not a number of percentage points from −100 to 100."
        )
    return points


def switch(name: str, option: Option, value):
    """Build the input component of an option."""
    looks = {"label": option.label, "info": option.info or None, "min_width": 150,
             "elem_id": f"option-{name.replace('_', '-')}"}  # fmt: skip
    if option.choices:
        words = option.words or map(str, option.choices)
        return gr.Dropdown(list(zip(words, option.choices, strict=True)), value=value, **looks)
    if option.kind is bool:
        return gr.Dropdown([("on", True), ("off", False)], value=value, **looks)
    return gr.Number(value, **looks)
