"""Training progress of runs: curves, milestones, stages and final results, for page and report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vitdemo import figures
from vitdemo.documents import (
    Bullets,
    Details,
    DocumentBlock,
    Figure,
    Heading,
    Legend,
    LegendEntry,
    Plots,
    Text,
)
from vitdemo.documents.table import Column, Table
from vitdemo.figures.curves import MAX_TRAINING_CURVES, LineStyle, choose_line_styles, plot_curves
from vitdemo.metrics import DASH
from vitdemo.metrics.training_progress import (
    StageChange,
    count_epochs_below_validation,
    explain_low_training_accuracy,
    final_validation_accuracy,
    format_epoch_count,
    generalisation_gap,
    list_stage_changes,
    median_images_per_second,
    milestone_rows,
    with_lineage_history,
)
from vitdemo.runs import Run, find_pretraining

MASKED_TITLE = "Self-supervised pretraining (MAE): error on the masked patches"
GAP_TITLE = "Generalisation gap: training minus validation accuracy"
VALIDATION, TRAINING = "validation", "training"
MILESTONES_TITLE = "Time to reach a validation accuracy"
STAGES_TITLE = "Dotted lines: stages of training"
RESULTS_TITLE = "Final results"
RESULT_COLUMNS = (
    "Run",
    "Test accuracy, %",
    "Validation accuracy, %",
    "Epochs",
    "Minutes",
    "Images/s, median epoch",
    "Parameters, million",
    Column("Trained on", numeric=False),
)
NO_EPOCH = "{name}: no epoch has ended yet."
REASONS_TITLE = (
    "{name}: training accuracy is below validation accuracy in {count} of {epochs} epochs. Why?"
)


@dataclass(frozen=True)
class CurvePlot:
    """Plot of training curves: title, unit of the y-axis, and functions of a run's history.

    `shape` is "large" or "wide" for the plots of the first screen, see line_plots.js.
    """

    title: str
    unit: str
    columns: dict[str, Callable[[Run], Sequence[float]]]
    decimals: int | None = None  # None means four significant digits
    has_log_scale: bool = False  # whether the logarithmic scale applies to this plot
    signed: bool = False  # draw a line at 0 and show a plus sign
    find_source_run: Callable[[Run], Run | None] = lambda run: run  # run whose history is plotted
    shape: str | None = None


def _column(field: str, scale: float = 1) -> Callable[[Run], list[float]]:
    return lambda run: [scale * record[field] for record in run.history]


def _train_and_validation(field: str, scale: float = 1) -> dict[str, Callable[[Run], list[float]]]:
    return {VALIDATION: _column(f"val_{field}", scale), TRAINING: _column(f"train_{field}", scale)}


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
        {"learning rate": _column("learning_rate")},
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


def training_blocks(runs: Sequence[Run], numbers: Mapping[str, int]) -> list[DocumentBlock]:
    """Return legend, plots and summary of runs, whose `numbers` define their colours."""
    drawn = [run for run in runs if run.history]
    waiting = [Text(NO_EPOCH.format(name=run.name)) for run in runs if not run.history]
    if not drawn:
        return waiting
    styles = choose_line_styles([run.name for run in drawn], numbers)
    return [
        curve_legend(styles),
        Plots(curve_figures(drawn, styles)),
        *waiting,
        *learning_summary(drawn),
    ]


def curve_legend(styles: Mapping[str, LineStyle]) -> Legend:
    lines = {name: legend_entries(style) for name, style in styles.items()}
    if len(styles) > MAX_TRAINING_CURVES:
        lines = {name: entries[:1] for name, entries in lines.items()}
    return Legend(lines)


def legend_entries(style: LineStyle, name: str = "") -> list[LegendEntry]:
    """Return the legend entries of the validation curve, with `name`, and the training curve."""
    label = " ".join(filter(None, (style.symbol, name, VALIDATION)))
    return [LegendEntry(label, style.colour), LegendEntry(TRAINING, style.lighter, dashed=True)]


def curve_figures(
    runs: Sequence[Run],
    styles: Mapping[str, LineStyle],
    plots: Sequence[CurvePlot] = (*PLOTS, *MORE_PLOTS),
    lines: Sequence[LegendEntry] = (),
) -> list[Figure]:
    """Return the `plots` that at least one of the runs has; `lines` is a legend."""
    found = []
    wholes = [(run, with_lineage_history(run)) for run in runs]
    for plot in plots:
        sources = [(run, plot.find_source_run(whole)) for run, whole in wholes]
        sources = [(run, source) for run, source in sources if source and source.history]
        if not sources:
            continue
        curves = [
            styles[run.name].curve(
                [record["epoch"] for record in source.history],
                column(source),
                training=kind == TRAINING,
            )
            for run, source in sources
            for kind, column in plot.columns.items()
            if kind != TRAINING or len(runs) <= MAX_TRAINING_CURVES
        ]
        label = f"{plot.title} of {', '.join(run.name for run, _ in sources)}, by epoch"
        marks = [
            (stage.after, styles[run.name].colour)
            for run, source in sources
            for stage in find_stages(run, source)
        ]
        drawing = plot_curves(curves, plot.unit, zero=plot.signed, marks=marks)
        found.append(Figure(plot.title, label, figures.figure_to_svg(drawing), lines))
    return found


def find_stages(run: Run, source: Run) -> list[StageChange]:
    """Return the stage changes of `run` within `source`, the run with the plotted history."""
    stages = list_stage_changes(source if source.is_pretraining else run)
    last = source.history[-1]["epoch"]
    return [stage for stage in stages if 0 < stage.after < last]


def learning_summary(runs: Sequence[Run]) -> list[DocumentBlock]:
    """Return texts about runs: milestones, stages, reasons for a negative gap."""
    drawn = [run for run in runs if run.history]
    return [
        Heading(MILESTONES_TITLE),
        Table(*milestone_rows([with_lineage_history(run) for run in drawn])),
        *stage_list(drawn),
        *(gap_reasons(run) for run in drawn if count_epochs_below_validation(run)),
    ]


def stage_list(runs: Sequence[Run]) -> list[DocumentBlock]:
    """Return a list of the training stages, which dotted lines mark in the plots."""
    items = [
        f"**{run.name}**, {it.when}: {it.text}." for run in runs for it in list_stage_changes(run)
    ]
    return [Heading(STAGES_TITLE), Bullets(items)] if items else []


def gap_reasons(run: Run) -> Details:
    count, epochs = count_epochs_below_validation(run), len(run.history)
    title = REASONS_TITLE.format(name=run.name, count=count, epochs=epochs)
    return Details(title, [Bullets(explain_low_training_accuracy(run))])


def final_results(
    runs: Sequence[Run], test_accuracy: Callable[[Run], float | None]
) -> list[DocumentBlock]:
    """Return a table of final results, one row per run, with a dash for missing values."""
    rows = [_final_result_row(run, test_accuracy(run)) for run in runs]
    return [Heading(RESULTS_TITLE), Table(RESULT_COLUMNS, rows)]


def _final_result_row(run: Run, test: float | None) -> list[str]:
    """Return the cells of a run, in the order of `RESULT_COLUMNS`."""
    validation, speed = final_validation_accuracy(run), median_images_per_second(run)
    parameters = run.config.get("parameters")
    return [
        run.name,
        DASH if test is None else f"{100 * test:.2f}",
        DASH if validation is None else f"{100 * validation:.2f}",
        format_epoch_count(run),
        f"{run.train_seconds / 60:.1f}" if run.history else DASH,
        f"{speed:.0f}" if speed else DASH,
        DASH if parameters is None else f"{parameters / 1e6:.2f}",
        run.device or DASH,
    ]
