"""Rows of the training runs that were started on the page: progress, result and actions."""

from collections.abc import Mapping, Sequence

from vitdemo.context import AppContext, read_test_accuracy
from vitdemo.errors import VitdemoError
from vitdemo.figures.curves import HUES
from vitdemo.jobs.gain import measure_validation_gain
from vitdemo.jobs.state import (
    EVALUATING,
    FAILED,
    FINISH,
    FINISHED,
    PAUSED,
    PAUSING,
    QUEUED,
    STARTING,
    STOPPED,
    TRAINING,
    Job,
)
from vitdemo.metrics import format_signed, format_signed_range, format_time, format_with_noun
from vitdemo.page.components.task_list import Task
from vitdemo.runs import Run, number_runs

DELETE_ACTION = ("discard", "Delete")
STOP_ACTION = ("stop", "Stop and evaluate")
STATE_ACTIONS = {
    QUEUED: [DELETE_ACTION],
    STARTING: [("pause", "Pause"), STOP_ACTION],
    TRAINING: [("pause", "Pause"), STOP_ACTION, DELETE_ACTION],
    PAUSING: [DELETE_ACTION],
    PAUSED: [("resume", "Resume"), STOP_ACTION, DELETE_ACTION],
    EVALUATING: [DELETE_ACTION],
    FINISHED: [DELETE_ACTION],
    STOPPED: [DELETE_ACTION],
    FAILED: [("resume", "Continue"), DELETE_ACTION],
}


def job_rows(jobs: Sequence[Job], context: AppContext) -> list[Task]:
    found = {run.path.resolve(): run for run in context.list_runs()[0]}
    by_name, numbers = {run.name: run for run in found.values()}, number_runs(found.values())
    return [job_row(job, found.get(job.path), by_name, numbers) for job in jobs]


def job_row(job: Job, run: Run | None, runs: dict[str, Run], numbers: Mapping[str, int]) -> Task:
    done = 1.0 if job.state in (FINISHED, STOPPED) else job.done
    actions = STATE_ACTIONS[job.state]
    if job.state == PAUSED and not job.begun:
        actions = [actions[0], DELETE_ACTION]
    if job.state == STARTING and not job.done:  # a stop deletes the run, which has no step
        actions = [actions[0], ("stop", "Stop")]
    elif job.state == STARTING and job.record.get("request") == FINISH:
        actions = [DELETE_ACTION]
    return Task(
        job.name,
        job.state,
        describe_job(job, run),
        done,
        actions,
        describe_guess(job, run, runs),
        colour=HUES[numbers[run.name] % len(HUES)] if run and run.name in numbers else "",
    )


def describe_job(job: Job, run: Run | None) -> str:
    """Describe the progress or the result of a training job in one line."""
    epoch = f"epoch {min(job.epoch + 1, job.epochs)} of {job.epochs}"
    if job.state == QUEUED:
        return "waiting for other runs"
    if job.state == STARTING:
        ending = job.record.get("request") == FINISH
        return "loading the images, then evaluating" if ending else "loading the images"
    if job.state == TRAINING:
        speed = f", {job.images_per_second:.0f} images/s" if job.images_per_second else ""
        left = f", {format_time(job.seconds_left)} left" if job.seconds_left is not None else ""
        ending = ", stopping after this step" if job.record.get("request") == FINISH else ""
        return epoch + speed + left + ending
    if job.state == PAUSING:
        return "stopping after this step"
    if job.state == PAUSED:
        return (
            f"{epoch}; queued runs wait for this run" if job.epochs else "paused before it started"
        )
    if job.state == EVALUATING:
        return f"{format_epochs(job)} done, evaluating on the test set"
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
    return f"{format_epochs(job)}{held}{right}"


def format_epochs(job: Job) -> str:
    """Describe the trained epochs: "5 epochs", "1 epoch of 5" or "0.19 of 5 epochs"."""
    if job.last_fraction < 1:
        return f"{job.epoch - 1 + job.last_fraction:.2f} of {format_with_noun(job.epochs, 'epoch')}"
    part = "" if job.epoch >= job.epochs else f" of {job.epochs}"
    return f"{format_with_noun(job.epoch, 'epoch')}{part}"


def describe_guess(job: Job, run: Run | None, runs: dict[str, Run]) -> str:
    """Describe the user's guess and, after the end of training, the measured gain."""
    baseline, guess = job.record.get("beside"), job.record.get("guess")
    if not baseline or guess is None:
        return ""
    said = (
        f"Guess: {format_signed(guess)} percentage points of validation accuracy "
        f"compared with {baseline}."
    )
    if job.state not in (FINISHED, STOPPED) or run is None:
        return said
    if baseline not in runs:
        return f"{said} The baseline no longer exists."
    try:
        found = measure_validation_gain(run, runs[baseline])
    except VitdemoError as error:
        return f"{said} {error}"
    pictures = "the same validation images" if found.paired else "different validation images"
    hit = "within" if found.low <= guess <= found.high else "outside"
    return (
        f"{said} Result: {format_signed(found.points)} (95% confidence interval "
        f"{format_signed_range(found.low, found.high)}, on {pictures}). The guess is "
        f"{hit} this interval, which does not include the variation between random seeds."
    )
