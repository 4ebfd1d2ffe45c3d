"""Ablation: the effect of each change to a recipe, for the page, the report and a handout."""

from vitdemo import figures
from vitdemo.documents import Details, DocumentBlock, Figure, Notice, Plots, Text
from vitdemo.documents.table import Column, Table
from vitdemo.figures import charts
from vitdemo.metrics.paired import SIGNIFICANCE_THRESHOLD
from vitdemo.metrics.recipe_ablation import RecipeAblation, ablation_table, summarise_ablation
from vitdemo.report.comparison import P_VALUE_HELP

PLOT_WIDTH = 7.5  # inches
SUMMARY_TITLE = "Summary of all gains"
GAIN_TABLE_TITLE = "Table of all gains"
GAIN_COLUMN_HELP = {
    "Gain, points": "Test accuracy minus the baseline's (first row), in percentage points, with "
    "one seed per row. If several settings differ, the gain is their combined "
    "effect.",
    "95% interval": "Confidence interval of the gain over test images. For the variation between "
    "random seeds, see the rows in which only the seed differs.",
    "p (Holm)": P_VALUE_HELP,
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
OTHER_RUNS_TITLE = "Other runs: several settings differ, or training failed ({count})"
NO_OTHER_RUN_MESSAGE = "No other run was evaluated on the same images. Choose another baseline."


def ablation_blocks(ablation: RecipeAblation, width: float = PLOT_WIDTH) -> list[DocumentBlock]:
    """Return the plot, conclusions and tables of an ablation; `width` of the plot is in inches."""
    sentences = [Text(sentence) for sentence in summarise_ablation(ablation)]
    if not ablation.single_changes:
        return [*sentences, *gain_table_blocks(ablation)]
    plot = Plots([gain_figure(ablation, width)])
    return [plot, Details(SUMMARY_TITLE, sentences), *gain_table_blocks(ablation)]


def gain_figure(ablation: RecipeAblation, width: float = PLOT_WIDTH) -> Figure:
    """Plot the accuracy gain of each change to the recipe; `width` is in inches."""
    title = (
        f"Gain in test accuracy compared with {ablation.baseline}, with 95% intervals, for each "
        "change to the recipe, sorted by validation gain"
    )
    caption = f"{MARKER_LEGEND} {SEED_MARKER_LEGEND}" if ablation.seed_repeats else MARKER_LEGEND
    svg = figures.figure_to_svg(charts.plot_gains(ablation, width))
    return Figure(title, f"{title}; the table below contains the values", svg, caption=caption)


def gain_table_blocks(ablation: RecipeAblation) -> list[DocumentBlock]:
    """Return the table of gains and a notice for each run that cannot be compared.

    The table is initially folded if there is a plot. Runs that differ in several settings are in a
    second table, which is initially folded. If no run differs in only one setting, all runs are in
    the first table.
    """
    left_out = [Notice(sentence) for sentence in ablation.exclusion_messages]
    if not ablation.gains:
        return [Notice(NO_OTHER_RUN_MESSAGE), *left_out]
    header, (base, *rows) = ablation_table(ablation)
    columns = [
        Column(name, GAIN_COLUMN_HELP.get(name, ""), numeric=name != DIFFERENCES_COLUMN)
        for name in header
    ]
    close = sum(gain.is_single_change or gain.is_seed_only for gain in ablation.gains) or len(rows)
    table = Table(columns, [base, *rows[:close]], file=f"ablation-of-{ablation.baseline}")
    far = Table(columns, rows[close:], file=f"other-runs-than-{ablation.baseline}")
    folded = [Details(OTHER_RUNS_TITLE.format(count=len(far.rows)), [far])] if far.rows else []
    own = [Details(GAIN_TABLE_TITLE, [table])] if ablation.single_changes else [table]
    return [*own, *folded, *left_out]
