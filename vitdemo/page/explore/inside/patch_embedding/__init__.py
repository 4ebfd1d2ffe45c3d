"""The part "Patch embedding": the filters of the convolution that reads the pixels.

The payload contains the norm of each filter, or the explained variance of each component:

    {"shown": the value of `SHOWN_FILTERS`, "count": number of all filters, "side": p,
     "numbers": (K), "sheet": file of the K filters side by side}

Letters: K filters, p side of a filter in pixels.
"""

import gradio as gr
import numpy as np

from vitdemo.analyses.weights import PatchFilters, load_first_filters
from vitdemo.context import AppContext
from vitdemo.documents.images import concatenate_images
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, add_view
from vitdemo.page.feature import Feature, PageSetup
from vitdemo.page.state_keys import PRINCIPAL_COMPONENTS
from vitdemo.page.view_state import ViewState, needs

VIEW = "patch_embedding"


def build(setup: PageSetup) -> None:
    with gr.Row(elem_id="filters-head", elem_classes="vd-filters"):
        gr.Markdown("## Filters of the patch embedding")
        setup.controls.add(keys.SHOWN_FILTERS, gr.Radio)
    add_view(VIEW, elem_id="filters")


@needs(keys.MODEL, keys.SHOWN_FILTERS)
def payload(context: AppContext, state: ViewState) -> dict:
    filters = load_first_filters(context, context.find_run(state.model))
    return describe_filters(filters, state[keys.SHOWN_FILTERS])


FEATURE = Feature({VIEW: payload})


def describe_filters(filters: PatchFilters, shown: str) -> dict:
    """Return the payload of the largest filters, or of the principal components."""
    if shown == PRINCIPAL_COMPONENTS:
        colours, numbers = filters.principal, filters.explained_variance
    else:
        colours, numbers = filters.largest, filters.norms
    tiles = (255 * colours).round().astype(np.uint8).transpose(0, 2, 3, 1)  # (K, p, p, 3)
    return {
        "shown": shown,
        "count": filters.count,
        "side": colours.shape[-1],
        "numbers": numbers.tolist(),
        "sheet": ImageFile(concatenate_images(tiles)),
    }
