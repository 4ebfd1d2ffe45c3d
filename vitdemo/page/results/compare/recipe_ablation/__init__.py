"""The ablation: the effect of each change to the training recipe."""

import gradio as gr
from gradio.components import Component

from vitdemo import figures
from vitdemo.analyses.model_rows import model_rows
from vitdemo.analyses.predictions import comparable_predictions
from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.figures import charts
from vitdemo.metrics.paired import SIGNIFICANCE_THRESHOLD
from vitdemo.metrics.recipe_ablation import (
    RecipeAblation,
    ablation_table,
    compute_ablation,
    find_ablations,
    summarise_ablation,
)
from vitdemo.page.bridge import ViewData, ViewState, add_view, document_payload
from vitdemo.page.components.article import (
    Details,
    DocumentBlock,
    Figure,
    Notice,
    Plots,
    Text,
)
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.page.components.table import Column, Table
from vitdemo.runs import Run

VIEW = "recipe_ablation"
BASE = "compare.base"  # state key
PLOT_WIDTH = 11  # inches
SUMMARY_TITLE = "Summary of all gains"
GAIN_TABLE_TITLE = "Table of all gains"
ABLATION_TITLE = "## Ablation: the effect of each change to the recipe"
GAIN_COLUMN_HELP = {
    "Gain, points": "Test accuracy minus the baseline's (first row), in percentage points, with "
    "one seed per row. If several settings differ, the gain is their combined "
    "effect.",
    "95% interval": "Confidence interval of the gain over test images. For the variation between "
    "random seeds, see the rows in which only the seed differs.",
    "p (Holm)": "p-value of McNemar's test on the images that only one of the two models "
    "classifies correctly, corrected for the {count} comparisons shown here. A value below "
    f"{SIGNIFICANCE_THRESHOLD:g} means that the difference is significant on these test images.",
    "Validation gain": "Validation accuracy minus the baseline's, in percentage points. The rows "
    "are sorted by this value. Use it, not test accuracy, to choose changes to a recipe.",
    "Changed settings": "Training settings that differ from the baseline: the value of the "
    "baseline, then the value of this run.",
}
DIFFERENCES_COLUMN = "Changed settings"
MARKER_LEGEND = (
    "● better or ■ worse than the baseline, ○ not significant on these test images (p (Holm) is "
    f"not below {SIGNIFICANCE_THRESHOLD:g})."
)
SEED_MARKER_LEGEND = (
    "◆ gain of the same change with another seed. Grey band: 95% range of the difference between "
    "two baseline runs that differ only in the seed (Student's t)."
)
NO_COMPARISON_MESSAGE = (
    "No run has been evaluated yet. To evaluate a run, use `python train.py evaluate runs/NAME`."
)
OTHER_RUNS_TITLE = "Other runs: several settings differ, or training failed ({count})"
NO_OTHER_RUN_MESSAGE = "No other run was evaluated on the same images. Choose another baseline."


def build(context: AppContext, controls: dict[str, Component]) -> None:
    """Lay out the section, and add its menu to `controls`."""
    gr.Markdown(ABLATION_TITLE)
    # Before the first payload, only the configurations of the runs are read.
    tested = context.evaluated_runs()
    first = next(iter(find_ablations(tested)), "")
    controls[BASE] = RunChoice(group_runs(tested), first, label="Baseline", elem_id="gains-base")
    add_view(VIEW, elem_id="gains")


def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the document of the ablation, and the baselines to choose from."""
    offered = list_baselines(context)
    names = [run.name for run in offered]
    name = state.read_choice(BASE, names, names[0] if names else "")
    return ViewData(
        document_payload(ablation_blocks(context, name)),
        {BASE: {"props": {"groups": group_runs(offered)}, "value": name}},
    )


def ablation_blocks(context: AppContext, name: str) -> list[DocumentBlock]:
    """Compare all comparable runs with the run `name`; "" if no run was evaluated."""
    if not name:  # without runs, the table of models already shows a notice
        return [Notice(NO_COMPARISON_MESSAGE)] if context.list_runs()[0] else []
    try:
        found = compute_run_ablation(context, name)
    except VitdemoError as error:
        return [Notice(str(error))]
    sentences = [Text(sentence) for sentence in summarise_ablation(found)]
    summary = [Details(SUMMARY_TITLE, sentences)] if found.single_changes else sentences
    return [*gain_plot_blocks(found), *summary, *gain_table_blocks(found)]


def compute_run_ablation(context: AppContext, name: str) -> RecipeAblation:
    """Compare all comparable runs with `name`. Raises `RunError` if it has no valid evaluation."""
    base, group = context.find_run(name), comparable_predictions(context, name)
    others = [run for run in group.runs if run.name != name]
    return context.cache.call(compute_ablation, base, others, group.exclusion_messages)


def list_baselines(context: AppContext) -> list[Run]:
    """Return the evaluated runs in the order of the menu of baselines.

    The baselines of `find_ablations` come first, in the same order. The other runs follow, lowest
    accuracy first, and at the end the runs with an accuracy close to chance.
    """
    tested = context.evaluated_runs()
    found = {run.name: run for run in tested}
    places = {name: i for i, name in enumerate(context.cache.call(find_ablations, tested))}
    rows = [row for row in reversed(model_rows(context)) if row.evaluation]
    rows.sort(key=lambda row: (row.is_at_chance, places.get(row.name, len(places))))
    return [found[row.name] for row in rows]


def gain_plot_blocks(found: RecipeAblation) -> list[DocumentBlock]:
    """Plot the accuracy gain of each change to the recipe."""
    if not found.single_changes:
        return []
    title = (
        f"Gain in test accuracy compared with {found.baseline}, with 95% intervals, for each "
        "change to "
        "the recipe, sorted by validation gain"
    )
    words = f"{MARKER_LEGEND} {SEED_MARKER_LEGEND}" if found.seed_repeats else MARKER_LEGEND
    svg = figures.figure_to_svg(charts.plot_gains(found, PLOT_WIDTH))
    return [Plots([Figure(title, f"{title}; the table below has the values", svg, words=words)])]


def gain_table_blocks(found: RecipeAblation) -> list[DocumentBlock]:
    """Return the table of gains and a notice for each run that cannot be compared.

    The table is closed at first if there is a plot.
    Runs that differ in several settings are in a second table, which is closed at first. If no run
    differs in only one setting, all runs are in the first table.
    """
    left_out = [Notice(sentence) for sentence in found.exclusion_messages]
    if not found.gains:
        return [Notice(NO_OTHER_RUN_MESSAGE), *left_out]
    header, (base, *rows) = ablation_table(found)
    words = {title: text.format(count=len(found.gains)) for title, text in GAIN_COLUMN_HELP.items()}
    columns = [
        Column(name, words.get(name, ""), numeric=name != DIFFERENCES_COLUMN) for name in header
    ]
    close = sum(gain.is_single_change or gain.is_seed_only for gain in found.gains) or len(rows)
    table = Table(columns, [base, *rows[:close]], file=f"beside-{found.baseline}")
    far = Table(columns, rows[close:], file=f"others-beside-{found.baseline}")
    folded = [Details(OTHER_RUNS_TITLE.format(count=len(far.rows)), [far])] if far.rows else []
    own = [Details(GAIN_TABLE_TITLE, [table])] if found.single_changes else [table]
    return [*own, *folded, *left_out]
