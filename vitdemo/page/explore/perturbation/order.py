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

from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.analyses.perturbation import (
    compute_maps_of_source,
    compute_ranked_map,
    rank_patches,
)
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_square
from vitdemo.page.explore.perturbation.image import read_grid
from vitdemo.page.feature import Feature
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


FEATURE = Feature({VIEW: payload})


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
            for source in ("norm", "norm-head"):
                maps[source] = compute_maps_of_source(context, trace, source, head)
    return maps
