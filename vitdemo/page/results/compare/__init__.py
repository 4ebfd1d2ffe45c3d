"""The section Compare models: table of all runs with latency, ablations, and robustness."""

import gradio as gr
from gradio.components import Component

from vitdemo.context import AppContext
from vitdemo.page.results.compare import (
    latency,
    models_table,
    published_results,
    recipe_ablation,
    robustness,
)

COMPARE_INTRO = (
    "All models in one table: cost, accuracy with confidence interval, calibration, and latency "
    "on this machine."
)
FEATURES = (models_table, latency, published_results, recipe_ablation, robustness)
PAYLOADS = {feature.VIEW: feature.payload for feature in FEATURES}
TASKS = {**latency.TASKS, **robustness.TASKS}


def build(context: AppContext, controls: dict[str, Component]) -> None:
    """Lay out the tab, whose views the browser draws, and add its controls to `controls`."""
    gr.Markdown(COMPARE_INTRO)
    models_table.build()
    published_results.build()
    latency.build()
    recipe_ablation.build(context, controls)
    robustness.build(context, controls)
