"""Content of the panel "Train a model": one row per run, and the live curves of one run."""

from vitdemo.errors import VitdemoError
from vitdemo.figures.curves import COLOURS
from vitdemo.jobs import Jobs
from vitdemo.jobs.gain import gain
from vitdemo.jobs.state import (
    AT_WORK,
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
from vitdemo.metrics import counted, signed
from vitdemo.page.components.task_list import Task
from vitdemo.runs import Run, read_history
from vitdemo.runs.steps import read_steps
from vitdemo.workbench import Workbench, final_accuracy

POINTS = 300  # points per curve; a plot of this width cannot show more
DISCARD = ("discard", "Delete")
ACTIONS = {
    QUEUED: [DISCARD],
    STARTING: [DISCARD],
    TRAINING: [("pause", "Pause"), ("stop", "Stop and evaluate"), DISCARD],
    PAUSED: [("resume", "Resume"), ("stop", "Stop and evaluate"), DISCARD],
    EVALUATING: [DISCARD],
    FINISHED: [DISCARD],
    STOPPED: [DISCARD],
    FAILED: [("resume", "Continue"), DISCARD],
}


def rows(jobs: Jobs, workbench: Workbench) -> list[Task]:
    found = {run.path.resolve(): run for run in workbench.runs()[0]}
    by_name = {run.name: run for run in found.values()}
    return [row(job, found.get(job.path), by_name) for job in jobs.all()]


def row(job: Job, run: Run | None, runs: dict[str, Run]) -> Task:
    done = 1.0 if job.state in (FINISHED, STOPPED) else job.done
    actions = ACTIONS[job.state]
    if job.state == PAUSED and not job.begun:
        actions = [actions[0], DISCARD]
    return Task(job.name, job.state, words(job, run), done, actions, guessed(job, run, runs))


def words(job: Job, run: Run | None) -> str:
    """Return the progress or the result of a job, in one line."""
    epoch = f"epoch {min(job.epoch + 1, job.epochs)} of {job.epochs}"
    if job.state == QUEUED:
        return "waiting for other runs"
    if job.state == STARTING:
        return "loading the images"
    if job.state == TRAINING:
        speed = f", {job.images_per_second:.0f} images/s" if job.images_per_second else ""
        left = f", {time_left(job.seconds_left)} left" if job.seconds_left is not None else ""
        ending = ", stopping after this step" if job.asked.get("keeping") else ""
        return epoch + speed + left + ending
    if job.state == PAUSED:
        return f"{epoch}; queued runs wait for it" if job.epochs else "paused before it started"
    if job.state == EVALUATING:
        return f"{counted(job.epochs, 'epoch')} done, evaluating on the test set"
    if job.state == FAILED:
        kept = f"after {job.epoch} of {counted(job.epochs, 'epoch')}. " if job.epochs else ""
        return kept + job.words
    test = final_accuracy(run) if run else None
    if job.asked.get("made"):
        right = "" if test is None else f"; cross-validated accuracy {100 * test:.1f}%"
        return f"from Custom classes, published to all users{right}"
    right = "" if test is None else f", {100 * test:.1f}% test accuracy"
    last = run.history[-1]["val_accuracy"] if run and run.history else None
    held = "" if last is None else f", {100 * last:.1f}% validation accuracy"
    part = "" if job.state == FINISHED else f" of {job.epochs}, the last one incomplete"
    return f"{counted(job.epoch, 'epoch')}{part}{held}{right}"


def time_left(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min"


def guessed(job: Job, run: Run | None, runs: dict[str, Run]) -> str:
    """Return the user's guess and, once it is known, the measured gain."""
    beside, guess = job.asked.get("beside"), job.asked.get("guess")
    if not beside or guess is None:
        return ""
    said = (
        f"Guess: {signed(guess)} percentage points of validation accuracy compared with {beside}."
    )
    if job.state not in (FINISHED, STOPPED) or run is None:
        return said
    if beside not in runs:
        return f"{said} That run no longer exists."
    try:
        found = gain(run, runs[beside])
    except VitdemoError as error:
        return f"{said} {error}"
    pictures = "the same validation images" if found.paired else "different validation images"
    hit = "within" if found.low <= guess <= found.high else "outside"
    return (
        f"{said} Result: {signed(found.points)} (95% confidence interval {signed(found.low)} to "
        f"{signed(found.high)}, on {pictures}). The guess is {hit} this interval, which does not "
        "include the variation between random seeds."
    )


def watched(jobs: list[Job]) -> Job | None:
    """Return the job whose curves are drawn: the one in progress, or the newest with curves."""
    at_work = [job for job in jobs if job.state in AT_WORK]
    begun = [job for job in jobs if job.epochs]
    return (at_work or begun or [None])[0]


def drawing(job: Job | None) -> dict:
    """Return the value of `Curves` for a run in progress.

    Training curves have a point per logged step, validation curves one per epoch.
    """
    if job is None:
        return {}
    lines, history = read_steps(job.path), read_history(job.path)
    if not lines:
        return {"note": f"{job.name}: the curves appear after the first step."}
    lines = lines[:: max(1, -(-len(lines) // POINTS))]
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
