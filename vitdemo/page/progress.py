"""The Training progress tab: curves of any runs side by side; a growing run updates by itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gradio as gr
import numpy as np

from vitdemo.explorer.ingredients import ablations
from vitdemo.figures import Curve
from vitdemo.figures.curves import MANY, Hover, LineStyle, Mark, curve_plot, hover_svg, line_styles
from vitdemo.metrics.learning import (
    below_validation,
    gap,
    images_per_second,
    milestones,
    minutes,
    reached,
    reasons,
    record_of_weights,
    smoothed,
    stages,
)
from vitdemo.page import html
from vitdemo.page.components.run_choice import grouped
from vitdemo.page.components.run_list import RunList
from vitdemo.page.kit import LIGHT_QUEUE, QUIET, PickHTML, offer_download
from vitdemo.report import report, report_name
from vitdemo.runs import RECORD_FIELDS, Run
from vitdemo.workbench import final_accuracy

SECONDS = 4  # between two looks at the run folders
INTRO = (
    "How each model learned, epoch by epoch: on the training pictures, and on validation pictures "
    "that it never trains on. Point at a plot, or tap it, for its numbers. A run that is being "
    "written now grows here by itself."
)
EPOCHS, MINUTES = "Epochs", "Minutes"
LINEAR, LOG = "Linear", "Logarithmic"
PRIVATE = {"api_visibility": "private", "show_progress": "hidden"}
# The timer runs while the tab is seen, and not behind another one.
WATCH_WHILE_OPEN = """async () => {
  await new Promise((done) => setTimeout(done, 100));
  return { __type__: "update", active: Boolean(document.querySelector("#plots")?.offsetParent) };
}"""
SHOW_GAINS = """() => setTimeout(() =>
  document.querySelector("#gains-base")?.scrollIntoView({ block: "start" }), 300)"""


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
    "Test accuracy, %",
    "Validation accuracy, %",
    "Epochs",
    "Minutes",
    "Images/s, median epoch",
    "Parameters, million",
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
) -> None:
    """Lay out and wire the tab; `runs` reads the run folders."""
    gr.Markdown(INTRO)
    found = runs()[0]
    names = [run.name for run in found]
    chosen = RunList(grouped(found), first_choice(found), label="Runs", elem_id="runs")
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
    known = gr.State(names)  # names this user has seen, so that a new run appears chosen
    stamp = gr.State(None)  # what the curves were drawn from
    plots = gr.HTML(elem_id="plots", apply_default_css=False)
    words = PickHTML(elem_id="learning")
    table = gr.HTML(elem_id="final", apply_default_css=False)
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
        boxes = gr.update(groups=grouped(found), value=selected)
        return (
            boxes if names != seen else gr.skip(),
            names,
            now,
            plots_html(found, shown, view),
            words_html(shown, ablations(found)),
            final_html(shown),
            epochs_html(shown),
        )

    def write_report(folder, selected):
        found = runs()[0]
        shown = [run for run in found if run.name in selected]
        text = report(shown, order=[run.name for run in found])
        path = folder / report_name(shown)
        path.write_text(text, encoding="utf-8")
        return str(path)

    title = "Report of these runs, as one HTML file"
    offer_download(title, "report", write_report, [chosen], LIGHT_QUEUE)
    event = {
        "fn": refresh,
        "inputs": [chosen, known, stamp, smoothing, scale, axis],
        "outputs": [chosen, known, stamp, plots, words, table, numbers],
        **QUIET,
    }
    # Not before the tab is opened for the first time: the page's own start has other work to do.
    tab.select(**event)
    tab.parent.change(None, js=WATCH_WHILE_OPEN, outputs=timer, **PRIVATE)
    timer.tick(**event)
    gr.on([chosen.input, smoothing.change, scale.input, axis.input], **event)
    words.pick(lambda: gr.Tabs(selected="compare"), outputs=tab.parent, **QUIET).then(
        None, js=SHOW_GAINS, **PRIVATE
    )


def first_choice(found: list[Run]) -> list[str]:
    """The runs that are drawn at first: the models that are here, and what is in training.

    Where there is neither, all are.
    """
    begun = [run for run in found if run.has_weights or not run.has_evaluation]
    return [run.name for run in begun or found]


def plots_html(found: list[Run], shown: list[Run], view: View) -> str:
    """The plots of the runs `shown`, under one legend; or why there is nothing to draw."""
    drawn = [run for run in shown if run.history]
    if not drawn:
        return empty_words(found, shown)
    names = [run.name for run in drawn]
    styles, listed = line_styles(names, [run.name for run in found]), ", ".join(names)
    by = "minutes" if view.by_minutes else "epoch"
    cells = (
        f'<figure aria-label="{html.escape(f"{plot.title} of {listed}, by {by}")}">'
        f"<figcaption>{html.escape(plot.title)}</figcaption>{plot_svg(plot, drawn, styles, view)}"
        '<p class="vd-read" role="status"></p></figure>'
        for plot in PLOTS
    )
    last = len({x for run in drawn for x in along(run, view)}) - 1
    reader = (
        f'<label class="vd-reader">Read the curves at {by} <input type="range" min="0" '
        f'max="{last}" value="{last}"></label>'
    )
    return (
        f'<div class="vd-readable">{legend_html(drawn, styles)}{reader}'
        f'<div class="vd-plots">{"".join(cells)}</div></div>'
    )


def plot_svg(plot: Plot, runs: list[Run], styles: dict[str, LineStyle], view: View) -> str:
    figure = curve_plot(
        curves(plot, runs, styles, view),
        plot.unit,
        x_label="minutes" if view.by_minutes else "epoch",
        log=plot.log and view.log,
        zero=plot.zero,
        marks=marks(runs, styles, view),
    )
    return hover_svg(figure, hovers(plot, runs, view))


def along(run: Run, view: View) -> list[float]:
    """Where the run's epochs lie on the x axis."""
    return minutes(run) if view.by_minutes else [record["epoch"] for record in run.history]


def curves(plot: Plot, runs: list[Run], styles: dict[str, LineStyle], view: View) -> list[Curve]:
    """Each run's columns; where they are smoothed, the true values faintly behind them.

    Of more than `MANY` runs the training curves are left out.
    """
    found = []
    for run in runs:
        for name, column in plot.columns:
            own, training = styles[run.name], name == TRAINING
            if training and len(runs) > MANY:
                continue
            x, y = along(run, view), column(run)
            if view.smoothing:
                found.append(own.curve(x, y, training=training, faint=True))
                y = smoothed(y, view.smoothing)
            found.append(own.curve(x, y, training=training))
    return found


def marks(runs: list[Run], styles: dict[str, LineStyle], view: View) -> list[Mark]:
    """Where the training of a run changed its manner, as far as it has come."""
    found = []
    for run in runs:
        epochs = [0, *(record["epoch"] for record in run.history)]
        start = run.seconds_before / 60 if view.by_minutes else 0
        for stage in stages(run):
            if 0 < stage.after < epochs[-1]:
                x = np.interp(stage.after, epochs, [start, *along(run, view)])
                found.append(Mark(float(x), styles[run.name].colour))
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


def legend_html(runs: list[Run], styles: dict[str, LineStyle]) -> str:
    """Which line is which run, once for all plots."""
    many = len(runs) > MANY
    items = (
        f"<span><strong>{html.escape(run.name)}</strong>"
        f'<i style="color: {styles[run.name].colour}"></i>{sign(styles[run.name])}validation'
        + (
            ""
            if many
            else f'<i class="vd-dashed" style="color: {styles[run.name].lighter}"></i>training'
        )
        + "</span>"
        for run in runs
    )
    note = (
        f'<p class="vd-quiet">Of more than {MANY} runs the validation curves alone are drawn.</p>'
        if many
        else ""
    )
    return f'<div class="vd-curves">{"".join(items)}</div>{note}'


def sign(style: LineStyle) -> str:
    return f'<b style="color: {style.colour}">{style.sign}</b>' if style.sign else ""


def empty_words(found: list[Run], shown: list[Run]) -> str:
    if not found:
        return html.notice(
            "There is no run yet. Start one with `python train.py vit-small-cpu`: it appears here."
        )
    if not shown:
        return html.notice("Choose a run above to see its curves.")
    return html.notice("No epoch has ended yet: the first point of the curves comes with it.")


def words_html(runs: list[Run], groups: dict[str, list[str]]) -> str:
    """Milestones, where an ablation is summed up, stages, why training looks worse than validation.

    `groups` are the ablations there are: base -> names of its runs.
    """
    drawn = [run for run in runs if run.history]
    if not drawn:
        return ""
    title = "<h2>How long to a validation accuracy</h2>"
    return (
        title
        + milestones_html(drawn)
        + "".join(ablation_link(base, names, drawn) for base, names in groups.items())
        + stages_html(drawn)
        + "".join(map(why_html, drawn))
    )


def ablation_link(base: str, names: list[str], drawn: list[Run]) -> str:
    """The way to what each ingredient bought, where two runs or more of the ablation are drawn."""
    if len({run.name for run in drawn} & set(names)) < 2:
        return ""
    words = f"What each ingredient of the ablation of {base} bought"
    return (
        f'<p><button type="button" class="vd-link" data-pick="compare">{html.escape(words)}: see '
        "Compare models</button></p>"
    )


def milestones_html(runs: list[Run]) -> str:
    """When each run had reached what, the best of them first."""
    shares = milestones(runs)
    header = ("Run", *(f"{100 * share:.0f} %" for share in shares), "Best")
    rows = []
    for run in runs:
        known = {found.share: found for found in reached(run, shares)}
        cells = [
            f"epoch {known[share].epoch}, {known[share].minutes:.1f} min" if share in known else "–"
            for share in shares
        ]
        best = max(record["val_accuracy"] for record in run.history)
        rows.append((-best, (run.name, *cells, f"{100 * best:.2f} %")))
    return html.table(header, [row for _, row in sorted(rows)])


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
    return f"<h2>Dotted lines: stages of a training</h2><ul>{''.join(items)}</ul>"


def why_html(run: Run) -> str:
    below = below_validation(run)
    if not below:
        return ""
    items = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons(run))
    return (
        f"<details><summary>{html.escape(run.name)}: training accuracy is below validation "
        f"accuracy in {below} of {len(run.history)} epochs. Why?</summary><ul>{items}</ul>"
        "</details>"
    )


def final_html(runs: list[Run]) -> str:
    """One row a run, from its files alone; a figure that is not there yet is a dash."""
    return "<h2>Final figures</h2>" + html.table(TABLE, map(_figures_of, runs)) if runs else ""


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


def _figures_of(run: Run) -> tuple[str, ...]:
    used, test, speed = record_of_weights(run), final_accuracy(run), images_per_second(run)
    dash = "–"
    return (
        run.name,
        f"{100 * test:.2f}" if test is not None else dash,
        f"{100 * used['val_accuracy']:.2f}" if used else dash,
        str(run.history[-1]["epoch"]) if run.history else "0",
        f"{run.train_seconds / 60:.1f}" if run.history else dash,
        f"{speed:.0f}" if speed else dash,
        f"{run.config['parameters'] / 1e6:.2f}" if "parameters" in run.config else dash,
        run.device or dash,
    )
