"""What an ingredient buys: the runs beside one of them, setting by setting."""

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
    "## What an ingredient buys: the ablation\nEach run beside one of them: what differs in their "
    "recipes, and how many more of the same test pictures come out right."
)
WORDS = {
    "Gain, points": "Test accuracy minus that of the first row, in percentage points. Where "
    "several settings differ, it is the gain of all of them together. Each row is one seed.",
    "95% interval": "Of the gain, over test images. It does not include the variation between "
    "training seeds, which the rows that differ in the seed only show.",
    "p (Holm)": "McNemar's test on the pictures that one of the two alone gets right, corrected "
    f"for the {{count}} comparisons shown here. Below {SIGNIFICANT:g} the difference is "
    "significant on these test images.",
    "Validation gain": "The same on the validation pictures, in points: what an ingredient would "
    "be chosen by, and what the rows are ordered by. The test pictures choose nothing.",
    "What differs": "Every setting that decided the training and differs: as it is in the "
    "first row's run, then here.",
}
LAST = "What differs"
# The tables above grow for a while as they are drawn; who moves meanwhile is left where they are.
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
    "◆ the same gain with another seed. Grey band: differences between two runs of the first row's "
    "recipe that only the seed explains (95%, Student's t)."
)
NOTHING = "No run has been tested yet: nothing to compare."
OTHERS = "What differs in more, or has learnt nothing: {count} beside it"
ALONE = "No other run was tested on the same pictures."


def ablation(workbench: Workbench, name: str) -> Ablation:
    """All comparable runs beside `name`. Raises `RunError` without a sound evaluation of it."""
    base, group = workbench.run(name), predictions(workbench, name)
    others = [run for run in group.runs if run.name != name]
    return workbench.cache.of(ablation_of, base, others, group.left_out)


def bases(workbench: Workbench) -> list[Run]:
    """The tested runs in the order in which another may stand beside them.

    Bases of ablations come first, in the order of `ablations`; then the plainest run (the lowest
    accuracy).
    """
    tested = workbench.evaluated_runs()
    found = {run.name: run for run in tested}
    places = {name: i for i, name in enumerate(workbench.cache.of(ablations, tested))}
    plainest = [found[row.name] for row in reversed(model_rows(workbench)) if row.tested]
    return sorted(plainest, key=lambda run: places.get(run.name, len(places)))


def build(tab: gr.Tab, sections: Sections, workbench: Workbench, asked: Callable) -> None:
    """Lay out and wire the section of `tab`; `asked` listens to what opens it, see there."""
    gr.Markdown(INTRO)
    base = RunChoice(label="Beside", info="the run without the ingredient", elem_id="gains-base")
    table = Article(elem_id="gains")

    def draw(name):
        found = bases(workbench)
        names = [run.name for run in found]
        if name not in names:
            name = names[0] if names else None
        update = gr.update(groups=grouped(found), value=name or "")
        if name is None:
            return update, [Notice(NOTHING)] if workbench.runs()[0] else []  # the tab says so
        try:
            beside = ablation(workbench, name)
        except VitdemoError as error:
            return update, [Notice(str(error))]
        told = [Text(sentence) for sentence in conclusion(beside)]
        return update, [*told, *drawn(beside), *gain_table(beside)]

    def opened(event: gr.EventData):
        known = event.pick in [run.name for run in bases(workbench)]
        return gr.Tabs(selected=tab.id), gr.update(value=event.pick) if known else gr.skip()

    sections.add("", draw, [base], [base, table])
    # The tab draws it, as it opens.
    asked(opened, outputs=[tab.parent, base], **QUIET).then(None, js=SHOW, **QUIET)


def drawn(found: Ablation) -> list[Piece]:
    """What one ingredient bought; the numbers stand in the table below it."""
    if not found.near:
        return []
    title = (
        f"Gain in test accuracy beside {found.base}, with its 95% interval, by what differs: "
        "the best by validation first"
    )
    words = f"{SIGNS} {SEEDS}" if found.repeats else SIGNS
    svg = figures.svg(charts.gain_plot(found))
    return [Plots([Figure(title, f"{title}; its numbers are below", svg, words=words)])]


def gain_table(found: Ablation) -> list[Piece]:
    """The ingredients and other seeds beside the base, what the columns say, and who is left out.

    What is another training altogether is folded, where there is an ingredient.
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
