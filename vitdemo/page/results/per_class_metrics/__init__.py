"""The section Per-class metrics: class metrics, curves, calibration, and a paired test."""

import gradio as gr

from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.feature import PageSetup, merge_features
from vitdemo.page.results.per_class_metrics import calibration, classes, curves, pair

FEATURE = merge_features(part.FEATURE for part in (classes, pair, curves, calibration))


def build(setup: PageSetup) -> None:
    add_view(pair.VIEW, elem_id="paired-test")  # empty without a second model
    add_view(classes.VIEW, elem_id="per-class")
    gr.Markdown("## ROC and precision-recall curves")
    with gr.Row(elem_classes="vd-filters"):
        setup.controls.add(
            keys.CURVE_CLASSES,
            gr.Dropdown,
            [],
            value=[],
            multiselect=True,
            max_choices=keys.MAX_CURVE_CLASSES,
        )
    add_view(curves.VIEW, elem_id="ranking")
    gr.Markdown("## Calibration")
    add_view(calibration.VIEW, elem_id="calibration")
