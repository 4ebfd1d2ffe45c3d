"""The form of a new run, the run in progress with its curves, and all other runs of the page.

The payloads of the runs are {"rows": rows that `createTaskRows` draws, "in_progress": bool}. The
run in progress also has "plots", which `createLinePlots` draws, and the other runs a "note".
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.figures.curves import MAX_TRAINING_CURVES, LineStyle, choose_line_styles
from vitdemo.installation import APP_NAME, TRAIN_COMMAND
from vitdemo.jobs import JOB_ACTIONS, JobQueue
from vitdemo.jobs.state import Job, find_live_job
from vitdemo.metrics.training_progress import with_lineage_history
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import choose_run, describe_run_choices
from vitdemo.page.components.task_list import parse_task_action
from vitdemo.page.data import download
from vitdemo.page.feature import Feature, PageSetup, ViewData, merge_features
from vitdemo.page.gradio_patches import current_request
from vitdemo.page.kit import check_training_allowed
from vitdemo.page.training.run_choice import choose_runs
from vitdemo.page.training.train_model import form
from vitdemo.page.training.train_model.form import JOBS_VIEW, LIVE_VIEW
from vitdemo.page.training.train_model.jobs import job_rows
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.training import TRAINING, VALIDATION
from vitdemo.runs import Run, number_runs, read_history
from vitdemo.runs.steps import read_steps

CHANGE = "training.change"
FORM_TITLE = "Train a model"
TRAINING_DISABLED_MESSAGE = (
    "Training from this page is disabled because other computers can reach it. To enable it, "
    f"start `{APP_NAME}` with `--allow-training`. Runs started with `{TRAIN_COMMAND}` appear here."
)
TRAINING_ENABLED_MESSAGE = "Training is enabled for {whom}. {limits}"
QUEUED_NOTE = "Another training run is in progress; a new run starts after it."
EVERYONE, THIS_COMPUTER = "everyone who can reach this page", "this computer only"
MAX_CURVE_POINTS = 300  # maximum number of points per curve; a plot cannot show more
LIVE_AXIS = "epochs trained"  # a fraction of an epoch for each logged step
NO_STEP_NOTE = "{name}: the curves appear after the first step."
BASELINE_LABEL = "{name} (baseline)"


def build_form(setup: PageSetup) -> None:
    """Lay out the form; without `jobs`, the form is replaced by the reason."""
    with gr.Column(elem_id="train-here", scale=0, min_width=320):
        gr.Markdown(f"## {FORM_TITLE}")
        if setup.jobs is None:
            gr.Markdown(TRAINING_DISABLED_MESSAGE)
            return
        whom = EVERYONE if setup.jobs.for_all else THIS_COMPUTER
        download.build_card("train-dataset")
        form.build(
            setup.controls,
            TRAINING_ENABLED_MESSAGE.format(whom=whom, limits=setup.jobs.limits.description),
        )


def build_live_run(setup: PageSetup) -> None:
    if setup.jobs is not None:
        add_view(LIVE_VIEW, elem_id="live")


def build_other_runs(setup: PageSetup) -> None:
    if setup.jobs is not None:
        add_view(JOBS_VIEW, elem_id="trainings")


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
    """Return a row for each run that is not in progress, and the baselines to choose from."""
    tested = [run for run in context.list_runs()[0] if run.has_evaluation]
    baseline = choose_run(tested, state[keys.BASELINE_RUN], optional=True)
    found = jobs.list_jobs()
    live, is_busy = find_live_job(found), has_unfinished_job(found)
    rows = [asdict(row) for row in job_rows([job for job in found if job != live], context)]
    return ViewData(
        {"rows": rows, "note": QUEUED_NOTE if is_busy else "", "in_progress": is_busy},
        {keys.BASELINE_RUN.name: describe_run_choices(tested, baseline, state[keys.BASELINE_RUN])},
    )


@needs(keys.CURVE_RUNS, unwatched=(keys.KNOWN_RUNS,))
def live_payload(jobs: JobQueue, context: AppContext, state: ViewState) -> dict:
    """Return the run in progress with its curves, or no row."""
    found = jobs.list_jobs()
    job = find_live_job(found)
    runs = context.list_runs()[0]
    return {
        "rows": [asdict(row) for row in job_rows([job] if job else [], context)],
        "plots": render_live_curves(job, runs, choose_runs(runs, state)) if job else {},
        "in_progress": has_unfinished_job(found),
    }


def has_unfinished_job(jobs: Sequence[Job]) -> bool:
    return any(job.is_unfinished for job in jobs)


def render_live_curves(job: Job, runs: Sequence[Run], chosen: Sequence[Run]) -> dict:
    """Return the plots that `createLinePlots` draws for the run of a job.

    Training curves have a point per logged step, validation curves a point per epoch. The baseline
    of the user's guess and the runs `chosen` on the page are faint references.
    """
    lines = read_steps(job.path)
    if not lines:
        return {"note": NO_STEP_NOTE.format(name=job.name)}
    lines = lines[:: max(1, -(-len(lines) // MAX_CURVE_POINTS))]
    baseline = job.record.get("beside")
    wanted = {run.name for run in chosen if run.history} - {job.name, baseline}
    others = [run for run in runs if run.name in wanted][:MAX_TRAINING_CURVES]
    others = [*(run for run in runs if run.name == baseline), *others]
    numbers = {job.name: len(runs), **number_runs(runs)}
    styles = choose_line_styles([job.name, *(run.name for run in others)], numbers)
    history, epochs = read_history(job.path), job.epochs or lines[-1]["epoch"]

    def plot(title: str, unit: str, field: str, scale: float, decimals: int) -> dict:
        references = [
            reference_line(run, styles[run.name], f"val_{field}", scale, epochs)
            | ({"label": BASELINE_LABEL.format(name=run.name)} if run.name == baseline else {})
            for run in others
        ]
        own = live_lines(job.name, styles[job.name], lines, history, field, scale)
        return {
            "title": title,
            "label": f"{title} of {job.name}, by {LIVE_AXIS}",
            "unit": unit,
            "x": LIVE_AXIS,
            "span": [0, epochs],
            "decimals": decimals,
            "lines": [*references, *own],
        }

    return {
        "plots": [
            plot("Accuracy", "%", "accuracy", 100, 1),
            plot("Loss", "loss", "loss", 1, 3),
        ],
    }


def live_lines(
    name: str,
    style: LineStyle,
    steps: Sequence[Mapping],
    history: Sequence[Mapping],
    field: str,
    scale: float,
) -> list[dict]:
    """Return the training line of the logged `steps` and the validation line of the epochs."""
    looks = {"run": name, "sign": "", "faint": False, "read": False, "epochs": None}
    training = {
        "x": [step["epoch"] - 1 + step["step"] / step["steps"] for step in steps],
        "y": [scale * step[field] for step in steps],
    }
    validation = {
        "x": [record["epoch"] - 1 + record.get("share", 1) for record in history],
        "y": [scale * record[f"val_{field}"] for record in history],
    }
    training |= {"name": TRAINING, "label": TRAINING, "colour": style.lighter, "dashed": True}
    validation |= {"name": VALIDATION, "label": VALIDATION, "colour": style.colour, "points": True}
    return [looks | training, looks | validation]


def reference_line(run: Run, style: LineStyle, field: str, scale: float, epochs: int) -> dict:
    """Return the faint line of `field` in the first `epochs` epochs of another run."""
    history = [each for each in with_lineage_history(run).history if each["epoch"] <= epochs]
    return {
        "run": run.name,
        "name": VALIDATION,
        "label": run.name,
        "x": [record["epoch"] for record in history],
        "y": [scale * record[field] for record in history],
        "colour": style.colour,
        "sign": style.symbol,
        "faint": True,
        "dashed": False,
        "read": False,
        "epochs": None,
    }
