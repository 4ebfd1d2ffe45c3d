"""The Results tab: test results of one model and comparisons, one folder per section."""

from collections.abc import Mapping

import gradio as gr
from gradio.components import Component

from vitdemo.context import AppContext
from vitdemo.page.bridge import Payload, Task
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.page.kit import NO_OTHER_MODEL_LABEL
from vitdemo.page.results import (
    calibration,
    compare,
    confusion_matrix,
    errors,
    per_class_metrics,
)
from vitdemo.page.results.models import MODEL, OTHER_MODEL

TAB = "results"  # id of the tab, and state key of its open section
SECTIONS = {  # section id, also a value of the URL parameter `tab` -> title and module
    "metrics": ("Per-class metrics", per_class_metrics),
    "confusion": ("Confusion matrix", confusion_matrix),
    "errors": ("Errors", errors),
    "calibration": ("Calibration", calibration),
    "compare": ("Compare models", compare),
}
PAYLOADS: Mapping[str, Payload] = {
    name: payload for _, part in SECTIONS.values() for name, payload in part.PAYLOADS.items()
}
TASKS: Mapping[str, Task] = compare.TASKS


def build(context: AppContext, controls: dict[str, Component]) -> gr.Tabs:
    """Lay out the tab, and add its controls to `controls`, by state key. Return the sections."""
    groups = group_runs(context.evaluated_runs())
    with gr.Row(elem_id="results-models", elem_classes="vd-filters"):
        controls[MODEL] = RunChoice(groups, "", label="Model", elem_id="results-model")
        controls[OTHER_MODEL] = RunChoice(
            groups, label="Compare with", nobody=NO_OTHER_MODEL_LABEL, elem_id="results-other"
        )
    with gr.Tabs(elem_id="results-sections", overflow_behavior="wrap") as sections:
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name):
                section.build(context, controls)
    return sections
