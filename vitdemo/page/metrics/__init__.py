"""The Per-class metrics tab: metrics of each class, and a paired test of two models."""

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.metrics.classification_report import compare_runs, compute_classification_report
from vitdemo.page.components.article import Document, DocumentBlock, Notice
from vitdemo.page.components.run_choice import RunChoice, group_runs, update_run_choices
from vitdemo.page.kit import REFRESH_EVENT
from vitdemo.page.metrics.classes import class_metrics_blocks
from vitdemo.page.metrics.curves import MAX_CURVE_CLASSES, ranking_blocks
from vitdemo.page.metrics.pair import paired_test_blocks

NO_OTHER_MODEL_LABEL = "no other model"
METRICS_INTRO = (
    "Metrics of each class on the test set, which the model was not trained on. The test set is "
    "only a sample, so precision, recall and F1 have a **95% confidence interval**: about 19 of 20 "
    "such intervals contain the true value. The intervals of average precision and ROC-AUC are "
    "next to the curves. The intervals do not include the variation between training seeds. "
    "3.25% of CIFAR-10's test images have a near-duplicate in the training set (Barz & Denzler "
    "2020)."
)
RANKING_CURVES_INTRO = (
    "## ROC and precision-recall curves\nThe model computes a probability of *cat* for every "
    "image. An image is classified as a cat if this probability reaches a threshold. A lower "
    "threshold finds more of the cats, but also classifies more other images as cats. Each curve "
    "shows all thresholds."
)
NO_EVALUATION_MESSAGE = (
    "No run has been evaluated yet. A training run is evaluated when it ends. To evaluate a run "
    "again, use `python train.py evaluate runs/NAME`."
)


def build(tab: gr.Tab, context: AppContext) -> None:
    """Lay out the tab, whose content is computed when the user opens it."""
    gr.Markdown(METRICS_INTRO)
    with gr.Row():
        tested = group_runs(context.evaluated_runs())
        with gr.Column(min_width=260):
            model = RunChoice(tested, elem_id="metrics-model")
        with gr.Column(min_width=260):
            other = RunChoice(
                tested,
                label="Compare with",
                info="tests whether the two models differ on the same images",
                nobody=NO_OTHER_MODEL_LABEL,
                elem_id="metrics-other",
            )
    table = Document(elem_id="per-class")
    pair = Document(elem_id="paired-test")
    gr.Markdown(RANKING_CURVES_INTRO)
    classes = gr.Dropdown(
        [],
        value=[],
        multiselect=True,
        max_choices=MAX_CURVE_CLASSES,
        label="Classes",
        info=f"up to {MAX_CURVE_CLASSES} classes (default: lowest F1)",
        elem_id="curve-classes",
    )
    plots = Document(elem_id="ranking")

    def draw(name, other, chosen):
        """Return updates of the menus, the table and the paired test for the chosen models."""
        found = context.evaluated_runs()
        model, name = update_run_choices(found, name)
        rest = [run for run in found if run.name != name]
        others, other = update_run_choices(rest, other, optional=True)
        update = update_class_choices(context, name, chosen)
        return model, others, *metrics_and_paired_test(context, name, other), update

    def draw_curves(name, other, chosen):
        return ranking_blocks(context, [run for run in (name, other) if run], chosen or [])

    settings = [model, other, classes]
    drawn = [model, other, table, pair, classes]
    drawing = {"fn": draw_curves, "inputs": settings, "outputs": plots, **REFRESH_EVENT}
    # The three inputs share one event: after several quick clicks, the last result stays.
    events = [tab.select, model.input, other.input]
    gr.on(events, draw, inputs=settings, outputs=drawn, **REFRESH_EVENT).then(**drawing)
    classes.input(**drawing)


def metrics_and_paired_test(
    context: AppContext, name: str | None, other: str | None
) -> tuple[list[DocumentBlock], list[DocumentBlock]]:
    """Return the metrics of the run `name`, and the paired test of `name` and `other`."""
    if name is None:
        return [Notice(NO_EVALUATION_MESSAGE)], []
    try:
        run = context.find_run(name)
        table = class_metrics_blocks(context.cache.call(compute_classification_report, run))
    except VitdemoError as error:
        return [Notice(str(error))], []
    if other is None:
        return table, []
    try:
        test = context.cache.call(compare_runs, run, context.find_run(other))
    except VitdemoError as error:
        return table, [Notice(str(error))]
    return table, paired_test_blocks(test)


def update_class_choices(context: AppContext, name: str | None, chosen: list[str] | None) -> dict:
    """Return an update of the class menu; without a valid choice, it selects the lowest F1."""
    try:
        table = (
            context.cache.call(compute_classification_report, context.find_run(name))
            if name
            else None
        )
    except VitdemoError:
        table = None
    if table is None:
        return gr.update(choices=[], value=[])
    tested = [c for c, n in zip(table.classes, table.support, strict=True) if n]
    kept = [c for c in chosen or [] if c in tested]
    if kept and kept == chosen:
        return gr.update(choices=tested)
    return gr.update(choices=tested, value=kept or [table.classes[table.worst_first[0]]])
