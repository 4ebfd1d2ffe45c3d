"""The part "Patch embedding": the filters of the convolution that reads the pixels.

Letters: K filters, p side of a filter in pixels.
"""

import gradio as gr
import numpy as np

from vitdemo.analyses.weights import PatchFilters, load_first_filters
from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, Text
from vitdemo.documents.images import ImageItem, ImageRow, concatenate_images
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload
from vitdemo.page.feature import Feature, PageSetup
from vitdemo.page.state_keys import LARGEST_FILTERS, PRINCIPAL_COMPONENTS
from vitdemo.page.view_state import ViewState, needs

VIEW = "patch_embedding"
FILTER_CAPTIONS = {
    PRINCIPAL_COMPONENTS: "Principal components of the {count} filters of {p} x {p} pixels, with "
    "the percentage of variance that each component explains.",
    LARGEST_FILTERS: "The filters with the largest norms, out of {count} filters of {p} x {p} "
    "pixels. The number below a filter is its norm.",
}
ABOUT_FILTERS = {
    PRINCIPAL_COMPONENTS: (
        "Grey is a weight of 0. The components show which patterns the model can distinguish in a "
        "patch, not which patterns it uses. The sign of a component is arbitrary."
    ),
    LARGEST_FILTERS: (
        "Each filter is scaled to its own largest weight. Grey is a weight of 0. A filter "
        "responds to patterns that resemble it. A filter with a large norm is not necessarily "
        "important."
    ),
}
FILTER_TILE_WIDTH = 68  # side of a tile in pixels


def build(setup: PageSetup) -> None:
    setup.controls.add(keys.SHOWN_FILTERS, gr.Radio)
    add_view(VIEW, elem_id="filters")


@needs(keys.MODEL, keys.SHOWN_FILTERS)
def payload(context: AppContext, state: ViewState) -> list:
    filters = load_first_filters(context, context.find_run(state.model))
    return document_payload(filter_blocks(filters, state[keys.SHOWN_FILTERS]))


FEATURE = Feature({VIEW: payload})


def filter_blocks(filters: PatchFilters, which: str) -> list[DocumentBlock]:
    """Return the filters, or their principal components, as tiles with a number below each."""
    if which == PRINCIPAL_COMPONENTS:
        colours, label = filters.principal, "Component {i}: {number} of the variance"
        numbers = [f"{100 * share:.1f}%" for share in filters.explained_variance]
    else:
        colours, label = filters.largest, "Filter {i}: norm {number}"
        numbers = [f"{norm:.2f}" for norm in filters.norms]
    items = [
        ImageItem(label.format(i=i, number=number), number)
        for i, number in enumerate(numbers, start=1)
    ]
    tiles = (255 * colours).round().astype(np.uint8).transpose(0, 2, 3, 1)  # (K, p, p, 3)
    words = FILTER_CAPTIONS[which].format(p=colours.shape[-1], count=filters.count)
    return [
        Text(words, quiet=True),
        ImageRow(items, concatenate_images(tiles), FILTER_TILE_WIDTH),
        Details("About", [Text(ABOUT_FILTERS[which], quiet=True)]),
    ]
