"""The Training progress tab: curves of any runs side by side; a growing run updates by itself."""

import itertools
from collections.abc import Callable

import gradio as gr
import pandas as pd

from vitdemo import figures
from vitdemo.explorer import final_accuracy
from vitdemo.runs import RECORD_FIELDS, Run
from vitdemo.ui import html
from vitdemo.ui.components import QUIET

SECONDS = 4  # between two looks at the run folders
INTRO = (
    "How each model learned, epoch by epoch: on the training pictures, and on validation pictures "
    "that it never trains on. Training figures are taken while the model still changes, on "
    "pictures that are shifted, mirrored or mixed to make them harder, so they may be worse than "
    "validation. A run that is being written now grows here by itself."
)
# Dark for validation, light for training; each at 2.9 : 1 or more on white and on the dark theme,
# and the hues differ for the colour-blind too.
COLOURS = (
    ("#0a78c2", "#4f95d8"),
    ("#c45f10", "#dd8034"),
    ("#17876a", "#2fa382"),
    ("#a2559a", "#c27db8"),
    ("#96740a", "#b08d24"),
    ("#64748b", "#8a98ac"),
)
# title, unit of the axis, factor, fields of a record
PLOTS = (
    ("Loss", "loss", 1, ("val_loss", "train_loss")),
    ("Accuracy", "%", 100, ("val_accuracy", "train_accuracy")),
    ("Learning rate at the epoch's end", "learning rate", 1, ("learning_rate",)),
    ("Time of an epoch", "seconds", 1, ("epoch_seconds",)),
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


def build(page: gr.Blocks, *, runs: Callable[[], tuple[list[Run], list[str]]]) -> None:
    """Lay out and wire the tab; `runs` reads the run folders as they are now."""
    gr.Markdown(INTRO)
    found = runs()[0]
    values = [run.name for run in found]
    chosen = gr.CheckboxGroup(values, value=values, label="Runs", elem_id="runs")
    known = gr.State(values)  # names this user has seen, so that a new run appears chosen
    stamp = gr.State(None)  # what the curves were drawn from
    plots = gr.HTML(elem_id="plots", apply_default_css=False)
    table = gr.Dataframe(
        headers=list(TABLE), interactive=False, label="Final figures", elem_id="final"
    )
    numbers = gr.HTML(elem_id="epochs", apply_default_css=False)
    timer = gr.Timer(SECONDS)

    def refresh(selected, seen, drawn):
        found = runs()[0]
        names = [run.name for run in found]
        selected = [n for n in names if n in selected or n not in seen]
        now = signature(found, selected)
        if now == drawn:
            return gr.skip()
        shown = [run for run in found if run.name in selected]
        # Boxes are touched only for a run that came or went: an answer must not undo a later click.
        boxes = gr.update(choices=names, value=selected)
        return (
            boxes if names != seen else gr.skip(),
            names,
            now,
            plots_html(found, shown),
            final_figures(shown),
            epochs_html(shown),
        )

    event = {
        "fn": refresh,
        "inputs": [chosen, known, stamp],
        "outputs": [chosen, known, stamp, plots, table, numbers],
        **QUIET,
    }
    page.load(**event)
    timer.tick(**event)
    chosen.input(**event)


def hues(found: list[Run]) -> dict[str, tuple[str, str]]:
    """Run name -> its colours for validation and training, whichever runs are chosen."""
    return dict(zip((run.name for run in found), itertools.cycle(COLOURS), strict=False))


def plots_html(found: list[Run], shown: list[Run]) -> str:
    """Four plots of the runs `shown`, under one legend; or why there is nothing to draw."""
    drawn = [run for run in shown if run.history]
    if not drawn:
        return empty_words(found, shown)
    hue, names = hues(found), ", ".join(run.name for run in drawn)
    figures_ = (
        (title, figures.epoch_plot(curves(drawn, hue, fields, scale), unit))
        for title, unit, scale, fields in PLOTS
    )
    cells = (
        f'<figure role="img" aria-label="{html.escape(f"{title} of {names}, by epoch")}">'
        f"<figcaption>{html.escape(title)}</figcaption>{figures.svg(figure)}</figure>"
        for title, figure in figures_
    )
    return legend_html(drawn, hue) + f'<div class="vd-plots">{"".join(cells)}</div>'


def curves(
    runs: list[Run], hue: dict[str, tuple[str, str]], fields: tuple[str, ...], scale: float
) -> list[figures.Curve]:
    """Each run's `fields`; what is measured on training pictures is dashed and lighter."""
    return [
        figures.Curve(
            [record["epoch"] for record in run.history],
            [scale * record[field] for record in run.history],
            hue[run.name][field.startswith("train")],
            dashed=field.startswith("train"),
        )
        for run in runs
        for field in fields
    ]


def signature(runs: list[Run], selected: list[str]) -> list:
    """Differs as soon as a curve or a figure of the tab would."""
    return [(run.name, run.stamp, run.name in selected) for run in runs]


def legend_html(runs: list[Run], hue: dict[str, tuple[str, str]]) -> str:
    """Which line is which run, once for all four plots."""
    items = (
        f"<span><strong>{html.escape(run.name)}</strong>"
        f'<i style="color: {hue[run.name][0]}"></i>validation'
        f'<i class="vd-dashed" style="color: {hue[run.name][1]}"></i>training</span>'
        for run in runs
    )
    return f'<div class="vd-curves">{"".join(items)}</div>'


def empty_words(found: list[Run], shown: list[Run]) -> str:
    if not found:
        return html.notice(
            "There is no run yet. Start one with `python train.py vit-small-cpu`: it appears here."
        )
    if not shown:
        return html.notice("Choose a run above to see its curves.")
    return html.notice("No epoch has ended yet: the first point of the curves comes with it.")


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
    last = run.history[-1] if run.history else None
    test = final_accuracy(run)
    dash = "–"
    return (
        run.name,
        f"{run.config['parameters'] / 1e6:.2f}" if "parameters" in run.config else dash,
        last["epoch"] if last else 0,
        f"{100 * last['val_accuracy']:.2f}" if last else dash,
        f"{100 * test:.2f}" if test is not None else dash,
        f"{sum(r['epoch_seconds'] for r in run.history) / 60:.1f}" if last else dash,
        f"{last['images_per_second']:.0f}" if last else dash,
        run.config.get("device", dash),
    )
