"""Attention of the chosen model to the original and the changed image, and rankings of patches.

The payload contains all layers, so a change of the layer needs no request. An unchanged image has
one entry in `images`. `order` contains the patches of `grid`, the most attended patch first:

    {"run": str, "reader": str, "images": [{"which": str, "seen": file, "maps": {ranking:
     (L, rows, columns)}}, ...], "grid": [rows, columns], "order": {ranking: (L, P)}}

Letters: L layers, P patches of the grid of removable patches.
"""

from vitdemo.analyses.perturbation import compute_ranking_maps, rank_patches
from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, round_numbers
from vitdemo.page.explore.perturbation.image import load_images, parse_changes
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "changed_attention"
ATTENTION_DIGITS = 6


@needs(*keys.CHANGES, keys.MODEL, keys.REMOVED_PATCHES)
def payload(context: AppContext, state: ViewState) -> dict:
    changes = parse_changes(context, state)
    before, after = load_images(context, state, changes)
    run, grid = context.find_run(state.model), changes.removed.grid
    trace = context.trace_image(run, after)
    maps = compute_ranking_maps(trace)
    images = [("", trace, maps)]
    if not changes.is_identity:
        original = context.trace_image(run, before)
        images = [
            (", original", original, compute_ranking_maps(original)),
            (", changed", trace, maps),
        ]
    return {
        "run": run.name,
        "reader": trace.reader_name,
        "images": [
            {
                "which": which,
                "seen": ImageFile(shown.input_image),
                "maps": {
                    ranking: round_numbers(values, ATTENTION_DIGITS)
                    for ranking, values in found.items()
                },
            }
            for which, shown, found in images
        ],
        "grid": list(grid),
        "order": {ranking: rank_patches(values, grid).tolist() for ranking, values in maps.items()},
    }


FEATURE = Feature({VIEW: payload})
