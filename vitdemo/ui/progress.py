"""The Training progress tab: curves of any runs side by side; a growing run updates by itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gradio as gr
import numpy as np
import pandas as pd

from vitdemo.explorer import final_accuracy
from vitdemo.explorer.learning import (
    MILESTONES,
    below_validation,
    gap,
    minutes,
    reached,
    reasons,
    record_of_weights,
    smoothed,
    stages,
)
from vitdemo.figures import Curve
from vitdemo.figures.curves import Hover, Mark, Pen, curve_plot, hover_svg, pens
from vitdemo.runs import RECORD_FIELDS, Run
from vitdemo.ui import html
from vitdemo.ui.kit import LIGHT_QUEUE, QUIET, PickHTML, offer_download

SECONDS = 4  # between two looks at the run folders
INTRO = (
    "How each model learned, epoch by epoch: on the training pictures, and on validation pictures "
    "that it never trains on. Point at a plot for its numbers. A run that is being written now "
    "grows here by itself."
)
EPOCHS, MINUTES = "Epochs", "Minutes"
MODELS, ALL = "Models of this page", "All runs"
LINEAR, LOG = "Linear", "Logarithmic"


@dataclass(frozen=True)
class Plot:
    """One of the plots: its axis, and the columns of a run that it draws."""

    title: str
    unit: str
    columns: tuple[tuple[str, Callable[[Run], Sequence[float]]], ...]
    form: str = ".4g"
    log: bool = False  # whether the logarithmic scale is for it
    zero: bool = False


def _column(field: str, scale: float = 1) -> Callable[[Run], list[float]]:
    return lambda run: [scale * record[field] for record in run.history]


VALIDATION, TRAINING = "validation", "training"
PLOTS = (
    Plot(
        "Loss",
        "loss",
        ((VALIDATION, _column("val_loss")), (TRAINING, _column("train_loss"))),
        log=True,
    ),
    Plot(
        "Accuracy",
        "%",
        ((VALIDATION, _column("val_accuracy", 100)), (TRAINING, _column("train_accuracy", 100))),
        form=".2f",
    ),
    Plot(
        "Generalisation gap: training minus validation accuracy",
        "points",
        (("gap", gap),),
        form="+.2f",
        zero=True,
    ),
    Plot(
        "Learning rate at the epoch's end",
        "learning rate",
        (("learning rate", _column("learning_rate")),),
        log=True,
    ),
    Plot("Time of an epoch", "seconds", (("seconds", _column("epoch_seconds")),), form=".1f"),
)
TABLE = (
    "Run",
    "Million parameters",
    "Epochs",
    "Validation accuracy %",
    "Test accuracy %",
    "Minutes",
    "Images/s",
    "Trained on",
)


@dataclass(frozen=True)
class View:
    """How the curves are drawn: weight of the smoothing, scale of y, axis of x."""

    smoothing: float = 0.0
    log: bool = False
    by_minutes: bool = False


def build(
    tab: gr.Tab,
    *,
    runs: Callable[[], tuple[list[Run], list[str]]],
    ablations: Callable[[list[Run]], dict[str, list[str]]],
    report: Callable[[list[Run]], str],
) -> None:
    """Lay out and wire the tab.

    `runs` reads the run folders, `ablations` finds those that belong together, `report` makes one
    HTML of some.
    """
    gr.Markdown(INTRO)
    found = runs()[0]
    values = [run.name for run in found]
    chosen = gr.CheckboxGroup(values, value=first_choice(found), label="Runs", elem_id="runs")
    at_once = PickHTML(elem_id="runs-at-once")
    with gr.Row():
        smoothing = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label="Smoothing",
            info="weight of the epochs before; the true values stay visible, faintly",
            min_width=260,
            elem_id="smoothing",
        )
        scale = gr.Radio([LINEAR, LOG], value=LINEAR, label="Loss and rate", min_width=200)
        axis = gr.Radio([EPOCHS, MINUTES], value=EPOCHS, label="Along the axis", min_width=200)
    known = gr.State(values)  # names this user has seen, so that a new run appears chosen
    stamp = gr.State(None)  # what the curves were drawn from
    plots = gr.HTML(elem_id="plots", apply_default_css=False)
    words = gr.HTML(elem_id="learning", apply_default_css=False)
    table = gr.Dataframe(
        headers=list(TABLE), interactive=False, label="Final figures", elem_id="final"
    )
    numbers = gr.HTML(elem_id="epochs", apply_default_css=False)
    timer = gr.Timer(SECONDS, active=False)

    def refresh(selected, seen, drawn, smoothing, scale, axis):
        found = runs()[0]
        names = [run.name for run in found]
        begun = first_choice(found)
        selected = [n for n in names if n in selected or (n in begun and n not in seen)]
        view = View(float(smoothing), scale == LOG, axis == MINUTES)
        now = [*signature(found, selected), view]
        if now == drawn:
            return gr.skip()
        shown = [run for run in found if run.name in selected]
        # Boxes are touched only for a run that came or went: an answer must not undo a later click.
        boxes = gr.update(choices=names, value=selected)
        return (
            boxes if names != seen else gr.skip(),
            groups_html(groups(found, ablations(found)), selected),
            names,
            now,
            plots_html(found, shown, view),
            words_html(shown),
            final_figures(shown),
            epochs_html(shown),
        )

    def write_report(folder, selected):
        path = folder / "vitdemo-report.html"
        chosen_runs = [run for run in runs()[0] if run.name in selected]
        path.write_text(report(chosen_runs), encoding="utf-8")
        return str(path)

    title = "Report of these runs, as one HTML file"
    offer_download(title, "report", write_report, [chosen], LIGHT_QUEUE)
    event = {
        "fn": refresh,
        "inputs": [chosen, known, stamp, smoothing, scale, axis],
        "outputs": [chosen, at_once, known, stamp, plots, words, table, numbers],
        **QUIET,
    }

    def pick(event: gr.EventData):
        found = runs()[0]
        names = [run.name for run in found]
        group = groups(found, ablations(found)).get(event.pick)
        # With the choices, lest one that has just come be chosen and not offered.
        boxes = gr.skip() if group is None else gr.update(choices=names, value=group)
        return boxes, names

    # Not before the tab is opened for the first time: the page's own start has other work to do.
    opened = tab.select(**event)
    opened.then(lambda: gr.Timer(active=True), outputs=timer, **QUIET)
    timer.tick(**event)
    gr.on([chosen.input, smoothing.change, scale.input, axis.input], **event)
    at_once.pick(pick, outputs=[chosen, known], **QUIET).then(**event)


def first_choice(found: list[Run]) -> list[str]:
    """The runs that are drawn at first: the models that are here, and what is in training.

    Where there is neither, all are.
    """
    begun = [run for run in found if run.has_weights or not run.has_evaluation]
    return [run.name for run in begun or found]


def groups(found: list[Run], ablations: dict[str, list[str]]) -> dict[str, list[str]]:
    """What can be chosen at once, label -> runs; nothing where that is all of them anyway."""
    names, first = [run.name for run in found], first_choice(found)
    models = {MODELS: first} if first != names else {}
    known = models | {f"Ablation of {base}": group for base, group in ablations.items()}
    return known | {ALL: names} if known else {}


def groups_html(groups: dict[str, list[str]], selected: list[str]) -> str:
    buttons = (
        html.chip(label, label, len(names), pressed=set(names) == set(selected))
        for label, names in groups.items()
    )
    return html.chips("Runs to choose at once", buttons) if groups else ""


def plots_html(found: list[Run], shown: list[Run], view: View) -> str:
    """The plots of the runs `shown`, under one legend; or why there is nothing to draw."""
    drawn = [run for run in shown if run.history]
    if not drawn:
        return empty_words(found, shown)
    names = [run.name for run in drawn]
    pen, listed = pens(names, [run.name for run in found]), ", ".join(names)
    by = "minutes" if view.by_minutes else "epoch"
    cells = (
        f'<figure aria-label="{html.escape(f"{plot.title} of {listed}, by {by}")}">'
        f"<figcaption>{html.escape(plot.title)}</figcaption>{plot_svg(plot, drawn, pen, view)}"
        "</figure>"
        for plot in PLOTS
    )
    return legend_html(drawn, pen) + f'<div class="vd-plots">{"".join(cells)}</div>'


def plot_svg(plot: Plot, runs: list[Run], pen: dict[str, Pen], view: View) -> str:
    figure = curve_plot(
        curves(plot, runs, pen, view),
        plot.unit,
        x_label="minutes" if view.by_minutes else "epoch",
        log=plot.log and view.log,
        zero=plot.zero,
        marks=marks(runs, pen, view),
    )
    return hover_svg(figure, hovers(plot, runs, view))


def along(run: Run, view: View) -> list[float]:
    """Where the run's epochs lie on the x axis."""
    return minutes(run) if view.by_minutes else [record["epoch"] for record in run.history]


def curves(plot: Plot, runs: list[Run], pen: dict[str, Pen], view: View) -> list[Curve]:
    """Each run's columns; where they are smoothed, the true values faintly behind them."""
    found = []
    for run in runs:
        for name, column in plot.columns:
            own, training = pen[run.name], name == TRAINING
            x, y = along(run, view), column(run)
            if view.smoothing:
                found.append(own.curve(x, y, training=training, faint=True))
                y = smoothed(y, view.smoothing)
            found.append(own.curve(x, y, training=training))
    return found


def marks(runs: list[Run], pen: dict[str, Pen], view: View) -> list[Mark]:
    """Where the training of a run changed its manner, as far as it has come."""
    found = []
    for run in runs:
        epochs = [0, *(record["epoch"] for record in run.history)]
        start = run.seconds_before / 60 if view.by_minutes else 0
        for stage in stages(run):
            if 0 < stage.after < epochs[-1]:
                x = np.interp(stage.after, epochs, [start, *along(run, view)])
                found.append(Mark(float(x), pen[run.name].colour))
    return found


def hovers(plot: Plot, runs: list[Run], view: View) -> list[Hover]:
    """At every point of the x axis the values of all runs that have one there."""
    said: dict[float, list[str]] = {}
    for run in runs:
        values = [(name, column(run)) for name, column in plot.columns]
        for i, x in enumerate(along(run, view)):
            numbers = ", ".join(
                f"{name + ' ' if len(values) > 1 else ''}{column[i]:{plot.form}}"
                for name, column in values
            )
            epoch = f" (epoch {run.history[i]['epoch']})" if view.by_minutes else ""
            said.setdefault(x, []).append(f"{run.name}{epoch}: {numbers} {plot.unit}")
    unit = "minute" if view.by_minutes else "epoch"
    return [Hover(x, "\n".join([f"{unit} {x:.4g}", *said[x]])) for x in sorted(said)]


def signature(runs: list[Run], selected: list[str]) -> list:
    """Differs as soon as a curve or a figure of the tab would."""
    return [(run.name, run.stamp, run.name in selected) for run in runs]


def legend_html(runs: list[Run], pen: dict[str, Pen]) -> str:
    """Which line is which run, once for all plots."""
    items = (
        f"<span><strong>{html.escape(run.name)}</strong>"
        f'<i style="color: {pen[run.name].colour}"></i>{sign(pen[run.name])}validation'
        f'<i class="vd-dashed" style="color: {pen[run.name].lighter}"></i>training</span>'
        for run in runs
    )
    return f'<div class="vd-curves">{"".join(items)}</div>'


def sign(pen: Pen) -> str:
    return f'<b style="color: {pen.colour}">{pen.sign}</b>' if pen.sign else ""


def empty_words(found: list[Run], shown: list[Run]) -> str:
    if not found:
        return html.notice(
            "There is no run yet. Start one with `python train.py vit-small-cpu`: it appears here."
        )
    if not shown:
        return html.notice("Choose a run above to see its curves.")
    return html.notice("No epoch has ended yet: the first point of the curves comes with it.")


def words_html(runs: list[Run]) -> str:
    """Milestones, stages, and why training looks worse than validation where it does."""
    drawn = [run for run in runs if run.history]
    if not drawn:
        return ""
    title = "<h3>How long to a validation accuracy</h3>"
    return title + milestones_html(drawn) + stages_html(drawn) + "".join(map(why_html, drawn))


def milestones_html(runs: list[Run]) -> str:
    header = ("Run", *(f"{100 * share:.0f} %" for share in MILESTONES), "Best")
    rows = []
    for run in runs:
        known = {found.share: found for found in reached(run)}
        cells = [
            f"epoch {known[share].epoch}, {known[share].minutes:.1f} min" if share in known else "–"
            for share in MILESTONES
        ]
        best = max(record["val_accuracy"] for record in run.history)
        rows.append((run.name, *cells, f"{100 * best:.2f} %"))
    return html.table(header, rows)


def stages_html(runs: list[Run]) -> str:
    """What the dotted lines are."""
    items = [
        f"<li><strong>{html.escape(run.name)}</strong>, {stage.when}: "
        f"{html.escape(stage.words)}.</li>"
        for run in runs
        for stage in stages(run)
    ]
    if not items:
        return ""
    return f"<h3>Dotted lines: stages of a training</h3><ul>{''.join(items)}</ul>"


def why_html(run: Run) -> str:
    below = below_validation(run)
    if not below:
        return ""
    items = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons(run))
    return (
        f"<details><summary>{html.escape(run.name)}: training is below validation in {below} of "
        f"{len(run.history)} epochs. Why?</summary><ul>{items}</ul></details>"
    )


def final_figures(runs: list[Run]) -> pd.DataFrame:
    """One row a run, from its files alone; a figure that is not there yet is a dash."""
    return pd.DataFrame([_figures_of(run) for run in runs], columns=list(TABLE))


def epochs_html(runs: list[Run]) -> str:
    """The numbers behind the curves: a table that unfolds, and the same as CSV."""
    header = ("run", *RECORD_FIELDS)
    rows = [
        (run.name, *(record[f] for f in RECORD_FIELDS)) for run in runs for record in run.history
    ]
    if not rows:
        return ""
    return (
        '<details class="vd-numbers"><summary>Every epoch in numbers</summary>'
        + html.table(header, [tuple(map(_short, row)) for row in rows])
        + f"<p>{html.csv_link(header, rows, 'vitdemo-epochs.csv')}</p></details>"
    )


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figures_of(run: Run) -> tuple:
    last, used = run.history[-1] if run.history else None, record_of_weights(run)
    test = final_accuracy(run)
    dash = "–"
    return (
        run.name,
        f"{run.config['parameters'] / 1e6:.2f}" if "parameters" in run.config else dash,
        last["epoch"] if last else 0,
        f"{100 * used['val_accuracy']:.2f}" if used else dash,
        f"{100 * test:.2f}" if test is not None else dash,
        f"{run.train_seconds / 60:.1f}" if last else dash,
        f"{last['images_per_second']:.0f}" if last else dash,
        run.device or dash,
    )
