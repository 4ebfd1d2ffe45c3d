"""Live curves of one training run, as a value of `linePlotsIn` in line_plots.js."""

from vitdemo.figures.curves import COLOURS
from vitdemo.jobs.state import Job
from vitdemo.runs import read_history
from vitdemo.runs.steps import read_steps

MAX_CURVE_POINTS = 300  # maximum number of points per curve; a plot cannot show more
AXIS = "epochs trained"  # a fraction of an epoch for each logged step
NO_STEP_NOTE = "{name}: the curves appear after the first step."


def render_live_curves(job: Job | None) -> dict:
    """Return the value of `linePlotsIn` for the training run of a job, or {} without a job.

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
            "label": f"{title} of {job.name}, by {AXIS}",
            "unit": unit,
            "x": AXIS,
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
