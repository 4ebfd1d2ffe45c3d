"""The section Compare models: plot and table of all models, latency, ablations, and robustness."""

import gradio as gr

from vitdemo.page.bridge import add_view
from vitdemo.page.feature import PageSetup, merge_features
from vitdemo.page.kit import NO_PROGRESS
from vitdemo.page.results.compare import (
    latency,
    model_scatter,
    models_table,
    published_results,
    recipe_ablation,
    robustness,
)

TABLE_TITLE = "Table of all models, latency and published results"
COMPARE_ABOUT = (
    "The plot shows one dot per tested run. Its vertical axis is a logit scale: equal steps "
    "multiply the ratio of correct to incorrect predictions by the same factor. Training times "
    "were measured on different devices, which may also have run other programs. Multiply-adds are "
    "counted for one forward pass. To compare two models, use the paired test in *Per-class "
    "metrics*: it is more sensitive than two intervals."
)
# Buttons that scroll to the lower parts of the section: title and element id.
PARTS = {
    "Effect of recipe changes": recipe_ablation.TITLE_ID,
    "Robustness to image changes": robustness.TITLE_ID,
}
JS_SCROLL = "() => document.querySelector('#{place}').scrollIntoView()"
TEST_SET_FEATURE = merge_features([model_scatter.FEATURE, models_table.FEATURE])
ORIGINAL_FEATURE = merge_features(
    part.FEATURE for part in (latency, published_results, recipe_ablation, robustness)
)


def build(setup: PageSetup) -> None:
    with gr.Row(elem_id="compare-parts", elem_classes="vd-filters"):
        for title, place in PARTS.items():
            part = gr.Button(title, size="sm")
            part.click(None, js=JS_SCROLL.format(place=place), **NO_PROGRESS)
    add_view(model_scatter.VIEW, elem_id="model-scatter")
    with gr.Accordion(TABLE_TITLE, open=False, elem_id="models-fold", elem_classes="vd-about"):
        add_view(models_table.VIEW, elem_id="models")
        add_view(latency.VIEW, elem_id="latency")
        add_view(published_results.VIEW, elem_id="reported")
    recipe_ablation.build(setup)
    robustness.build(setup)
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown("\n\n".join([COMPARE_ABOUT, robustness.ROBUSTNESS_INTRO]))
