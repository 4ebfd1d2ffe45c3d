"""The form of a new training run: recipe, settings, baseline, guess and estimated cost.

The form is not part of the view state, except the baseline.
"""

import math

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.errors import JobError, VitdemoError
from vitdemo.jobs import JobQueue
from vitdemo.jobs.cost import estimate_training_cost
from vitdemo.jobs.options import OPTIONS, PRESETS, TrainingOption, get_preset, preset_values
from vitdemo.jobs.state import ACTIVE_STATES
from vitdemo.page import state_keys as keys
from vitdemo.page.components.run_choice import RunChoice
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    LONG_QUEUE,
    NO_PROGRESS,
    Controls,
    check_training_allowed,
    show_user_errors,
)

DEFAULT_PRESET = next(iter(PRESETS))
RECIPE_LABEL, SETTINGS_TITLE = "Recipe", "Recipe settings"
NO_BASELINE_LABEL = "None (no guess)"
GUESS_LABEL = "Expected gain"
GUESS_PLACEHOLDER = "percentage points of validation accuracy, for example +2.5"
START_LABEL = "Start training"
STARTED_MESSAGE = "{name} is {state}."
MEASURING_COST_MESSAGE = "Measuring the training time on this machine …"
JS_UPDATE_JOBS = "() => vitdemo.loaded.then(({ trainingJobs }) => trainingJobs.update())"


class TrainingForm:
    """Components and event handlers of the form."""

    def __init__(self, context: AppContext, jobs: JobQueue, controls: Controls):
        self.context, self.jobs = context, jobs
        titles = [(preset.title, name) for name, preset in PRESETS.items()]
        self.preset = gr.Radio(titles, value=DEFAULT_PRESET, label=RECIPE_LABEL, elem_id="preset")
        self.preset_description = gr.Markdown(
            PRESETS[DEFAULT_PRESET].description, elem_id="preset-words"
        )
        with gr.Accordion(SETTINGS_TITLE, open=False, elem_id="ingredients"), gr.Row():
            begin = preset_values(DEFAULT_PRESET)
            self.option_inputs = [
                build_option_input(name, option, begin[name]) for name, option in OPTIONS.items()
            ]
        with gr.Row():
            with gr.Column(min_width=260):
                self.baseline = controls.add(
                    keys.BASELINE_RUN, RunChoice, [], nobody=NO_BASELINE_LABEL
                )
            with gr.Column(min_width=260):
                self.guess = gr.Textbox(
                    label=GUESS_LABEL, placeholder=GUESS_PLACEHOLDER, max_length=20, elem_id="guess"
                )
        self.cost = gr.Markdown(MEASURING_COST_MESSAGE, elem_id="cost")
        self.start_button = gr.Button(START_LABEL, variant="primary", elem_id="start-training")

    def wire(self, panel: gr.Accordion) -> None:
        """Connect the events; the cost is estimated when the user opens `panel`."""
        costs = {
            "fn": self.estimate_cost,
            "inputs": [self.preset, *self.option_inputs],
            "outputs": self.cost,
        }
        often = NO_PROGRESS | LONG_QUEUE | {"trigger_mode": "always_last"}
        gr.on([each.input for each in self.option_inputs] + [panel.expand], **costs, **often)
        chosen = self.preset.input(
            self.apply_preset,
            self.preset,
            [self.preset_description, self.cost, *self.option_inputs],
            **NO_PROGRESS,
            **LIGHT_QUEUE,
        )
        chosen.then(**costs, **often)
        started = self.start_button.click(
            self.start_job,
            [self.preset, self.baseline, self.guess, *self.option_inputs],
            None,
            **NO_PROGRESS,
            **LIGHT_QUEUE,
        )
        started.success(None, js=JS_UPDATE_JOBS, **NO_PROGRESS)

    @show_user_errors
    def apply_preset(self, preset) -> list:
        values = preset_values(preset).values()
        return [get_preset(preset).description, MEASURING_COST_MESSAGE, *values]

    def estimate_cost(self, preset, *values) -> str:
        if self.context.is_dataset_missing():
            return ""  # the card above shows the reason
        try:
            recipe = self.jobs.resolve_recipe(preset, dict(zip(OPTIONS, values, strict=True)))
            images = self.jobs.count_training_images(recipe)
            busy = any(job.state in ACTIVE_STATES for job in self.jobs.list_jobs())
            device = self.context.device
            found = estimate_training_cost(recipe, images, device, busy=busy)
            return found.description
        except VitdemoError as error:
            return str(error)

    @show_user_errors
    def start_job(self, request: gr.Request, preset, baseline, guess, *values) -> None:
        check_training_allowed(self.jobs, request)
        points = parse_guess(guess, baseline) if baseline else None
        if baseline:
            self.context.find_run(baseline)  # the baseline must still exist
        chosen = dict(zip(OPTIONS, values, strict=True))
        job = self.jobs.start(preset, chosen, baseline, points)
        gr.Info(STARTED_MESSAGE.format(name=job.name, state=job.state))


def parse_guess(text: object, baseline: str) -> float:
    """Parse the guess, in percentage points. Raises `JobError` unless it is from -100 to 100."""
    text = text.strip().replace("−", "-").replace(",", ".") if isinstance(text, str) else ""
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
    looks = {"label": option.label, "info": option.info or None, "min_width": 150,
             "elem_id": f"option-{name.replace('_', '-')}"}  # fmt: skip
    if option.choices:
        words = option.choice_labels or map(str, option.choices)
        return gr.Dropdown(list(zip(words, option.choices, strict=True)), value=value, **looks)
    if option.kind is bool:
        return gr.Dropdown([("on", True), ("off", False)], value=value, **looks)
    return gr.Number(value, **looks)
