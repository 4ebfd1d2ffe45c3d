"""The section Per-class metrics: class metrics, curves, and a paired test of two models."""

import gradio as gr
from gradio.components import Component

from vitdemo.context import AppContext
from vitdemo.page.bridge import add_view
from vitdemo.page.results.per_class_metrics import classes, curves, pair

PAYLOADS = {part.VIEW: part.payload for part in (classes, pair, curves)}
TEXTS = {
    "plot": "Precision and recall of each class, lowest F1 first",
    "hint": "Choose a class to see its curves below. Lines: 95% confidence intervals.",
}


def build(context: AppContext, controls: dict[str, Component]) -> None:
    add_view(pair.VIEW, elem_id="paired-test")  # empty without a second model
    add_view(classes.VIEW, elem_id="per-class")
    gr.Markdown("## ROC and precision-recall curves")
    with gr.Row(elem_classes="vd-filters"):
        controls[curves.CLASSES] = gr.Dropdown(
            [],
            value=[],
            multiselect=True,
            max_choices=curves.MAX_CURVE_CLASSES,
            label=f"Classes (up to {curves.MAX_CURVE_CLASSES})",
            elem_id="curve-classes",
        )
    add_view(curves.VIEW, elem_id="ranking")
