"""What the panel says of the trainings: a row each, and the curves of one, by the second."""

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

POINTS = 300  # of a curve: more than a plot of this width shows
DISCARD = ("discard", "Discard")
ACTIONS = {
    QUEUED: [DISCARD],
    STARTING: [DISCARD],
    TRAINING: [("pause", "Pause"), ("stop", "Stop and keep"), DISCARD],
    PAUSED: [("resume", "Resume"), ("stop", "Stop and keep"), DISCARD],
    EVALUATING: [DISCARD],
    FINISHED: [DISCARD],
    STOPPED: [DISCARD],
    FAILED: [("resume", "Go on"), DISCARD],
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
    """How it stands: one line."""
    epoch = f"epoch {min(job.epoch + 1, job.epochs)} of {job.epochs}"
    if job.state == QUEUED:
        return "waits for its turn"
    if job.state == STARTING:
        return "reads the pictures"
    if job.state == TRAINING:
        speed = f", {job.images_per_second:.0f} images/s" if job.images_per_second else ""
        left = f", {time_left(job.seconds_left)} left" if job.seconds_left is not None else ""
        ending = ", ends after this step" if job.asked.get("keeping") else ""
        return epoch + speed + left + ending
    if job.state == PAUSED:
        return f"{epoch}; those that wait, wait for it" if job.epochs else "held before its start"
    if job.state == EVALUATING:
        return f"{counted(job.epochs, 'epoch')} done, answers the test pictures"
    if job.state == FAILED:
        kept = f"after {job.epoch} of {counted(job.epochs, 'epoch')}. " if job.epochs else ""
        return kept + job.words
    test = final_accuracy(run) if run else None
    if job.asked.get("made"):
        right = "" if test is None else f": {100 * test:.1f} %, cross-validated"
        return f"of Your classes, shown to everyone{right}"
    right = "" if test is None else f", {100 * test:.1f} % of the test pictures"
    last = run.history[-1]["val_accuracy"] if run and run.history else None
    held = "" if last is None else f", {100 * last:.1f} % of the validation pictures"
    part = "" if job.state == FINISHED else f" of {job.epochs}, the last in part"
    return f"{counted(job.epoch, 'epoch')}{part}{held}{right}"


def time_left(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min"


def guessed(job: Job, run: Run | None, runs: dict[str, Run]) -> str:
    """The guess beside what came of it."""
    beside, guess = job.asked.get("beside"), job.asked.get("guess")
    if not beside or guess is None:
        return ""
    said = f"Guess: {signed(guess)} points of validation accuracy beside {beside}."
    if job.state not in (FINISHED, STOPPED) or run is None:
        return said
    if beside not in runs:
        return f"{said} That run is no longer here."
    try:
        found = gain(run, runs[beside])
    except VitdemoError as error:
        return f"{said} {error}"
    pictures = "the same pictures" if found.paired else "other pictures for each"
    hit = "within" if found.low <= guess <= found.high else "outside"
    return (
        f"{said} Result: {signed(found.points)} points (95 % interval {signed(found.low)} to "
        f"{signed(found.high)}, {pictures}; of pictures, not of seeds). The guess lies {hit} it."
    )


def watched(jobs: list[Job]) -> Job | None:
    """Whose curves are drawn: what is at work, or else the newest that has any."""
    at_work = [job for job in jobs if job.state in AT_WORK]
    begun = [job for job in jobs if job.epochs]
    return (at_work or begun or [None])[0]


def drawing(job: Job | None) -> dict:
    """What `Curves` draws of one training: of the pictures it trains on by the second, of those
    that were held out after each epoch."""
    if job is None:
        return {}
    lines, history = read_steps(job.path), read_history(job.path)
    if not lines:
        return {"note": f"{job.name}: the curves begin with its first step."}
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
            plot("Loss, by the second", "loss", "loss", 1, 3),
            plot("Accuracy, by the second", "%", "accuracy", 100, 1),
        ],
    }
