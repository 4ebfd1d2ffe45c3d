"""Attribution maps of a class: one module per method, all computed by one function, `attribute`.

An `AttributionMethod` describes its map, the map's limit and the supported models. `METHODS` lists
all methods by name. No method leaves a hook, a flag or a gradient on the model, so threads can
share the model. Integrated Gradients and occlusion explain the log-probability of the class, as the
faithfulness test does. Maps from attention and features use the gradient of the logit.

    attribute("relevance", model, images, target=3)  # (B, rows, columns)
"""

from vitdemo.explain.attributions.cells import cell_grid, cell_indices, sum_over_cells
from vitdemo.explain.attributions.compute import (
    attribute,
    attribute_many,
    compute_ranking_values,
    contrast_many,
)
from vitdemo.explain.attributions.integrated_gradients import MAX_COMPLETENESS_GAP, completeness_gap
from vitdemo.explain.attributions.method import ATTRIBUTION_BATCH_SIZE, AttributionMethod, OnStep
from vitdemo.explain.attributions.registry import METHODS, list_methods

__all__ = [
    "ATTRIBUTION_BATCH_SIZE",
    "MAX_COMPLETENESS_GAP",
    "METHODS",
    "AttributionMethod",
    "OnStep",
    "attribute",
    "attribute_many",
    "cell_grid",
    "cell_indices",
    "completeness_gap",
    "compute_ranking_values",
    "contrast_many",
    "list_methods",
    "sum_over_cells",
]
