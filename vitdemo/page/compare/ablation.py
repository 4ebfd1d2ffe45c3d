"""Ablation section of the Compare models tab: the effect of each change to the recipe."""

from collections.abc import Callable

import gradio as gr

from vitdemo import figures
from vitdemo.errors import VitdemoError
from vitdemo.figures import charts
from vitdemo.metrics.paired import SIGNIFICANT
from vitdemo.metrics.recipe_ablation import Ablation, ablation_of, ablations, conclusion, gain_rows
from vitdemo.page.compare.models import model_rows
from vitdemo.page.components.article import Article, Figure, Folded, Notice, Piece, Plots, Text
from vitdemo.page.components.run_choice import RunChoice, grouped
from vitdemo.page.components.table import Column, Table
from vitdemo.page.kit import QUIET
from vitdemo.page.sections import Sections
from vitdemo.predictions import predictions
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

INTRO = (
    "## Ablation: the effect of each change to the recipe\nEvery run is compared with one "
    "baseline: which settings differ, and by how much the accuracy on the same test images changes."
)
WORDS = {
    "Gain, points": "Test accuracy minus the baseline's (first row), in percentage points. If "
    "several settings differ, this is their combined effect. Each row was trained with one seed.",
    "95% interval": "Confidence interval of the gain over test images. It does not include the "
    "variation between random seeds. For that, see the rows in which only the seed differs.",
    "p (Holm)": "p-value of McNemar's test on the images that only one of the two models "
    "classifies correctly, corrected for the {count} comparisons shown here. A value below "
    f"{SIGNIFICANT:g} means that the difference is significant on these test images.",
    "Validation gain": "Validation accuracy minus the baseline's, in percentage points. The rows "
    "are sorted by it. Choose changes to a recipe by this value, not by test accuracy.",
    "What differs": "Training settings that differ from the baseline: the value of the baseline, "
    "then the value of this run.",
}
LAST = "What differs"
# The tables above still grow after the jump, so the scroll position is corrected for three seconds,
# unless the user scrolls or clicks.
SHOW = """() => {
  const show = () => document.querySelector("#gains-base")?.scrollIntoView({ block: "start" });
  const growing = new ResizeObserver(show);
  const moves = ["wheel", "touchstart", "pointerdown", "keydown"];
  const leave = () => {
    growing.disconnect();
    moves.forEach(move => removeEventListener(move, leave));
  };
  growing.observe(document.querySelector(".gradio-container"));
  moves.forEach(move => addEventListener(move, leave));
  setTimeout(leave, 3000);
}"""
SIGNS = (
    f"● better, ■ worse, ○ not significant on these test images (p (Holm) is not below "
    f"{SIGNIFICANT:g})."
)
SEEDS = (
    "◆ gain of the same change with another seed. Grey band: 95% range of the difference between "
    "two baseline runs that differ only in the seed (Student's t)."
)
NOTHING = "No run has been evaluated yet, so there is nothing to compare."
OTHERS = "Other runs: several settings differ, or training failed ({count})"
ALONE = "No other run was evaluated on the same images."


def ablation(workbench: Workbench, name: str) -> Ablation:
    """Compare all comparable runs with `name`. Raises `RunError` if it has no valid evaluation."""
    base, group = workbench.run(name), predictions(workbench, name)
    others = [run for run in group.runs if run.name != name]
    return workbench.cache.of(ablation_of, base, others, group.left_out)


def bases(workbench: Workbench) -> list[Run]:
    """Return the evaluated runs in the order in which the page offers them as baselines.

    The baselines of `ablations` come first, in its order. The others follow by rising accuracy.
    """
    tested = workbench.evaluated_runs()
    found = {run.name: run for run in tested}
    places = {name: i for i, name in enumerate(workbench.cache.of(ablations, tested))}
    plainest = [found[row.name] for row in reversed(model_rows(workbench)) if row.tested]
    return sorted(plainest, key=lambda run: places.get(run.name, len(places)))


def build(tab: gr.Tab, sections: Sections, workbench: Workbench, asked: Callable) -> None:
    """Build the section of `tab`; `asked` listens to the event that opens it."""
    gr.Markdown(INTRO)
    info = "the run that all others are compared with"
    base = RunChoice(label="Baseline", info=info, elem_id="gains-base")
    table = Article(elem_id="gains")

    def draw(name):
        offered = bases(workbench)
        names = [run.name for run in offered]
        if name not in names:
            name = names[0] if names else None
        update = gr.update(groups=grouped(offered), value=name or "")
        if name is None:
            return update, [Notice(NOTHING)] if workbench.runs()[0] else []  # the tab has a notice
        try:
            found = ablation(workbench, name)
        except VitdemoError as error:
            return update, [Notice(str(error))]
        sentences = [Text(sentence) for sentence in conclusion(found)]
        return update, [*sentences, *drawn(found), *gain_table(found)]

    def opened(event: gr.EventData):
        known = event.pick in [run.name for run in bases(workbench)]
        return gr.Tabs(selected=tab.id), gr.update(value=event.pick) if known else gr.skip()

    sections.add("", draw, [base], [base, table])
    # The section is drawn by the tab's own event, which fires when the tab opens.
    asked(opened, outputs=[tab.parent, base], **QUIET).then(None, js=SHOW, **QUIET)


def drawn(found: Ablation) -> list[Piece]:
    """Plot the accuracy gain of each change to the recipe."""
    if not found.near:
        return []
    title = (
        f"Gain in test accuracy compared with {found.base}, with 95% intervals, for each change to "
        "the recipe, sorted by validation gain"
    )
    words = f"{SIGNS} {SEEDS}" if found.repeats else SIGNS
    svg = figures.svg(charts.gain_plot(found))
    return [Plots([Figure(title, f"{title}; the table below has the values", svg, words=words)])]


def gain_table(found: Ablation) -> list[Piece]:
    """Return the table of gains and a notice for each run that cannot be compared.

    Runs that differ in several settings are in a second table, which is closed at first. If no run
    differs in one setting only, all runs are in the first table.
    """
    left_out = [Notice(sentence) for sentence in found.left_out]
    if not found.gains:
        return [Notice(ALONE), *left_out]
    header, (base, *rows) = gain_rows(found)
    words = {title: text.format(count=len(found.gains)) for title, text in WORDS.items()}
    columns = [Column(name, words.get(name, ""), numeric=name != LAST) for name in header]
    close = sum(gain.is_near or gain.is_repeat for gain in found.gains) or len(rows)
    table = Table(columns, [base, *rows[:close]], file=f"beside-{found.base}")
    far = Table(columns, rows[close:], file=f"others-beside-{found.base}")
    folded = [Folded(OTHERS.format(count=len(far.rows)), [far])] if far.rows else []
    return [table, *folded, *left_out]
