"""Content of the panel "Train a model": a row per training run, and live curves of one run."""

from vitdemo.context import AppContext, read_test_accuracy
from vitdemo.errors import VitdemoError
from vitdemo.figures.curves import COLOURS
from vitdemo.jobs import JobQueue
from vitdemo.jobs.gain import measure_validation_gain
from vitdemo.jobs.state import (
    ACTIVE_STATES,
    EVALUATING,
    FAILED,
    FINISHED,
    PAUSED,
    QUEUED,
    STARTING,
    STOPPED,
    TRAINING,
    Job,
)
from vitdemo.metrics import format_signed, format_with_noun
from vitdemo.page.components.task_list import Task
from vitdemo.runs import Run, read_history
from vitdemo.runs.steps import read_steps

MAX_CURVE_POINTS = 300  # maximum number of points per curve; a plot cannot show more
DELETE_ACTION = ("discard", "Delete")
STATE_ACTIONS = {
    QUEUED: [DELETE_ACTION],
    STARTING: [DELETE_ACTION],
    TRAINING: [("pause", "Pause"), ("stop", "Stop and evaluate"), DELETE_ACTION],
    PAUSED: [("resume", "Resume"), ("stop", "Stop and evaluate"), DELETE_ACTION],
    EVALUATING: [DELETE_ACTION],
    FINISHED: [DELETE_ACTION],
    STOPPED: [DELETE_ACTION],
    FAILED: [("resume", "Continue"), DELETE_ACTION],
}


def job_rows(jobs: JobQueue, context: AppContext) -> list[Task]:
    found = {run.path.resolve(): run for run in context.list_runs()[0]}
    by_name = {run.name: run for run in found.values()}
    return [job_row(job, found.get(job.path), by_name) for job in jobs.list_jobs()]


def job_row(job: Job, run: Run | None, runs: dict[str, Run]) -> Task:
    done = 1.0 if job.state in (FINISHED, STOPPED) else job.done
    actions = STATE_ACTIONS[job.state]
    if job.state == PAUSED and not job.begun:
        actions = [actions[0], DELETE_ACTION]
    return Task(
        job.name, job.state, describe_job(job, run), done, actions, describe_guess(job, run, runs)
    )


def describe_job(job: Job, run: Run | None) -> str:
    """Describe the progress or the result of a training job in one line."""
    epoch = f"epoch {min(job.epoch + 1, job.epochs)} of {job.epochs}"
    if job.state == QUEUED:
        return "waiting for other runs"
    if job.state == STARTING:
        return "loading the images"
    if job.state == TRAINING:
        speed = f", {job.images_per_second:.0f} images/s" if job.images_per_second else ""
        left = (
            f", {format_time_left(job.seconds_left)} left" if job.seconds_left is not None else ""
        )
        ending = ", stopping after this step" if job.record.get("keeping") else ""
        return epoch + speed + left + ending
    if job.state == PAUSED:
        return f"{epoch}; queued runs wait for it" if job.epochs else "paused before it started"
    if job.state == EVALUATING:
        return f"{format_with_noun(job.epochs, 'epoch')} done, evaluating on the test set"
    if job.state == FAILED:
        kept = (
            f"after {job.epoch} of {format_with_noun(job.epochs, 'epoch')}. " if job.epochs else ""
        )
        return kept + job.message
    test = read_test_accuracy(run) if run else None
    if job.record.get("made"):
        right = "" if test is None else f"; cross-validated accuracy {100 * test:.1f}%"
        return f"from Custom classes, published to all users{right}"
    right = "" if test is None else f", {100 * test:.1f}% test accuracy"
    last = run.history[-1]["val_accuracy"] if run and run.history else None
    held = "" if last is None else f", {100 * last:.1f}% validation accuracy"
    part = "" if job.state == FINISHED else f" of {job.epochs}, the last one incomplete"
    return f"{format_with_noun(job.epoch, 'epoch')}{part}{held}{right}"


def format_time_left(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min"


def describe_guess(job: Job, run: Run | None, runs: dict[str, Run]) -> str:
    """Describe the user's guess and, after the end of training, the measured gain."""
    beside, guess = job.record.get("beside"), job.record.get("guess")
    if not beside or guess is None:
        return ""
    said = (
        f"Guess: {format_signed(guess)} percentage points of validation accuracy "
        f"compared with {beside}."
    )
    if job.state not in (FINISHED, STOPPED) or run is None:
        return said
    if beside not in runs:
        return f"{said} That run no longer exists."
    try:
        found = measure_validation_gain(run, runs[beside])
    except VitdemoError as error:
        return f"{said} {error}"
    pictures = "the same validation images" if found.paired else "different validation images"
    hit = "within" if found.low <= guess <= found.high else "outside"
    return (
        f"{said} Result: {format_signed(found.points)} (95% confidence interval "
        f"{format_signed(found.low)} to "
        f"{format_signed(found.high)}, on {pictures}). The guess is {hit} this interval, which "
        "does not "
        "include the variation between random seeds."
    )


def find_followed_job(jobs: list[Job]) -> Job | None:
    """Return the job with the live curves: the job in progress, or the newest with curves."""
    at_work = [job for job in jobs if job.state in ACTIVE_STATES]
    begun = [job for job in jobs if job.epochs]
    return (at_work or begun or [None])[0]


def render_live_curves(job: Job | None) -> dict:
    """Return the value of `CurvesView` for the training run of a job.

    Training curves have a point per logged step, validation curves a point per epoch.
    """
    if job is None:
        return {}
    lines, history = read_steps(job.path), read_history(job.path)
    if not lines:
        return {"note": f"{job.name}: the curves appear after the first step."}
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
            "label": f"{title} of {job.name}, by epoch",
            "unit": unit,
            "x": "epoch",
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
