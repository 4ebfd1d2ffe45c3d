"""The order in which the most attended patches are removed: the map that Attention shows.

The map is for the unchanged image and the token that the classifier reads. A map that is not of
attention (similar tokens) is replaced by the map with the highest mean score. For a model without
attention, the order comes from an attribution map of the predicted class. The payload contains all
layers, so another layer needs no request:

    {"source": value of `MAP_SOURCE`, or None without attention, "title": title of another map,
     "grid": [rows, columns], "order": (L, P), the patches of `grid`}

Letters: L layers, P patches of the grid of removable patches.
"""

from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.analyses.perturbation import (
    compute_maps_of_source,
    compute_ranked_map,
    rank_patches,
)
from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_square
from vitdemo.page.explore.perturbation.image import read_grid
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "patch_order"


@needs(keys.IMAGE, keys.MODEL, keys.MAP_SOURCE, keys.HEAD, keys.REMOVAL_GRID)
def payload(context: AppContext, state: ViewState) -> dict:
    run, image = context.find_run(state.model), load_square(context, state.image)
    source, title = None, ""
    if context.count_layers(run):
        source = state[keys.MAP_SOURCE]
        if source in (None, "similar"):
            source = choose_first_map(context, run)[0]
        trace, head = context.trace_image(run, image), round(state[keys.HEAD])
        maps = compute_maps_of_source(context, trace, source, head)
    else:
        method, values = compute_ranked_map(context, run, image)
        title, maps = method.title, values[None]
    grid = read_grid(context, state)
    order = rank_patches(maps, grid).tolist()
    return {"source": source, "title": title, "grid": list(grid), "order": order}


FEATURE = Feature({VIEW: payload})
