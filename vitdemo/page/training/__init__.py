"""The Training progress tab: training curves of any runs, updated while a run is in progress."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import numpy as np

from vitdemo.context import AppContext
from vitdemo.figures.curves import MAX_TRAINING_CURVES, LineStyle, choose_line_styles
from vitdemo.jobs import JobQueue
from vitdemo.metrics import DASH
from vitdemo.metrics.recipe_ablation import find_ablations
from vitdemo.metrics.training_progress import (
    count_epochs_below_validation,
    elapsed_minutes,
    explain_low_training_accuracy,
    format_epoch_count,
    generalisation_gap,
    list_stage_changes,
    median_images_per_second,
    milestone_rows,
    smooth_values,
    with_lineage_history,
)
from vitdemo.page.components.article import (
    Bullets,
    Details,
    Document,
    DocumentBlock,
    Heading,
    PickList,
)
from vitdemo.page.components.curves import CurvesView
from vitdemo.page.components.run_choice import group_runs
from vitdemo.page.components.run_list import RunList
from vitdemo.page.components.table import Cell, Column, Table
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import (
    LIGHT_QUEUE,
    NO_PROGRESS,
    REFRESH_EVENT,
    STATE_LIFETIME,
    add_download_button,
)
from vitdemo.page.training import here
from vitdemo.report import get_report_name, render_report
from vitdemo.runs import RECORD_FIELDS, Run, find_pretraining

REFRESH_SECONDS = 4  # seconds between two reads of the run folders
TRAINING_INTRO = (
    "Training curves of each model, by epoch: on the training set, and on a validation set that "
    "the model never trains on. Point at a plot, or tap it, to read its values. The curves of a "
    "run in progress update automatically."
)
NO_RUN_MESSAGE = (
    "There are no runs yet. Start one with `python train.py vit-small-cpu`; it appears here."
)
NO_SELECTION_MESSAGE = "Choose a run above to see its curves."
NO_EPOCH_MESSAGE = "The curves appear at the end of the first epoch."
EPOCHS, MINUTES = "Epochs", "Minutes"
LINEAR, LOG = "Linear", "Logarithmic"
VALIDATION, TRAINING = "validation", "training"


@dataclass(frozen=True)
class CurvePlot:
    """Plot of the tab: title, unit of the y-axis, and curves computed from a run's history."""

    title: str
    unit: str
    columns: dict[str, Callable[[Run], Sequence[float]]]
    decimals: int | None = None  # None: four significant digits
    log: bool = False  # whether the logarithmic scale applies to this plot
    signed: bool = False  # draw a line at 0 and show a plus sign
    find_source_run: Callable[[Run], Run | None] = lambda run: run  # run that has the history


def _column(field: str, scale: float = 1) -> Callable[[Run], list[float]]:
    return lambda run: [scale * record[field] for record in run.history]


def _train_and_validation(field: str, scale: float = 1) -> dict[str, Callable[[Run], list[float]]]:
    return {
        VALIDATION: _column(f"val_{field}", scale),
        TRAINING: _column(f"train_{field}", scale),
    }


LEARNING_RATE_COLUMN = {"learning rate": _column("learning_rate")}
MASKED_TITLE = "Self-supervised pretraining (MAE): error on the masked patches"
GAP_TITLE = "Generalisation gap: training minus validation accuracy"
PLOTS = (
    CurvePlot("Loss", "loss", _train_and_validation("loss"), log=True),
    CurvePlot("Accuracy", "%", _train_and_validation("accuracy", 100), decimals=2),
    CurvePlot(GAP_TITLE, "percentage points", {"gap": generalisation_gap}, decimals=2, signed=True),
    CurvePlot(
        "Learning rate at the end of each epoch", "learning rate", LEARNING_RATE_COLUMN, log=True
    ),
    CurvePlot("Time per epoch", "seconds", {"seconds": _column("epoch_seconds")}, decimals=1),
    CurvePlot(
        MASKED_TITLE,
        "mean squared error",
        _train_and_validation("loss"),
        log=True,
        find_source_run=find_pretraining,
    ),
)


@dataclass(frozen=True)
class CurveSettings:
    """Display settings of all curves: smoothing weight, scale of the y-axis, and x-axis."""

    smoothing: float = 0.0
    log: bool = False
    by_minutes: bool = False


def build(tab: gr.Tab, context: AppContext, look: ExploreTab, jobs: JobQueue | None) -> Document:
    """Lay out the tab and connect its events; with `jobs`, training runs can be started in it.

    The value of the returned document's event `pick` is the baseline of an ablation to open.
    """
    gr.Markdown(TRAINING_INTRO)
    here.build(tab, look, jobs)
    found = context.list_runs()[0]
    chosen = RunList(group_runs(found), default_run_names(found), label="Runs", elem_id="runs")
    with gr.Row():
        smoothing = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Smoothing",
            info="weight of previous epochs (exponential moving average); the original curve "
            "stays visible",
            min_width=260,
            elem_id="smoothing",
        )
        scale = gr.Radio([LINEAR, LOG], value=LINEAR, label="Y-axis scale", min_width=200)
        axis = gr.Radio([EPOCHS, MINUTES], value=EPOCHS, label="X-axis", min_width=200)
    names = [run.name for run in found]
    known = gr.State(names, time_to_live=STATE_LIFETIME)  # listed runs; a new run gets a tick
    stamp = gr.State(None, time_to_live=STATE_LIFETIME)  # `content_signature` of the drawn curves
    plots = CurvesView(elem_id="plots")
    words = Document(elem_id="learning")
    timer = gr.Timer(REFRESH_SECONDS, active=False)

    def refresh(selected, seen, drawn, smoothing, scale, axis):
        found = context.list_runs()[0]
        names, begun = [run.name for run in found], default_run_names(found)
        selected = [n for n in names if n in selected or (n in begun and n not in seen)]
        view = CurveSettings(float(smoothing or 0), scale == LOG, axis == MINUTES)
        now = [*content_signature(found, selected), view]
        if now == drawn:
            return gr.skip()
        shown = [run for run in found if run.name in selected]
        # Update the boxes only if a run was added or removed: an update could undo a later click.
        boxes = gr.update(groups=group_runs(found), value=selected)
        return (
            boxes if names != seen else gr.skip(),
            names,
            now,
            render_curves(found, shown, view),
            [
                *learning_summary(shown, find_ablations(found)),
                *final_results(context, shown),
                *epoch_table(shown),
            ],
        )

    def write_report(folder: Path, selected: list[str]) -> str:
        found = context.list_runs()[0]
        shown = [run for run in found if run.name in selected]
        text = render_report(shown, order=[run.name for run in found])
        path = folder / get_report_name(shown)
        path.write_text(text, encoding="utf-8")
        return str(path)

    title = "Save report (HTML)"
    add_download_button(title, "report", write_report, [chosen], LIGHT_QUEUE)
    event = {
        "fn": refresh,
        "inputs": [chosen, known, stamp, smoothing, scale, axis],
        "outputs": [chosen, known, stamp, plots, words],
        **REFRESH_EVENT,
    }
    # The curves are drawn when the tab is first opened, which keeps the page's start fast.
    tab.select(**event)
    tab.parent.change(
        None, js=here.JS_ACTIVATE_TIMER.replace("SEEN", "#plots"), outputs=timer, **NO_PROGRESS
    )
    timer.tick(**event)
    gr.on([chosen.input, smoothing.change, scale.input, axis.input], **event)
    return words


def default_run_names(found: list[Run]) -> list[str]:
    """Return the names of the runs to draw initially: runs with weights and runs in training.

    If there are no such runs, return all names.
    """
    begun = [run for run in found if run.has_weights or not run.has_evaluation]
    return [run.name for run in begun or found]


def content_signature(runs: list[Run], selected: list[str]) -> list:
    """Return a signature of the runs, which changes if the content of the tab would change."""
    return [(run.name, run.stamp, run.name in selected) for run in runs]


# --- the curves ----------------------------------------------------------------------------------


def render_curves(found: list[Run], shown: list[Run], view: CurveSettings) -> dict:
    """Return the value of `CurvesView` for the runs `shown`, or a message without curves."""
    drawn = [run for run in shown if run.history]
    if not drawn:
        return {
            "problems": [
                NO_EPOCH_MESSAGE if shown else NO_SELECTION_MESSAGE if found else NO_RUN_MESSAGE
            ]
        }
    names, by = [run.name for run in drawn], "minutes" if view.by_minutes else "epoch"
    wholes = {run.name: with_lineage_history(run) for run in drawn}
    styles, many = (
        choose_line_styles(names, [run.name for run in found]),
        len(drawn) > MAX_TRAINING_CURVES,
    )
    note = (
        f"For more than {MAX_TRAINING_CURVES} runs, only the validation curves are drawn."
        if many
        else ""
    )
    return {
        "legend": [
            {
                "name": name,
                "colour": styles[name].colour,
                "lighter": None if many else styles[name].lighter,
                "sign": styles[name].symbol,
            }
            for name in names
        ],
        "note": note,
        "x": by,
        "plots": [
            {
                "title": plot.title,
                "label": f"{plot.title} of {', '.join(run.name for run, _ in pairs)}, by {by}",
                "unit": plot.unit,
                "x": by,
                "whole": not view.by_minutes,
                "log": plot.log and view.log,
                "zero": plot.signed,
                "signed": plot.signed,
                "decimals": plot.decimals,
                "lines": [line for it in pairs for line in plot_lines(plot, *it, styles, view)],
                "marks": [mark for it in pairs for mark in stage_marks(*it, styles, view)],
            }
            for plot in PLOTS
            if (
                pairs := [
                    (run, it)
                    for run in drawn
                    if (it := plot.find_source_run(wholes[run.name])) and it.history
                ]
            )
        ],
    }


def x_positions(run: Run, view: CurveSettings) -> list[float]:
    """Return the position of each epoch of a run on the x-axis, in epochs or minutes."""
    return elapsed_minutes(run) if view.by_minutes else [record["epoch"] for record in run.history]


def plot_lines(
    plot: CurvePlot, run: Run, source: Run, styles: dict[str, LineStyle], view: CurveSettings
) -> list[dict]:
    """Return the curves of the history of `source`, in the colours of `run`.

    Smoothed curves are drawn over the faint originals. With more than `MAX_TRAINING_CURVES` runs,
    the training curves are left out.
    """
    own, found = styles[run.name], []
    for name, column in plot.columns.items():
        training = name == TRAINING
        if training and len(styles) > MAX_TRAINING_CURVES:
            continue
        true = {
            "run": source.name,
            "name": name,
            "x": x_positions(source, view),
            "y": column(source),
            "colour": own.lighter if training else own.colour,
            "dashed": training,
            "faint": bool(view.smoothing),
            "sign": own.symbol,
            "read": True,
            "epochs": [record["epoch"] for record in source.history] if view.by_minutes else None,
        }
        found.append(true)
        if view.smoothing:
            y = smooth_values(true["y"], view.smoothing)
            found.append(true | {"y": y, "faint": False, "read": False})
    return found


def stage_marks(
    run: Run, source: Run, styles: dict[str, LineStyle], view: CurveSettings
) -> list[dict]:
    """Return a vertical line for each change of stage in the history of `source`."""
    epochs = [0, *(record["epoch"] for record in source.history)]
    manner = list_stage_changes(source if source.is_pretraining else run)
    start = source.seconds_before / 60 if view.by_minutes else 0
    places = [start, *x_positions(source, view)]
    return [
        {"x": float(np.interp(stage.after, epochs, places)), "colour": styles[run.name].colour}
        for stage in manner
        if 0 < stage.after < epochs[-1]
    ]


# --- texts and tables ----------------------------------------------------------------------------


def learning_summary(runs: list[Run], groups: dict[str, list[str]]) -> list[DocumentBlock]:
    """Return texts about runs: milestones, ablations, stages, reasons for a negative gap.

    `groups` maps the baseline of each ablation to the names of its runs.
    """
    drawn = [run for run in runs if run.history]
    if not drawn:
        return []
    return [
        Heading("Time to reach a validation accuracy"),
        Table(*milestone_rows([with_lineage_history(run) for run in drawn])),
        *ablation_links(
            [base for base, names in groups.items() if includes_two_runs(names, drawn)]
        ),
        *stage_list(drawn),
        *(gap_reasons(run) for run in drawn if count_epochs_below_validation(run)),
    ]


def includes_two_runs(names: list[str], drawn: list[Run]) -> bool:
    return len({run.name for run in drawn} & set(names)) >= 2


def ablation_links(bases: list[str]) -> list[DocumentBlock]:
    """Return buttons that open each ablation in the tab Compare models."""
    words = "Show the ablation of {} in Compare models"
    return [PickList({base: words.format(base) for base in bases})] if bases else []


def stage_list(runs: list[Run]) -> list[DocumentBlock]:
    """Return a list of the training stages, which dotted lines mark in the plots."""
    items = [
        f"**{run.name}**, {it.when}: {it.text}." for run in runs for it in list_stage_changes(run)
    ]
    return [Heading("Dotted lines: stages of training"), Bullets(items)] if items else []


def gap_reasons(run: Run) -> Details:
    words = (
        f"{run.name}: training accuracy is below validation accuracy in "
        f"{count_epochs_below_validation(run)} of "
        f"{len(run.history)} epochs. Why?"
    )
    return Details(words, [Bullets(explain_low_training_accuracy(run))])


def final_results(context: AppContext, runs: list[Run]) -> list[DocumentBlock]:
    """Return a table of final results, one row per run, with a dash for missing values."""
    rows = [_final_result_row(run, context.test_accuracy(run)) for run in runs]
    if not rows:
        return []
    columns = [*list(rows[0])[:-1], Column("Trained on", numeric=False)]
    return [Heading("Final results"), Table(columns, [list(row.values()) for row in rows])]


def _final_result_row(run: Run, test: float | None) -> dict[str, str]:
    used, speed = run.weights_record, median_images_per_second(run)
    parameters = run.config.get("parameters")
    return {
        "Run": run.name,
        "Test accuracy, %": DASH if test is None else f"{100 * test:.2f}",
        "Validation accuracy, %": f"{100 * used['val_accuracy']:.2f}" if used else DASH,
        "Epochs": format_epoch_count(run),
        "Minutes": f"{run.train_seconds / 60:.1f}" if run.history else DASH,
        "Images/s, median epoch": f"{speed:.0f}" if speed else DASH,
        "Parameters, million": DASH if parameters is None else f"{parameters / 1e6:.2f}",
        "Trained on": run.device or DASH,
    }


def epoch_table(runs: list[Run]) -> list[DocumentBlock]:
    """Return the results of each epoch as a folded table."""
    rows = [
        [run.name, *(_cell(record[field]) for field in RECORD_FIELDS)]
        for run in runs
        for record in with_lineage_history(run).history
    ]
    table = Table(["run", *RECORD_FIELDS], rows, file="vitdemo-epochs")
    return [Details("Results by epoch", [table])] if rows else []


def _cell(value: object) -> Cell:
    return Cell(f"{value:.4g}", value=value) if isinstance(value, float) else Cell(str(value))
