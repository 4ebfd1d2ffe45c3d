"""The Training progress tab: curves of any runs side by side; a growing run updates by itself."""

import itertools
from collections.abc import Callable

import gradio as gr
import pandas as pd

from vitdemo.explorer import final_accuracy
from vitdemo.runs import RECORD_FIELDS, Run
from vitdemo.ui import html
from vitdemo.ui.components import QUIET, run_choices

SECONDS = 4  # between two looks at the run folders
INTRO = (
    "How each model learned, epoch by epoch: on the training pictures, and on validation pictures "
    "that it never trains on. A run that is being written now grows here by itself."
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
    chosen = gr.CheckboxGroup(run_choices(found), value=values, label="Runs", elem_id="runs")
    known = gr.State(values)  # names this user has seen, so that a new run appears chosen
    stamp = gr.State(None)  # what the curves were drawn from
    legend = gr.HTML(apply_default_css=False)
    with gr.Row():
        loss = _plot("Loss", "loss")
        accuracy = _plot("Accuracy", "accuracy %")
    with gr.Row():
        rate = _plot("Learning rate at the epoch's end", "learning rate")
        seconds = _plot("Time of an epoch", "seconds")
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
        return (
            gr.update(choices=run_choices(found), value=selected),
            names,
            now,
            legend_html(shown) if any(run.history for run in shown) else empty_words(found, shown),
            *[_update(frame, shown) for frame in curves(shown)],
            final_figures(shown),
            epochs_html(shown),
        )

    event = {
        "fn": refresh,
        "inputs": [chosen, known, stamp],
        "outputs": [chosen, known, stamp, legend, loss, accuracy, rate, seconds, table, numbers],
        **QUIET,
    }
    page.load(**event)
    timer.tick(**event)
    chosen.input(**event)


def _plot(label: str, y_title: str) -> gr.LinePlot:
    return gr.LinePlot(
        x="epoch",
        y="value",
        color="curve",
        label=label,
        x_title="epoch",
        y_title=y_title,
        color_title=" ",
        height=280,
        elem_classes="vd-plot",
    )


def _update(frame: pd.DataFrame, runs: list[Run]) -> gr.LinePlot:
    return gr.LinePlot(value=frame, color_map=colours(runs))


def colours(runs: list[Run]) -> dict[str, str]:
    """Curve name -> colour; a run keeps one hue in every plot."""
    chosen = {}
    for run, (strong, light) in zip(runs, itertools.cycle(COLOURS), strict=False):
        names = {run.name: strong, f"{run.name}, validation": strong}
        chosen |= names | {f"{run.name}, training": light}
    return chosen


def signature(runs: list[Run], selected: list[str]) -> list:
    """Differs as soon as a curve or a figure of the tab would."""
    return [(run.name, run.stamp, run.name in selected) for run in runs]


def legend_html(runs: list[Run]) -> str:
    """Which colour is which run, once for all four plots."""
    swatch = '<i style="background: {}"></i>{}'
    items = (
        f"<span><strong>{html.escape(run.name)}</strong>"
        + swatch.format(strong, "validation")
        + swatch.format(light, "training")
        + "</span>"
        for run, (strong, light) in zip(runs, itertools.cycle(COLOURS), strict=False)
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


def curves(runs: list[Run]) -> tuple[pd.DataFrame, ...]:
    """Long tables (epoch, value, curve) of loss, accuracy, learning rate and seconds an epoch."""
    return (
        _long(runs, {"training": "train_loss", "validation": "val_loss"}),
        _long(runs, {"training": "train_accuracy", "validation": "val_accuracy"}, scale=100),
        _long(runs, {"": "learning_rate"}),
        _long(runs, {"": "epoch_seconds"}),
    )


def _long(runs: list[Run], fields: dict[str, str], scale: float = 1.0) -> pd.DataFrame:
    rows = [
        (record["epoch"], scale * record[field], f"{run.name}, {part}" if part else run.name)
        for run in runs
        for part, field in fields.items()
        for record in run.history
    ]
    return pd.DataFrame(rows, columns=["epoch", "value", "curve"])


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
