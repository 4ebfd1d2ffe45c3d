"""The Per-class metrics tab: how well a model knows each class, and which of two is better."""

from collections.abc import Callable

import gradio as gr

from vitdemo.errors import VitdemoError
from vitdemo.explorer.metrics import ClassTable, PairedTest, Ranking
from vitdemo.page import html
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.kit import QUIET
from vitdemo.page.metrics import curves, tables
from vitdemo.runs import Run

CLASS_ORDER, WORST_FIRST = "Class order", "Worst F1 first"
NOBODY = "no other model"
INTRO = (
    "How well a model knows each class, on test pictures it was not trained on. They are but a "
    "sample of all such pictures: below precision, recall and F1 stands the **95 % interval**, and "
    "of 20 intervals made like this, 19 hold the number for all of them. Those of average "
    "precision and ROC-AUC stand with the curves. What another seed of the training would change "
    "is not in them. Of CIFAR-10's test pictures 3.25 % have a near-duplicate among the training "
    "pictures (Barz & Denzler 2020)."
)
CURVES = (
    "## ROC and precision-recall curves\nA model gives every picture a probability of *cat*. Call "
    "those cats that have at least 50 %, or only those above 90 %: each threshold finds more or "
    "fewer of the cats, and takes more or fewer others for cats. The curves show all thresholds."
)
NOTHING = (
    "No run has been evaluated yet: a training does it at its end, and "
    "`python train.py evaluate runs/NAME` does it again."
)


def build(
    tab: gr.Tab,
    *,
    evaluated_runs: Callable[[], list[Run]],
    class_table: Callable[[str], ClassTable],
    paired_test: Callable[[str, str], PairedTest],
    ranking: Callable[[str, str], Ranking],
) -> None:
    """Lay out and wire the tab, which draws when it is opened.

    `evaluated_runs` reads the run folders as they are now; the others take names of runs.
    """
    gr.Markdown(INTRO)
    with gr.Row():
        tested = grouped(evaluated_runs())
        with gr.Column(min_width=260):
            model = RunChoice(tested, elem_id="metrics-model")
        with gr.Column(min_width=260):
            other = RunChoice(
                tested,
                label="Compare with",
                info="tests on the same pictures which of two is better",
                nobody=NOBODY,
                elem_id="metrics-other",
            )
        order = gr.Radio(
            [CLASS_ORDER, WORST_FIRST], value=CLASS_ORDER, label="Order", min_width=300
        )
    table = gr.HTML(elem_id="per-class", apply_default_css=False)
    pair = gr.HTML(elem_id="paired-test", apply_default_css=False)
    gr.Markdown(CURVES)
    classes = gr.Dropdown(
        [],
        value=[],
        multiselect=True,
        max_choices=curves.MOST,
        label="Classes",
        info=f"up to {curves.MOST}; at first the worst one",
        elem_id="curve-classes",
    )
    plots = gr.HTML(elem_id="ranking", apply_default_css=False)

    def show(name, other, order):
        """The table, and the two models beside each other."""
        if name is None:
            return html.notice(NOTHING), ""
        try:
            text = tables.metrics_html(class_table(name), order == WORST_FIRST)
        except VitdemoError as error:
            return html.notice(str(error)), ""
        return text, tables.paired_html(paired_test, name, other) if other else ""

    def draw(name, other, order, chosen):
        """All that another model changes: whom it can be compared with, and its classes."""
        found = evaluated_runs()
        model, name = renewed_runs(found, name)
        rest = [run for run in found if run.name != name]
        others, other = renewed_runs(rest, other, optional=True)
        return model, others, *show(name, other, order), classes_update(class_table, name, chosen)

    def draw_curves(name, other, chosen):
        names = [run for run in (name, other) if run]
        return curves.curves_html(ranking, names, chosen or [])

    settings = [model, other, order, classes]
    drawn = [model, other, table, pair, classes]
    drawing = {"fn": draw_curves, "inputs": [model, other, classes], "outputs": plots, **QUIET}
    # One event for the three, so that of quick clicks the last one is answered last.
    events = [tab.select, model.input, other.input]
    gr.on(events, draw, inputs=settings, outputs=drawn, **QUIET).then(**drawing)
    order.input(show, inputs=settings[:3], outputs=[table, pair], **QUIET)
    classes.input(**drawing)


def classes_update(
    class_table: Callable[[str], ClassTable], name: str | None, chosen: list[str] | None
) -> dict:
    """The run's classes that can be ranked, with those chosen before, or the worst one."""
    try:
        table = class_table(name) if name else None
    except VitdemoError:
        table = None
    if table is None:
        return gr.update(choices=[], value=[])
    tested = [c for c, n in zip(table.classes, table.support, strict=True) if n]
    kept = [c for c in chosen or [] if c in tested]
    if kept and kept == chosen:
        return gr.update(choices=tested)
    return gr.update(choices=tested, value=kept or [table.classes[table.worst_first[0]]])
