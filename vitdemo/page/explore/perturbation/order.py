"""The orders in which the most attended patches are removed: a ranking by each map of Attention.

The maps are for the unchanged image and the token that the classifier reads. Token similarity is
not attention. If it is chosen, the order is a ranking by the map with the highest mean score. For a
model without attention, the only order is a ranking by an attribution map of the predicted class.
The payload contains the orders of all layers, so another map or layer needs no request:

    {"grid": [rows, columns], "first": key of the initial order, "title": title of a map without
     attention, "orders": {value of `MAP_SOURCE`: (L, P), the patches of `grid`}}

Letters: L layers, P patches of the grid of removable patches.
"""

from contextlib import suppress

import numpy as np
from PIL import Image
from torch import Tensor

from vitdemo.analyses.class_attribution import choose_first_map, list_fast_methods
from vitdemo.analyses.perturbation import (
    NORM_SOURCES,
    compute_maps_of_source,
    compute_ranked_map,
    patch_grid,
    rank_patches,
    select_matrices,
    sort_patches,
)
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain import norms
from vitdemo.explain.attention import classifier_map
from vitdemo.explain.attributions.method import AttributionInput
from vitdemo.models import has_attention
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_square
from vitdemo.page.explore.perturbation.image import parse_grid, read_grid
from vitdemo.page.feature import Feature
from vitdemo.page.graph import Graph, Numbers, Outputs, make_number_input, trace_crop
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "patch_order"


@needs(keys.IMAGE, keys.MODEL, keys.HEAD, keys.REMOVAL_GRID, keys.WANTS_NORMS)
def payload(context: AppContext, state: ViewState) -> dict:
    run, image = context.find_run(state.model), load_square(context, state.image)
    grid, title = read_grid(context, state), ""
    if context.count_layers(run):
        first, maps = choose_first_map(context, run)[0], compute_maps(context, state, run, image)
    else:
        method, values = compute_ranked_map(context, run, image)
        first, title, maps = method.name, method.title, {method.name: values[None]}
    orders = {source: rank_patches(values, grid).tolist() for source, values in maps.items()}
    return {"grid": list(grid), "first": first, "title": title, "orders": orders}


def compute_outputs(
    context: AppContext, run: Run, state: ViewState, crop: Tensor, head: Tensor
) -> Outputs:
    """Compute the orders for the image: see `page.graph`. Raises `VitdemoError`."""
    model = context.load_model(run)
    grid = parse_grid(state[keys.REMOVAL_GRID], lambda: patch_grid(context, run))
    if not has_attention(model):
        run.require_classes()
        method, images = list_fast_methods(context, run)[0], run.preprocessing(crop[None])
        subject = AttributionInput.create(model, images, model(images).argmax(1))
        values = (method.compute_ranking or method.compute)(subject).detach()
        return {f"orders.{method.name}": Numbers(sort_patches(values, grid))}
    trace = trace_crop(context, run, crop)
    products, sources = None, ["mean", "rollout", "head"]
    if state[keys.WANTS_NORMS]:
        with suppress(TypeError):  # as `compute_maps`
            products = norms.value_products(model, trace.tokens[:, None])[:, 0]
            sources += NORM_SOURCES
    layout = trace.num_prefix_tokens, trace.classifier_rows
    maps = {
        source: classifier_map(select_matrices(trace, source, head, products), *layout)
        for source in sources
    }
    return {
        f"orders.{source}": Numbers(sort_patches(values.unflatten(1, trace.grid), grid))
        for source, values in maps.items()
    }


GRAPH = Graph(compute_outputs, inputs=[make_number_input(keys.HEAD, keys.HEAD.start)])
FEATURE = Feature({VIEW: payload}, graphs={VIEW: GRAPH})


def compute_maps(
    context: AppContext, state: ViewState, run: Run, image: Image.Image
) -> dict[str, np.ndarray]:
    """Return the maps (L, rows, columns) by source, with the chosen head."""
    trace, head = context.trace_image(run, image), round(state[keys.HEAD])
    maps = {
        source: compute_maps_of_source(context, trace, source, head)
        for source in ("mean", "rollout", "head")
    }
    if state[keys.WANTS_NORMS]:  # the section Attention explains why a model has no such maps
        with suppress(RunError):
            for source in NORM_SOURCES:
                maps[source] = compute_maps_of_source(context, trace, source, head)
    return maps
