"""Training curves of the chosen runs.

The payload is {"message": str} without curves, else:

    {"note": str, "axes": {axis: unit},
     "x": [{"epoch": [...], "minutes": [...], "share": [...]} of each history],
     "plots": [{"title", "label", "unit", "shape", "decimals", "signed", "has_log_scale",
                "lines": [line, ...],
                "marks": [{"epoch", "minutes", "share", "colour", "label"}, ...]}, ...]}

A line is {"run", "name", "x": index of its history, "y": [...], "colour", "dashed", "sign"}. The
browser smooths and labels the lines, and chooses the axes. The legend is `run_choice`.
"""

from collections.abc import Sequence

import numpy as np

from vitdemo.context import AppContext
from vitdemo.figures.curves import MAX_TRAINING_CURVES, LineStyle, choose_line_styles
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.metrics.training_progress import (
    elapsed_minutes,
    recipe_field,
    with_lineage_history,
)
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import Feature
from vitdemo.page.training.run_choice import choose_runs
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.training import PLOTS, TRAINING, CurvePlot, find_stages
from vitdemo.runs import Run, get_lineage, number_runs

VIEW = "training_curves"
AXIS_UNITS = {"epoch": "epoch", "minutes": "minutes", "share": "percent of the run"}
NO_RUN_MESSAGE = (
    f"There are no runs yet. Start one with `{TRAIN_COMMAND} vit-small-cpu`; it appears here."
)
NO_SELECTION_MESSAGE = "Choose a run above to see its curves."
NO_EPOCH_MESSAGE = "The curves appear at the end of the first epoch."
MANY_RUNS_NOTE = f"For more than {MAX_TRAINING_CURVES} runs, only the validation curves are drawn."
SAME_COLOUR_NOTE = "Markers distinguish runs of the same colour."


def build() -> None:
    add_view(VIEW, elem_id="plots")


@needs(keys.CURVE_RUNS, unwatched=(keys.KNOWN_RUNS,))
def payload(context: AppContext, state: ViewState) -> dict:
    found = context.list_runs()[0]
    return render_curves(found, choose_runs(found, state))


FEATURE = Feature({VIEW: payload})


def render_curves(
    runs: Sequence[Run], shown: Sequence[Run], wanted: Sequence[CurvePlot] = PLOTS
) -> dict:
    """Return the `wanted` plots of the runs `shown`; all runs `runs` determine the colours."""
    drawn = [run for run in shown if run.history]
    if not drawn:
        message = NO_SELECTION_MESSAGE if runs else NO_RUN_MESSAGE
        return {"message": NO_EPOCH_MESSAGE if shown else message}
    names = [run.name for run in drawn]
    styles = choose_line_styles(names, number_runs(runs))
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
        "note": " ".join(
            [MANY_RUNS_NOTE] * has_many
            + [SAME_COLOUR_NOTE] * any(style.symbol for style in styles.values())
        ),
        "x": [*histories.values()],
        "plots": plots,
    }


def x_positions(run: Run) -> dict[str, list[float]]:
    """Return the position of each epoch of a run on each x-axis of `CURVE_AXIS`."""
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
    """Return a plot of `pairs`: a run, and the run whose history its curves show.

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
            "label": stage.label,
        }
        for stage in find_stages(run, source)
    ]
