"""Training curves of the chosen runs.

The payload is {"message": str} without curves, else:

    {"note": str, "axes": {axis: unit},
     "x": [{"epoch": [...], "minutes": [...], "share": [...]} of each history],
     "plots": [{"title", "label", "unit", "shape", "decimals", "signed", "has_log_scale",
                "lines": [line, ...],
                "marks": [{"epoch", "minutes", "share", "colour"}, ...]}, ...]}

A line is {"run", "name", "x": index of its history, "y": [...], "colour", "dashed", "sign"}. The
browser smooths the lines, and chooses the axes. The legend is `run_choice`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gradio as gr
import numpy as np
from gradio.components import Component

from vitdemo.context import AppContext
from vitdemo.figures.curves import MAX_TRAINING_CURVES, LineStyle, choose_line_styles
from vitdemo.metrics.training_progress import (
    elapsed_minutes,
    generalisation_gap,
    list_stage_changes,
    recipe_field,
    with_lineage_history,
)
from vitdemo.page.bridge import ViewState, add_view
from vitdemo.page.training.run_choice import choose_runs
from vitdemo.runs import Run, find_pretraining, get_lineage

VIEW = "training_curves"
SMOOTHING, SCALE, AXIS = "training.smoothing", "training.scale", "training.axis"  # state keys
MAX_SMOOTHING = 0.95
SMOOTHING_LABEL, SCALE_LABEL, AXIS_LABEL = "Smoothing", "Y-axis scale", "X-axis"
SCALES = [("Linear", "linear"), ("Logarithmic", "log")]
AXES = [("Epochs", "epoch"), ("Minutes", "minutes"), ("Percentage of the run", "share")]
AXIS_UNITS = {"epoch": "epoch", "minutes": "minutes", "share": "percent of the run"}
NO_RUN_MESSAGE = (
    "There are no runs yet. Start one with `python train.py vit-small-cpu`; it appears here."
)
NO_SELECTION_MESSAGE = "Choose a run above to see its curves."
NO_EPOCH_MESSAGE = "The curves appear at the end of the first epoch."
MANY_RUNS_NOTE = f"For more than {MAX_TRAINING_CURVES} runs, only the validation curves are drawn."
MASKED_TITLE = "Self-supervised pretraining (MAE): error on the masked patches"
GAP_TITLE = "Generalisation gap: training minus validation accuracy"
VALIDATION, TRAINING = "validation", "training"
TEXTS = {"plot_by_axis": "{plot}, by {axis}"}


@dataclass(frozen=True)
class CurvePlot:
    """Plot of the tab: title, unit of the y-axis, and curves computed from a run's history.

    `shape` is "large" or "wide" for the plots of the first screen, see line_plots.js.
    """

    title: str
    unit: str
    columns: dict[str, Callable[[Run], Sequence[float]]]
    decimals: int | None = None  # None: four significant digits
    has_log_scale: bool = False  # whether the logarithmic scale applies to this plot
    signed: bool = False  # draw a line at 0 and show a plus sign
    find_source_run: Callable[[Run], Run | None] = lambda run: run  # run that has the history
    shape: str | None = None


def _column(field: str, scale: float = 1) -> Callable[[Run], list[float]]:
    return lambda run: [scale * record[field] for record in run.history]


def _train_and_validation(field: str, scale: float = 1) -> dict[str, Callable[[Run], list[float]]]:
    return {
        VALIDATION: _column(f"val_{field}", scale),
        TRAINING: _column(f"train_{field}", scale),
    }


LEARNING_RATE_COLUMN = {"learning rate": _column("learning_rate")}
PLOTS = (
    CurvePlot("Accuracy", "%", _train_and_validation("accuracy", 100), decimals=2, shape="large"),
    CurvePlot("Loss", "loss", _train_and_validation("loss"), has_log_scale=True, shape="wide"),
    CurvePlot(
        GAP_TITLE,
        "percentage points",
        {"gap": generalisation_gap},
        decimals=2,
        signed=True,
        shape="wide",
    ),
)
MORE_PLOTS = (
    CurvePlot(
        "Learning rate at the end of each epoch",
        "learning rate",
        LEARNING_RATE_COLUMN,
        has_log_scale=True,
    ),
    CurvePlot("Time per epoch", "seconds", {"seconds": _column("epoch_seconds")}, decimals=1),
    CurvePlot(
        MASKED_TITLE,
        "mean squared error",
        _train_and_validation("loss"),
        has_log_scale=True,
        find_source_run=find_pretraining,
    ),
)


def build(controls: dict[str, Component]) -> None:
    """Lay out the plots and, below, the display settings."""
    add_view(VIEW, elem_id="plots")
    with gr.Row(elem_id="training-filters", elem_classes="vd-filters"):
        controls[SMOOTHING] = gr.Slider(
            0,
            MAX_SMOOTHING,
            0,
            step=0.05,
            label=SMOOTHING_LABEL,
            min_width=200,
            elem_id="smoothing",
        )
        controls[SCALE] = gr.Radio(SCALES, value="linear", label=SCALE_LABEL, min_width=200)
        controls[AXIS] = gr.Radio(AXES, value="epoch", label=AXIS_LABEL, min_width=200)


def payload(context: AppContext, state: ViewState) -> dict:
    """Return the curves of the chosen runs."""
    found = context.list_runs()[0]
    return render_curves(found, choose_runs(found, state))


def render_curves(
    found: Sequence[Run], shown: Sequence[Run], wanted: Sequence[CurvePlot] = PLOTS
) -> dict:
    """Return the `wanted` plots of the runs `shown`; all runs `found` determine the colours."""
    drawn = [run for run in shown if run.history]
    if not drawn:
        message = NO_SELECTION_MESSAGE if found else NO_RUN_MESSAGE
        return {"message": NO_EPOCH_MESSAGE if shown else message}
    names = [run.name for run in drawn]
    styles = choose_line_styles(names, [run.name for run in found])
    has_many = len(drawn) > MAX_TRAINING_CURVES
    wholes = {run.name: with_lineage_history(run) for run in drawn}
    histories: dict[str, dict] = {}  # x positions by name
    plots = []
    for plot in wanted:
        sources = [(run, plot.find_source_run(wholes[run.name])) for run in drawn]
        pairs = [(run, source) for run, source in sources if source and source.history]
        for _, source in pairs:
            histories.setdefault(source.name, x_positions(source))
        if pairs:
            places = {name: i for i, name in enumerate(histories)}
            plots.append(plot_payload(plot, pairs, styles, places, with_training=not has_many))
    return {
        "axes": AXIS_UNITS,
        "note": MANY_RUNS_NOTE if has_many else "",
        "x": [*histories.values()],
        "plots": plots,
    }


def x_positions(run: Run) -> dict[str, list[float]]:
    """Return the position of each epoch of a run on each x-axis in `AXES`."""
    epochs, total = [record["epoch"] for record in run.history], count_planned_epochs(run)
    return {
        "epoch": epochs,
        "minutes": elapsed_minutes(run),
        "share": [100 * epoch / total for epoch in epochs],
    }


def count_planned_epochs(run: Run) -> int:
    """Return the number of epochs of a finished run, or the number after which it will finish."""
    last = run.history[-1]["epoch"]
    before = get_lineage(run)[-1][0]
    planned = before + recipe_field(run, "head_epochs") + recipe_field(run, "epochs")
    return last if run.has_evaluation else max(last, planned)


def plot_payload(
    plot: CurvePlot,
    pairs: Sequence[tuple[Run, Run]],
    styles: dict[str, LineStyle],
    places: dict[str, int],
    *,
    with_training: bool,
) -> dict:
    """Return a plot of `pairs`: each run, and the run that has the history of its curves.

    `places` are the indices of the histories by name.
    """
    return {
        "title": plot.title,
        "label": f"{plot.title} of {', '.join(run.name for run, _ in pairs)}",
        "unit": plot.unit,
        "shape": plot.shape,
        "decimals": plot.decimals,
        "signed": plot.signed,
        "has_log_scale": plot.has_log_scale,
        "lines": [
            {
                "run": source.name,
                "name": name,
                "x": places[source.name],
                "y": column(source),
                "colour": styles[run.name].lighter if name == TRAINING else styles[run.name].colour,
                "dashed": name == TRAINING,
                "sign": styles[run.name].symbol,
            }
            for run, source in pairs
            for name, column in plot.columns.items()
            if with_training or name != TRAINING
        ],
        "marks": [mark for pair in pairs for mark in stage_marks(*pair, styles)],
    }


def stage_marks(run: Run, source: Run, styles: dict[str, LineStyle]) -> list[dict]:
    """Return a vertical line for each change of stage in the history of `source`."""
    x = x_positions(source)
    epochs = [0, *x["epoch"]]
    minutes = [source.seconds_before / 60, *x["minutes"]]
    return [
        {
            "epoch": float(stage.after),
            "minutes": float(np.interp(stage.after, epochs, minutes)),
            "share": 100 * stage.after / count_planned_epochs(source),
            "colour": styles[run.name].colour,
        }
        for stage in list_stage_changes(source if source.is_pretraining else run)
        if 0 < stage.after < epochs[-1]
    ]
