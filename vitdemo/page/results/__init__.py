"""The Results tab: test results of one model and comparisons, one folder per section."""

from collections.abc import Mapping

import gradio as gr

from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.page.feature import Feature, Payload, Task
from vitdemo.page.kit import NO_OTHER_MODEL_LABEL, Controls
from vitdemo.page.results import (
    calibration,
    compare,
    confusion_matrix,
    errors,
    per_class_metrics,
    test_set,
)

TAB = "results"  # id of the tab, and state key of its open section
SECTIONS = {  # section id, also a value of the URL parameter `tab` -> title and module
    "metrics": ("Per-class metrics", per_class_metrics),
    "confusion": ("Confusion matrix", confusion_matrix),
    "errors": ("Errors", errors),
    "calibration": ("Calibration", calibration),
    "compare": ("Compare models", compare),
}
# Views of the Compare section that do not depend on the chosen test set.
ORIGINAL_VIEWS = {feature.VIEW for feature in compare.FEATURES} - compare.TEST_SET_VIEWS
PAYLOADS: Mapping[str, Payload] = {
    name: payload if name in ORIGINAL_VIEWS else test_set.on_chosen_test_set(payload)
    for _, part in SECTIONS.values()
    for name, payload in part.PAYLOADS.items()
}
TASKS: Mapping[str, Task] = compare.TASKS


def build(context: AppContext, controls: Controls, *, local_only: bool) -> tuple[gr.Tabs, Feature]:
    """Lay out the tab, and add its controls to `controls`, by state key.

    Return the sections, and the functions for users' test sets. Unless the page is `local_only`, a
    test set is visible only to the user who added it.
    """
    add_view("no_model", elem_id="no-results")
    groups = group_runs(context.evaluated_runs())
    with gr.Row(elem_id="results-models", elem_classes="vd-filters"):
        controls.add(keys.RESULTS_MODEL, RunChoice, groups, "")
        controls.add(keys.OTHER_MODEL, RunChoice, groups, nobody=NO_OTHER_MODEL_LABEL)
        handlers = test_set.build(context, controls, for_all=local_only)
    with gr.Tabs(elem_id="results-sections", overflow_behavior="wrap") as sections:
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name):
                section.build(context, controls)
    return sections, handlers
