"""The Results tab: test results of one model and comparisons, one folder per section."""

import gradio as gr

from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.page.feature import Feature, PageSetup, merge_features
from vitdemo.page.kit import NO_OTHER_MODEL_LABEL
from vitdemo.page.results import (
    compare,
    confusion_matrix,
    errors,
    per_class_metrics,
    test_set,
)

TAB_ID, TITLE = "results", "Results"  # the id is also the state key of the open section
SECTIONS = {  # section id, also a value of the URL parameter `tab` -> title and module
    "metrics": ("Per-class metrics", per_class_metrics),
    "confusion": ("Confusion matrix", confusion_matrix),
    "errors": ("Errors", errors),
    "compare": ("Compare models", compare),
}
ON_CHOSEN_TEST_SET = (
    *(per_class_metrics.FEATURE, confusion_matrix.FEATURE, errors.FEATURE),
    compare.TEST_SET_FEATURE,
)
FEATURE = merge_features(
    [*map(test_set.on_chosen_test_set, ON_CHOSEN_TEST_SET), compare.ORIGINAL_FEATURE]
)


def build(setup: PageSetup) -> Feature:
    """Lay out the tab. On a page that is not `local_only`, only its user sees a test set."""
    add_view("no_model", elem_id="no-results")
    groups = group_runs(setup.context.evaluated_runs())
    with gr.Row(elem_id="results-models", elem_classes="vd-filters"):
        setup.controls.add(keys.RESULTS_MODEL, RunChoice, groups, "")
        setup.controls.add(keys.OTHER_MODEL, RunChoice, groups, nobody=NO_OTHER_MODEL_LABEL)
        user_test_sets = test_set.build(setup)
        add_view("export_menu", elem_id="results-export")
    with gr.Tabs(elem_id="results-sections", overflow_behavior="wrap") as setup.sections[TAB_ID]:
        for name, (title, section) in SECTIONS.items():
            with gr.Tab(title, id=name):
                section.build(setup)
    return merge_features([FEATURE, user_test_sets])
