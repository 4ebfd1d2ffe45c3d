"""The Training progress tab: training curves of any runs, updated while a run is in progress."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
import numpy as np

from vitdemo.figures.curves import MANY, LineStyle, line_styles
from vitdemo.jobs import Jobs
from vitdemo.metrics import DASH
from vitdemo.metrics.learning import (
    below_validation,
    epoch_count,
    gap,
    images_per_second,
    milestone_rows,
    minutes,
    reasons,
    smoothed,
    stages,
    whole,
)
from vitdemo.metrics.recipe_ablation import ablations
from vitdemo.page.components.article import (
    Article,
    Bullets,
    Choices,
    Folded,
    Heading,
    Piece,
)
from vitdemo.page.components.curves import Curves
from vitdemo.page.components.run_choice import grouped
from vitdemo.page.components.run_list import RunList
from vitdemo.page.components.table import Cell, Column, Table
from vitdemo.page.kit import HIDDEN, KEPT_SECONDS, LIGHT_QUEUE, QUIET, offer_download
from vitdemo.page.look.tab import Look
from vitdemo.page.training import here
from vitdemo.report import report, report_name
from vitdemo.runs import RECORD_FIELDS, Run, pretraining
from vitdemo.workbench import Workbench

SECONDS = 4  # interval at which the run folders are read
INTRO = (
    "Training curves of each model, by epoch: on the training set, and on a validation set that "
    "the model never trains on. Point at a plot, or tap it, to read its values. The curves of a "
    "run in progress update automatically."
)
NO_RUN = "There are no runs yet. Start one with `python train.py vit-small-cpu`; it appears here."
NONE_CHOSEN = "Choose a run above to see its curves."
NO_EPOCH = "The first epoch has not ended yet. The curves appear after it."
EPOCHS, MINUTES = "Epochs", "Minutes"
LINEAR, LOG = "Linear", "Logarithmic"
VALIDATION, TRAINING = "validation", "training"


@dataclass(frozen=True)
class Plot:
    """One plot: its y-axis, and the columns of a run's history that it draws."""

    title: str
    unit: str
    columns: dict[str, Callable[[Run], Sequence[float]]]
    decimals: int | None = None  # None: four significant digits
    log: bool = False  # whether the logarithmic scale applies to this plot
    signed: bool = False  # draw a line at 0 and show a plus sign
    of: Callable[[Run], Run | None] = lambda run: run  # the run whose history is drawn


def _column(field: str, scale: float = 1) -> Callable[[Run], list[float]]:
    return lambda run: [scale * record[field] for record in run.history]


def _both(field: str, scale: float = 1) -> dict[str, Callable[[Run], list[float]]]:
    return {
        VALIDATION: _column(f"val_{field}", scale),
        TRAINING: _column(f"train_{field}", scale),
    }


RATE = {"learning rate": _column("learning_rate")}
MASKED = "Self-supervised pretraining (MAE): error on the masked patches"
GAP = "Generalisation gap: training minus validation accuracy"
PLOTS = (
    Plot("Loss", "loss", _both("loss"), log=True),
    Plot("Accuracy", "%", _both("accuracy", 100), decimals=2),
    Plot(GAP, "percentage points", {"gap": gap}, decimals=2, signed=True),
    Plot("Learning rate at the end of each epoch", "learning rate", RATE, log=True),
    Plot("Time per epoch", "seconds", {"seconds": _column("epoch_seconds")}, decimals=1),
    Plot(MASKED, "mean squared error", _both("loss"), log=True, of=pretraining),
)


@dataclass(frozen=True)
class View:
    """Display settings of the curves: smoothing weight, y-axis scale and x-axis."""

    smoothing: float = 0.0
    log: bool = False
    by_minutes: bool = False


def build(tab: gr.Tab, workbench: Workbench, look: Look, jobs: Jobs | None) -> Article:
    """Lay out and wire the tab; with `jobs`, training runs can be started in it.

    The `pick` event of the returned article carries the baseline of the ablation to be shown.
    """
    gr.Markdown(INTRO)
    here.build(tab, look, jobs)
    found = workbench.runs()[0]
    chosen = RunList(grouped(found), first_choice(found), label="Runs", elem_id="runs")
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
    known = gr.State(names, time_to_live=KEPT_SECONDS)  # names already listed; new runs get a tick
    stamp = gr.State(None, time_to_live=KEPT_SECONDS)  # `signature` of the drawn curves
    plots = Curves(elem_id="plots")
    words = Article(elem_id="learning")
    timer = gr.Timer(SECONDS, active=False)

    def refresh(selected, seen, drawn, smoothing, scale, axis):
        found = workbench.runs()[0]
        names, begun = [run.name for run in found], first_choice(found)
        selected = [n for n in names if n in selected or (n in begun and n not in seen)]
        view = View(float(smoothing or 0), scale == LOG, axis == MINUTES)
        now = [*signature(found, selected), view]
        if now == drawn:
            return gr.skip()
        shown = [run for run in found if run.name in selected]
        # Update the boxes only if a run was added or removed, so as not to undo a later click.
        boxes = gr.update(groups=grouped(found), value=selected)
        return (
            boxes if names != seen else gr.skip(),
            names,
            now,
            drawing(found, shown, view),
            [*learned(shown, ablations(found)), *figures_of(workbench, shown), *epochs_of(shown)],
        )

    def write_report(folder: Path, selected: list[str]) -> str:
        found = workbench.runs()[0]
        shown = [run for run in found if run.name in selected]
        text = report(shown, order=[run.name for run in found])
        path = folder / report_name(shown)
        path.write_text(text, encoding="utf-8")
        return str(path)

    title = "Save report (HTML)"
    offer_download(title, "report", write_report, [chosen], LIGHT_QUEUE)
    event = {
        "fn": refresh,
        "inputs": [chosen, known, stamp, smoothing, scale, axis],
        "outputs": [chosen, known, stamp, plots, words],
        **QUIET,
    }
    # The curves are drawn when the tab is first opened, which keeps the page's start fast.
    tab.select(**event)
    tab.parent.change(None, js=here.WATCH.replace("SEEN", "#plots"), outputs=timer, **HIDDEN)
    timer.tick(**event)
    gr.on([chosen.input, smoothing.change, scale.input, axis.input], **event)
    return words


def first_choice(found: list[Run]) -> list[str]:
    """Return the names of the runs to draw first: those with weights and those in training.

    If there are none, return all names.
    """
    begun = [run for run in found if run.has_weights or not run.has_evaluation]
    return [run.name for run in begun or found]


def signature(runs: list[Run], selected: list[str]) -> list:
    """Return a value that changes whenever the content of the tab would change."""
    return [(run.name, run.stamp, run.name in selected) for run in runs]


# --- the curves ----------------------------------------------------------------------------------


def drawing(found: list[Run], shown: list[Run], view: View) -> dict:
    """Return the value of `Curves` for the runs `shown`, or a message if there are no curves."""
    drawn = [run for run in shown if run.history]
    if not drawn:
        return {"problems": [NO_EPOCH if shown else NONE_CHOSEN if found else NO_RUN]}
    names, by = [run.name for run in drawn], "minutes" if view.by_minutes else "epoch"
    wholes = {run.name: whole(run) for run in drawn}
    styles, many = line_styles(names, [run.name for run in found]), len(drawn) > MANY
    note = f"For more than {MANY} runs, only the validation curves are drawn." if many else ""
    return {
        "legend": [
            {
                "name": name,
                "colour": styles[name].colour,
                "lighter": None if many else styles[name].lighter,
                "sign": styles[name].sign,
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
                "lines": [line for it in pairs for line in lines(plot, *it, styles, view)],
                "marks": [mark for it in pairs for mark in marks(*it, styles, view)],
            }
            for plot in PLOTS
            if (
                pairs := [
                    (run, it) for run in drawn if (it := plot.of(wholes[run.name])) and it.history
                ]
            )
        ],
    }


def along(run: Run, view: View) -> list[float]:
    """Return the position of each epoch on the x-axis."""
    return minutes(run) if view.by_minutes else [record["epoch"] for record in run.history]


def lines(
    plot: Plot, run: Run, source: Run, styles: dict[str, LineStyle], view: View
) -> list[dict]:
    """Return the curves of `source` in the colours of `run`.

    Smoothed curves are drawn over the faint originals. With more than `MANY` runs, the training
    curves are left out.
    """
    own, found = styles[run.name], []
    for name, column in plot.columns.items():
        training = name == TRAINING
        if training and len(styles) > MANY:
            continue
        true = {
            "run": source.name,
            "name": name,
            "x": along(source, view),
            "y": column(source),
            "colour": own.lighter if training else own.colour,
            "dashed": training,
            "faint": bool(view.smoothing),
            "sign": own.sign,
            "read": True,
            "epochs": [record["epoch"] for record in source.history] if view.by_minutes else None,
        }
        found.append(true)
        if view.smoothing:
            y = smoothed(true["y"], view.smoothing)
            found.append(true | {"y": y, "faint": False, "read": False})
    return found


def marks(run: Run, source: Run, styles: dict[str, LineStyle], view: View) -> list[dict]:
    """Return a vertical line for each stage change that the training of `source` has reached."""
    epochs = [0, *(record["epoch"] for record in source.history)]
    manner = stages(source if source.is_masked else run)
    start = source.seconds_before / 60 if view.by_minutes else 0
    places = [start, *along(source, view)]
    return [
        {"x": float(np.interp(stage.after, epochs, places)), "colour": styles[run.name].colour}
        for stage in manner
        if 0 < stage.after < epochs[-1]
    ]


# --- texts and tables ----------------------------------------------------------------------------


def learned(runs: list[Run], groups: dict[str, list[str]]) -> list[Piece]:
    """Return the milestones, links to ablations, stages, and reasons for a negative gap.

    `groups` maps the baseline of each ablation to the names of its runs.
    """
    drawn = [run for run in runs if run.history]
    if not drawn:
        return []
    return [
        Heading("Time to reach a validation accuracy"),
        Table(*milestone_rows([whole(run) for run in drawn])),
        *ablation_links([base for base, names in groups.items() if two_of(names, drawn)]),
        *stage_list(drawn),
        *(reasons_of(run) for run in drawn if below_validation(run)),
    ]


def two_of(names: list[str], drawn: list[Run]) -> bool:
    return len({run.name for run in drawn} & set(names)) >= 2


def ablation_links(bases: list[str]) -> list[Piece]:
    """Return buttons that open each ablation in the tab Compare models."""
    words = "Show the ablation of {} in Compare models"
    return [Choices({base: words.format(base) for base in bases})] if bases else []


def stage_list(runs: list[Run]) -> list[Piece]:
    """Return the list that explains the dotted lines."""
    items = [f"**{run.name}**, {it.when}: {it.words}." for run in runs for it in stages(run)]
    return [Heading("Dotted lines: stages of training"), Bullets(items)] if items else []


def reasons_of(run: Run) -> Folded:
    words = (
        f"{run.name}: training accuracy is below validation accuracy in {below_validation(run)} of "
        f"{len(run.history)} epochs. Why?"
    )
    return Folded(words, [Bullets(reasons(run))])


def figures_of(workbench: Workbench, runs: list[Run]) -> list[Piece]:
    """Return a table with one row per run, read only from its files; a dash is a missing value."""
    rows = [_final(run, workbench.accuracy(run)) for run in runs]
    if not rows:
        return []
    columns = [*list(rows[0])[:-1], Column("Trained on", numeric=False)]
    return [Heading("Final results"), Table(columns, [list(row.values()) for row in rows])]


def _final(run: Run, test: float | None) -> dict[str, str]:
    used, speed = run.record_of_weights, images_per_second(run)
    parameters = run.config.get("parameters")
    return {
        "Run": run.name,
        "Test accuracy, %": DASH if test is None else f"{100 * test:.2f}",
        "Validation accuracy, %": f"{100 * used['val_accuracy']:.2f}" if used else DASH,
        "Epochs": epoch_count(run),
        "Minutes": f"{run.train_seconds / 60:.1f}" if run.history else DASH,
        "Images/s, median epoch": f"{speed:.0f}" if speed else DASH,
        "Parameters, million": DASH if parameters is None else f"{parameters / 1e6:.2f}",
        "Trained on": run.device or DASH,
    }


def epochs_of(runs: list[Run]) -> list[Piece]:
    """Return the values of the curves as a folded table."""
    rows = [
        [run.name, *(_cell(record[field]) for field in RECORD_FIELDS)]
        for run in runs
        for record in whole(run).history
    ]
    table = Table(["run", *RECORD_FIELDS], rows, file="vitdemo-epochs")
    return [Folded("Results by epoch", [table])] if rows else []


def _cell(value: object) -> Cell:
    return Cell(f"{value:.4g}", value=value) if isinstance(value, float) else Cell(str(value))
