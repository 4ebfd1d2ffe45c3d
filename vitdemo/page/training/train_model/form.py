"""The form of a new training run: recipe, settings, baseline, guess and estimated cost.

All values are keys of the view state. A new recipe writes its settings into the options. Payloads:

    training_recipe: {"description": str}
    training_cost: {"time": str, "details": str, "size": str, "is_measuring": bool,
                    "in_progress": whether a run is in progress, whose speed updates the time}
"""

import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, TimeoutError

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.errors import JobError
from vitdemo.jobs import JobQueue
from vitdemo.jobs.cost import TrainingCost, estimate_training_cost
from vitdemo.jobs.options import OPTIONS, get_preset, preset_values
from vitdemo.jobs.state import ACTIVE_STATES
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import RunChoice
from vitdemo.page.feature import Feature, ViewData
from vitdemo.page.gradio_patches import current_request
from vitdemo.page.kit import Controls, check_training_allowed
from vitdemo.page.state_key import ChoiceKey, StateKey
from vitdemo.page.training import image_across_epochs, run_choice
from vitdemo.page.view_state import ViewState, needs
from vitdemo.training.recipes import Recipe

RECIPE_VIEW, COST_VIEW, START = "training_recipe", "training_cost", "training.start"
JOBS_VIEW, LIVE_VIEW = "training_jobs", "live_curves"
# Views that change after a run was started or changed
CHANGED_VIEWS = (JOBS_VIEW, LIVE_VIEW, COST_VIEW, run_choice.VIEW, image_across_epochs.VIEW)
SETTINGS = tuple(keys.TRAINING_OPTIONS.values())
MAIN_SETTINGS = ("epochs", "train_pictures", "optimizer", "learning_rate", "policy")
NOT_MEASURED = "Training time not measured yet"
MEASURING_TEXT = "Measuring the training speed on this machine …"
MISSING_IMAGES_TEXT = "The page measures the time when the images are on this machine."
COST_SECONDS = 0.3  # seconds to wait for a cost, which is known sooner if the speed is known


def build(controls: Controls, limits: str) -> None:
    """Lay out the form; `limits` are the rules of the page for training runs."""
    controls.add(keys.TRAINING_RECIPE, gr.Dropdown)
    add_view(RECIPE_VIEW, elem_id="preset-words")
    add_view(COST_VIEW, elem_id="cost")
    add_view("training_start", elem_id="training-start")
    main = [keys.TRAINING_OPTIONS[name] for name in MAIN_SETTINGS]
    add_settings(controls, main, "training-settings")
    with gr.Accordion("More settings", open=False, elem_id="ingredients"):
        add_settings(controls, [key for key in SETTINGS if key not in main], "more-settings")
        add_view(COST_VIEW, elem_id="model-size")
        controls.add(keys.BASELINE_RUN, RunChoice, [], nobody="None (no guess)")
        placeholder = "percentage points, for example +2.5"
        controls.add(keys.EXPECTED_GAIN, gr.Textbox, placeholder=placeholder, max_length=20)
        gr.Markdown(limits)


def add_settings(controls: Controls, settings: Sequence[StateKey], elem_id: str) -> None:
    with gr.Row(elem_id=elem_id):
        for key in settings:
            kind = gr.Dropdown if isinstance(key, ChoiceKey) else gr.Number
            controls.add(key, kind, value=None, min_width=120)


class TrainingForm:
    """The functions of the form; costs are measured one after the other in the background."""

    def __init__(self, jobs: JobQueue):
        self.jobs, self._pool, self._lock = jobs, ThreadPoolExecutor(1), threading.Lock()
        self._costs: dict[str, Future[TrainingCost]] = {}  # by settings
        # Shown until the cost of the same recipe is known at another speed
        self._last_cost: tuple[Recipe | None, TrainingCost | None] = None, None

    def make_feature(self) -> Feature:
        payloads = {RECIPE_VIEW: describe_recipe, COST_VIEW: self.describe_cost}
        return Feature(payloads, actions={START: self.start})

    @needs(keys.TRAINING_RECIPE, *SETTINGS, unwatched=(keys.FILLED_RECIPE,))
    def describe_cost(self, context: AppContext, state: ViewState) -> dict:
        """Return the estimated cost, or a message while the training speed is measured."""
        if context.is_dataset_missing():
            return describe_missing_cost(MISSING_IMAGES_TEXT)
        recipe = self.jobs.resolve_recipe(state[keys.TRAINING_RECIPE], read_settings(state))
        future = self._measure_cost(context, recipe)
        try:
            cost = future.result(COST_SECONDS)
        except (TimeoutError, CancelledError):
            recipe_of_last, cost = self._last_cost
            if recipe_of_last != recipe:
                return describe_missing_cost(MEASURING_TEXT) | {"is_measuring": True}
        finally:
            if future.done():
                self._costs.pop(repr(recipe), None)
        self._last_cost = recipe, cost
        return {
            "time": cost.time_text,
            "details": cost.speed_text,
            "size": cost.size_text,
            "is_measuring": not future.done(),
            "in_progress": self._is_busy(),
        }

    def _is_busy(self) -> bool:
        return any(job.state in ACTIVE_STATES for job in self.jobs.list_jobs())

    def _measure_cost(self, context: AppContext, recipe: Recipe) -> "Future[TrainingCost]":
        """Return the cost being measured; a new request cancels all requests that still wait."""

        def measure() -> TrainingCost:
            images = self.jobs.count_training_images(recipe)
            live_speed = self.jobs.find_live_speed(recipe)
            return estimate_training_cost(
                recipe, images, context.device, busy=self._is_busy(), live_speed=live_speed
            )

        with self._lock:
            if repr(recipe) not in self._costs:
                for waiting in self._costs.values():
                    waiting.cancel()
                self._costs[repr(recipe)] = self._pool.submit(measure)
            return self._costs[repr(recipe)]

    def start(self, context: AppContext, state: ViewState, fields: Mapping) -> list[str]:
        """Start a training run with the settings. Raises `VitdemoError`."""
        check_training_allowed(self.jobs, current_request())
        baseline, points = state[keys.BASELINE_RUN] or None, None
        if baseline:
            points = parse_guess(state[keys.EXPECTED_GAIN], baseline)
            context.find_run(baseline)  # the baseline must still exist
        job = self.jobs.start(state[keys.TRAINING_RECIPE], read_settings(state), baseline, points)
        gr.Info(f"{job.name} is {job.state}.")
        return [*CHANGED_VIEWS]


def describe_missing_cost(reason: str) -> dict:
    empty = {"size": "", "is_measuring": False, "in_progress": False}
    return {"time": NOT_MEASURED, "details": reason, **empty}


@needs(keys.TRAINING_RECIPE, unwatched=(keys.FILLED_RECIPE,))
def describe_recipe(context: AppContext, state: ViewState) -> ViewData:
    """Return the description of the recipe; a new recipe writes its settings into the options."""
    recipe, controls = state[keys.TRAINING_RECIPE], {}
    if state[keys.FILLED_RECIPE] != recipe:
        values = {keys.TRAINING_OPTIONS[n].name: v for n, v in preset_values(recipe).items()}
        values[keys.FILLED_RECIPE.name] = recipe
        controls = {name: {"value": value} for name, value in values.items()}
    return ViewData({"description": get_preset(recipe).description}, controls)


def read_settings(state: ViewState) -> dict[str, object]:
    """Return the values of all options, which `JobQueue.start` checks."""
    recipe = state[keys.TRAINING_RECIPE]
    if state[keys.FILLED_RECIPE] != recipe:  # the options have the values of another recipe
        return preset_values(recipe)
    return {name: state.get_unchecked(keys.TRAINING_OPTIONS[name]) for name in OPTIONS}


def parse_guess(text: str, baseline: str) -> float:
    """Parse the guess, in percentage points. Raises `JobError` unless it is from -100 to 100."""
    text = text.strip().replace("−", "-").replace(",", ".")
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
