"""The section Per-class metrics: metrics of each class, and a paired test of two models."""

import gradio as gr
from gradio.components import Component

from vitdemo.context import AppContext
from vitdemo.page.bridge import add_view
from vitdemo.page.results.per_class_metrics import classes, curves, pair

PAYLOADS = {part.VIEW: part.payload for part in (classes, pair, curves)}
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


def build(context: AppContext, controls: dict[str, Component]) -> None:
    """Lay out the tab; add its menus to `controls`, by state key."""
    gr.Markdown(METRICS_INTRO)
    add_view(classes.VIEW, elem_id="per-class")
    add_view(pair.VIEW, elem_id="paired-test")
    gr.Markdown(RANKING_CURVES_INTRO)
    controls[curves.CLASSES] = gr.Dropdown(
        [],
        value=[],
        multiselect=True,
        max_choices=curves.MAX_CURVE_CLASSES,
        label="Classes",
        info=f"up to {curves.MAX_CURVE_CLASSES} classes (default: lowest F1)",
        elem_id="curve-classes",
    )
    add_view(curves.VIEW, elem_id="ranking")
