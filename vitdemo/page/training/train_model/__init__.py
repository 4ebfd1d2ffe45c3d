"""The panel "Train a model": the form of a new run, all runs of the page, and live curves.

The payload of the runs is {"rows": rows that `createTaskRows` draws, "note": str, "in_progress":
bool}. The payload of the live curves is {"plots": plots that `createLinePlots` draws,
"in_progress": bool}.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.figures.curves import COLOURS
from vitdemo.installation import APP_NAME, TRAIN_COMMAND
from vitdemo.jobs import JOB_ACTIONS, JobQueue
from vitdemo.jobs.state import Job, find_followed_job
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import choose_run, describe_run_choices
from vitdemo.page.components.task_list import parse_task_action
from vitdemo.page.data import download
from vitdemo.page.feature import Feature, PageSetup, ViewData, merge_features
from vitdemo.page.gradio_patches import current_request
from vitdemo.page.kit import NO_PROGRESS, check_training_allowed
from vitdemo.page.training.train_model import form
from vitdemo.page.training.train_model.form import JOBS_VIEW, LIVE_VIEW
from vitdemo.page.training.train_model.jobs import job_rows
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import read_history
from vitdemo.runs.steps import read_steps

CHANGE = "training.change"
PANEL_TITLE = "Train a model"
TRAINING_DISABLED_MESSAGE = (
    "Training from this page is disabled because other computers can reach it. To enable it, "
    f"start `{APP_NAME}` with `--allow-training`. Runs started with `{TRAIN_COMMAND}` appear below."
)
TRAINING_ENABLED_MESSAGE = "Training is enabled for {whom}. {limits}"
QUEUED_NOTE = "Another training run is in progress; a new run starts after it."
OFFER = (
    "Train a model yourself. The page measures the training time on this machine before you start."
)
OFFER_LABEL = "Set up the training"
JS_OPEN_FORM = (
    '() => vitdemo.load("components/links.js").then(({ openTrainingForm }) => openTrainingForm())'
)
EVERYONE, THIS_COMPUTER = "everyone who can reach this page", "this computer only"
MAX_CURVE_POINTS = 300  # maximum number of points per curve; a plot cannot show more
LIVE_AXIS = "epochs trained"  # a fraction of an epoch for each logged step
NO_STEP_NOTE = "{name}: the curves appear after the first step."


def build(setup: PageSetup) -> None:
    """Lay out an offer to train, and the panel; without `jobs`, the panel explains the reason."""
    if setup.jobs is not None:
        with gr.Row(elem_id="train-offer", elem_classes="vd-filters"):
            gr.Markdown(OFFER)
            offer = gr.Button(OFFER_LABEL, variant="primary", size="sm", elem_id="set-up-training")
        offer.click(None, js=JS_OPEN_FORM, **NO_PROGRESS)
    with gr.Accordion(PANEL_TITLE, open=False, elem_id="train-here"):
        if setup.jobs is None:
            gr.Markdown(TRAINING_DISABLED_MESSAGE)
            return
        whom = EVERYONE if setup.jobs.for_all else THIS_COMPUTER
        gr.Markdown(
            TRAINING_ENABLED_MESSAGE.format(whom=whom, limits=setup.jobs.limits.description)
        )
        download.build_card("train-dataset")
        form.build(setup.controls)
        add_view(JOBS_VIEW, elem_id="trainings")
        add_view(LIVE_VIEW, elem_id="live")


def make_feature(jobs: JobQueue) -> Feature:
    payloads = {JOBS_VIEW: partial(jobs_payload, jobs), LIVE_VIEW: partial(live_payload, jobs)}
    own = Feature(payloads, actions={CHANGE: partial(change_job, jobs)})
    return merge_features([own, form.TrainingForm(jobs).make_feature()])


def change_job(jobs: JobQueue, context: AppContext, state: ViewState, fields: Mapping) -> list[str]:
    """Pause, resume, stop or delete a training run. Raises `JobError`."""
    check_training_allowed(jobs, current_request())
    action, name = parse_task_action(fields, list(JOB_ACTIONS))
    JOB_ACTIONS[action](jobs, name)
    return [*form.CHANGED_VIEWS]


@needs(keys.BASELINE_RUN)
def jobs_payload(jobs: JobQueue, context: AppContext, state: ViewState) -> ViewData:
    """Return a row for each training run of the page, and the baselines to choose from."""
    tested = [run for run in context.list_runs()[0] if run.has_evaluation]
    baseline = choose_run(tested, state[keys.BASELINE_RUN], optional=True)
    rows = [asdict(row) for row in job_rows(jobs, context)]
    is_busy = has_unfinished_job(jobs)
    return ViewData(
        {"rows": rows, "note": QUEUED_NOTE if is_busy else "", "in_progress": is_busy},
        {keys.BASELINE_RUN.name: describe_run_choices(tested, baseline, state[keys.BASELINE_RUN])},
    )


@needs()
def live_payload(jobs: JobQueue, context: AppContext, state: ViewState) -> dict:
    """Return the live curves of the run in progress, or of the newest run."""
    plots = render_live_curves(find_followed_job(jobs.list_jobs()))
    return {"plots": plots, "in_progress": has_unfinished_job(jobs)}


def has_unfinished_job(jobs: JobQueue) -> bool:
    return any(job.is_unfinished for job in jobs.list_jobs())


def render_live_curves(job: Job | None) -> dict:
    """Return the plots that `createLinePlots` draws for the run of a job, or {} without a job.

    Training curves have a point per logged step, validation curves a point per epoch.
    """
    if job is None:
        return {}
    lines, history = read_steps(job.path), read_history(job.path)
    if not lines:
        return {"note": NO_STEP_NOTE.format(name=job.name)}
    lines = lines[:: max(1, -(-len(lines) // MAX_CURVE_POINTS))]
    colour, lighter = COLOURS[0]
    trained = [line["epoch"] - 1 + line["step"] / line["steps"] for line in lines]
    ends = [record["epoch"] - 1 + record.get("share", 1) for record in history]

    def plot(title: str, unit: str, field: str, scale: float, decimals: int) -> dict:
        looks = {"run": job.name, "sign": "", "faint": False, "read": False, "epochs": None}
        training = {"x": trained, "y": [scale * line[field] for line in lines]}
        held = {"x": ends, "y": [scale * record[f"val_{field}"] for record in history]}
        return {
            "title": title,
            "label": f"{title} of {job.name}, by {LIVE_AXIS}",
            "unit": unit,
            "x": LIVE_AXIS,
            "decimals": decimals,
            "lines": [
                looks | training | {"name": "training", "colour": lighter, "dashed": True},
                looks | held | {"name": "validation", "colour": colour, "points": True},
            ],
        }

    return {
        "legend": [{"name": job.name, "colour": colour, "lighter": lighter, "sign": ""}],
        "plots": [
            plot("Loss (live)", "loss", "loss", 1, 3),
            plot("Accuracy (live)", "%", "accuracy", 100, 1),
        ],
    }
