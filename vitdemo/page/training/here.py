"""The panel "Train a model": recipe, cost, training runs, live curves and an animation."""

import math
from collections.abc import Sequence

import gradio as gr

from vitdemo.analyses.snapshots import load_snapshots, runs_with_snapshots
from vitdemo.cache import make_key
from vitdemo.errors import JobError, VitdemoError
from vitdemo.jobs import JOB_ACTIONS, JobQueue
from vitdemo.jobs.cost import estimate_training_cost
from vitdemo.jobs.options import OPTIONS, PRESETS, TrainingOption, get_preset, preset_values
from vitdemo.jobs.state import ACTIVE_STATES
from vitdemo.page.components.article import Document
from vitdemo.page.components.curves import CurvesView
from vitdemo.page.components.film_view import SnapshotPayload, SnapshotView
from vitdemo.page.components.run_choice import RunChoice, update_run_choices
from vitdemo.page.components.task_list import TaskList, parse_task_action
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.image_sources import TRUE_CLASS_KEY
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    LONG_QUEUE,
    MODEL_QUEUE,
    NO_PROGRESS,
    REFRESH_EVENT,
    STATE_LIFETIME,
    is_local_request,
    show_user_errors,
)
from vitdemo.page.training import live
from vitdemo.runs import Run

PANEL_REFRESH_SECONDS = 2  # refresh interval
TRAINING_DISABLED_MESSAGE = (
    "Training from this page is disabled because other computers can reach it. To enable it, "
    "start `app.py` with `--allow-training`. Runs started with `python train.py` appear below."
)
TRAINING_ENABLED_MESSAGE = "Training is enabled for {whom}. {limits}"
DEFAULT_PRESET = next(iter(PRESETS))
NO_BASELINE_LABEL = "None (no guess)"
MEASURING_COST_MESSAGE = "Measuring the training time on this machine …"
QUEUED_NOTE = " Another training run is in progress; this one starts after it."
GUESS_LABEL = "Expected gain"
NO_JOBS_MESSAGE = "No training run has been started on this page yet."
GUESS_PLACEHOLDER = "percentage points of validation accuracy, for example +2.5"
NO_SNAPSHOTS_MESSAGE = (
    "Training runs started here save their weights after each epoch. After the first epoch, the "
    "animation shows the attention and prediction for the image in Explore."
)
NO_IMAGE_MESSAGE = (
    "Choose an image in the tab Explore to see how attention to it changes in training."
)
# The timer runs only while its output is visible, so that a page in a hidden tab stays idle.
JS_ACTIVATE_TIMER = """async () => {
  await new Promise((done) => setTimeout(done, 100));
  return { __type__: "update", active: Boolean(document.querySelector("SEEN")?.offsetParent) };
}"""


def build(tab: gr.Tab, look: ExploreTab, jobs: JobQueue | None) -> None:
    """Lay out the panel and connect its events; without `jobs`, show why training is disabled."""
    with gr.Accordion("Train a model", open=False, elem_id="train-here") as panel:
        if jobs is None:
            gr.Markdown(TRAINING_DISABLED_MESSAGE)
            return
        whom = "everyone who can reach this page" if jobs.for_all else "this computer only"
        gr.Markdown(TRAINING_ENABLED_MESSAGE.format(whom=whom, limits=jobs.limits.description))
        TrainingPanel(jobs, look).wire(tab, panel)


class TrainingPanel:
    """Components and event handlers of the panel "Train a model"."""

    def __init__(self, jobs: JobQueue, look: ExploreTab):
        self.jobs, self.look, self.context = jobs, look, look.context
        titles = [(preset.title, name) for name, preset in PRESETS.items()]
        self.preset = gr.Radio(titles, value=DEFAULT_PRESET, label="Recipe", elem_id="preset")
        self.preset_description = gr.Markdown(
            PRESETS[DEFAULT_PRESET].description, elem_id="preset-words"
        )
        with gr.Accordion("Recipe settings", open=False, elem_id="ingredients"), gr.Row():
            begin = preset_values(DEFAULT_PRESET)
            self.option_inputs = [
                build_option_input(name, option, begin[name]) for name, option in OPTIONS.items()
            ]
        with gr.Row():
            with gr.Column(min_width=260):
                self.baseline = RunChoice(
                    [], label="Baseline", nobody=NO_BASELINE_LABEL, elem_id="beside",
                    info="run to compare the result with; requires a guess",
                )  # fmt: skip
            with gr.Column(min_width=260):
                self.guess = gr.Textbox(
                    label=GUESS_LABEL, placeholder=GUESS_PLACEHOLDER, max_length=20, elem_id="guess"
                )
        self.cost_view = Document(elem_id="cost")
        self.start_button = gr.Button("Start training", variant="primary", elem_id="start-training")
        self.job_list = TaskList(elem_id="trainings", empty=NO_JOBS_MESSAGE)
        self.live_curves = CurvesView(elem_id="live")
        self.animated_run = RunChoice([], label="Animated run", elem_id="film-of", min_width=220)
        self.animation_view = SnapshotView(elem_id="film")
        # Name of the newest run when the animation last switched to a newer run.
        self.followed = gr.State(None, time_to_live=STATE_LIFETIME)
        self.animation_source = gr.State(None, time_to_live=STATE_LIFETIME)
        self.timer = gr.Timer(PANEL_REFRESH_SECONDS, active=False)

    def wire(self, tab: gr.Tab, panel: gr.Accordion) -> None:
        told = {
            "fn": self.refresh,
            "inputs": [self.look.image, self.baseline, self.animated_run, self.followed],
            "outputs": [
                self.job_list,
                self.live_curves,
                self.baseline,
                self.animated_run,
                self.followed,
                self.animation_source,
            ],
        }
        tab.select(self.open_if_busy, None, panel, **REFRESH_EVENT)
        # Not `tab.select`: a component updated in a closed panel loses its initial values.
        gr.on([panel.expand, self.timer.tick, self.animated_run.input], **told, **REFRESH_EVENT)
        for opened in (tab.parent.change, tab.select, panel.expand, panel.collapse):
            opened(
                None,
                js=JS_ACTIVATE_TIMER.replace("SEEN", "#trainings"),
                outputs=self.timer,
                **NO_PROGRESS,
            )
        shown = [self.look.image, self.animation_source]
        self.animation_source.change(
            self.show_animation, shown, self.animation_view, **NO_PROGRESS, **MODEL_QUEUE
        )
        costs = {
            "fn": self.estimate_cost,
            "inputs": [self.preset, *self.option_inputs],
            "outputs": self.cost_view,
        }
        often = NO_PROGRESS | LONG_QUEUE | {"trigger_mode": "always_last"}
        gr.on([switch.input for switch in self.option_inputs] + [panel.expand], **costs, **often)
        chosen = self.preset.input(
            self.apply_preset,
            self.preset,
            [self.preset_description, self.cost_view, *self.option_inputs],
            **NO_PROGRESS,
            **LIGHT_QUEUE,
        )
        chosen.then(**costs, **often)
        started = self.start_button.click(
            self.start_job,
            [self.preset, self.baseline, self.guess, *self.option_inputs],
            self.job_list,
            **NO_PROGRESS, **LIGHT_QUEUE,
        )  # fmt: skip
        started.success(**told, **REFRESH_EVENT)
        self.job_list.act(self.run_action, None, self.job_list, **NO_PROGRESS, **LIGHT_QUEUE)

    # --- state of the runs -------------------------------------------------------------------

    def open_if_busy(self) -> dict:
        """Open the panel if a training run is in progress."""
        busy = any(job.state in ACTIVE_STATES for job in self.jobs.list_jobs())
        return gr.update(open=True) if busy else gr.skip()

    def refresh(
        self, image, baseline: str | None, animated_name: str | None, followed: str | None
    ) -> tuple:
        """Return task rows, live curves, updates of both run menus, and the animation's state."""
        found, watched = (
            live.job_rows(self.jobs, self.context),
            live.find_followed_job(self.jobs.list_jobs()),
        )
        tested = [run for run in self.context.list_runs()[0] if run.has_evaluation]
        others, _ = update_run_choices(tested, baseline, optional=True)
        shown = runs_with_snapshots(self.context)
        films, animated_name = update_run_choices(shown, animated_name)
        newest = watched.name if watched else None
        if newest != followed and newest in [run.name for run in shown]:
            films, animated_name, followed = films | {"value": newest}, newest, newest
        return (
            found,
            live.render_live_curves(watched),
            others,
            films,
            followed,
            self.animation_signature(image, animated_name, shown),
        )

    def animation_signature(self, image, animated_name: str | None, shown: list[Run]) -> str:
        """Return a text with the run's name and a signature of the animation's content."""
        kept = next((run for run in shown if run.name == animated_name), None)
        epochs = sorted((kept.path / "epochs").glob("*")) if kept else []
        written = [path.stat().st_mtime_ns for path in epochs] or [kept and kept.stamp]
        picture = hash(make_key(image)) if image else None
        return f"{animated_name or ''}\n{written[-1:]} {len(written)} {picture}"

    def show_animation(self, image, source: str) -> SnapshotPayload | str:
        of = source.partition("\n")[0]
        if not of:
            return NO_SNAPSHOTS_MESSAGE
        if image is None:
            return NO_IMAGE_MESSAGE
        try:
            shown = load_snapshots(self.context, self.context.find_run(of), image)
        except VitdemoError as error:
            return str(error)
        return SnapshotPayload(shown, image.info.get(TRUE_CLASS_KEY))

    # --- settings and actions ----------------------------------------------------------------

    @show_user_errors
    def apply_preset(self, preset) -> list:
        return [
            get_preset(preset).description,
            MEASURING_COST_MESSAGE,
            *preset_values(preset).values(),
        ]

    def estimate_cost(self, preset, *values) -> str:
        try:
            recipe = self.jobs.resolve_recipe(preset, dict(zip(OPTIONS, values, strict=True)))
            pictures = self.jobs.count_training_images(recipe)
            busy = any(job.state in ACTIVE_STATES for job in self.jobs.list_jobs())
            device = self.context.device
            found = estimate_training_cost(recipe, pictures, self.jobs.root, device, busy=busy)
            return found.description + (QUEUED_NOTE if busy else "")
        except VitdemoError as error:
            return str(error)

    @show_user_errors
    def start_job(self, request: gr.Request, preset, baseline, guess, *values) -> Sequence:
        check_training_allowed(self.jobs, request)
        points = parse_guess(guess, baseline) if baseline else None
        if baseline:
            self.context.find_run(baseline)  # raises `RunError` if the baseline no longer exists
        chosen = dict(zip(OPTIONS, values, strict=True))
        job = self.jobs.start(preset, chosen, baseline, points)
        gr.Info(f"{job.name} is {job.state}.")
        return live.job_rows(self.jobs, self.context)

    @show_user_errors
    def run_action(self, request: gr.Request, event: gr.EventData) -> Sequence:
        check_training_allowed(self.jobs, request)
        action, name = parse_task_action(event, list(JOB_ACTIONS))
        JOB_ACTIONS[action](self.jobs, name)
        return live.job_rows(self.jobs, self.context)


def check_training_allowed(jobs: JobQueue, request: gr.Request) -> None:
    """Raise `JobError` if only this computer may train and the request comes from elsewhere."""
    if not jobs.for_all and not is_local_request(request):
        raise JobError(
            "Only this computer can train models. To allow others, start app.py with "
            "--allow-training."
        )


def parse_guess(words: object, baseline: str) -> float:
    """Parse the guess, in percentage points. Raises `JobError` unless it is from -100 to 100."""
    text = words.strip().replace("−", "-").replace(",", ".") if isinstance(words, str) else ""
    if not text:
        raise JobError(f"Enter a guess: the expected gain over {baseline}, in percentage points.")
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not -100 <= points <= 100:
        raise JobError(
            f"Invalid guess '{text[:20]}': enter percentage points from −100 to 100, such as +2.5."
        )
    return points


def build_option_input(name: str, option: TrainingOption, value):
    """Build the input component of `option`, with the initial `value`."""
    looks = {"label": option.label, "info": option.info or None, "min_width": 150,
             "elem_id": f"option-{name.replace('_', '-')}"}  # fmt: skip
    if option.choices:
        words = option.choice_labels or map(str, option.choices)
        return gr.Dropdown(list(zip(words, option.choices, strict=True)), value=value, **looks)
    if option.kind is bool:
        return gr.Dropdown([("on", True), ("off", False)], value=value, **looks)
    return gr.Number(value, **looks)
