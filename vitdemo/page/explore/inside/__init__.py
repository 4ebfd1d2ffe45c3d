"""The section "Inside the model" of Explore: from the pixels to the prediction, in seven parts."""

import gradio as gr

from vitdemo.page.bridge import add_view
from vitdemo.page.explore.inside import (
    architecture,
    head_ablation,
    knockout,
    layer_by_layer,
    linear_probes,
    one_head,
    patch_embedding,
    patches,
    patching,
    positions,
    similar_patches,
)
from vitdemo.page.feature import PageSetup, merge_features

PARTS = {  # value of the state key `inside` -> modules: the overview, then the forward pass
    "diagram": [architecture],
    "embeddings": [patches, patch_embedding, positions],
    "one_head": [one_head],
    "layers": [layer_by_layer, linear_probes],
    "similar_patches": [similar_patches],
    "ablation": [head_ablation, knockout],
    "patching": [patching],
}

VIEW_IDS = {  # elem_id of the view, for each module without controls
    architecture: "diagram",
    patches: "patches",
    positions: "positions",
    one_head: "one-head",
    layer_by_layer: "layer-by-layer",
    linear_probes: "linear-probes",
}
MODULES = [module for modules in PARTS.values() for module in modules]
FEATURE = merge_features(module.FEATURE for module in MODULES)


def build(setup: PageSetup) -> None:
    """Lay out the menu of parts, and the parts; only the chosen part is visible."""
    add_view("part_menu", elem_id="part")
    for name, modules in PARTS.items():
        with gr.Column(elem_id=f"part-{name}"):
            for module in modules:
                if module in VIEW_IDS:
                    add_view(module.VIEW, elem_id=VIEW_IDS[module])
                else:
                    module.build(setup)
