"""The section "Inside the model" of Explore: from the pixels to the prediction, in parts."""

import gradio as gr

from vitdemo.page.bridge import add_view
from vitdemo.page.explore.inside import (
    architecture,
    epochs,
    head_ablation,
    knockout,
    logit_lens,
    one_head,
    patch_embedding,
    positions,
    residual_stream,
)
from vitdemo.page.feature import PageSetup, merge_features
from vitdemo.page.state_keys import PART

MODULES = {  # part -> module: the overview, then the order of the forward pass
    "diagram": architecture,
    "filters": patch_embedding,
    "positions": positions,
    "one_head": one_head,
    "ablation": head_ablation,
    "residual_stream": residual_stream,
    "lens": logit_lens,
    "epochs": epochs,
}

VIEW_IDS = {  # elem_id of the view, for each part that has no controls
    architecture: "diagram",
    positions: "positions",
    one_head: "one-head",
    residual_stream: "residual-stream",
    logit_lens: "lens",
    epochs: "epochs-inside",
}
FEATURE = merge_features(part.FEATURE for part in (*MODULES.values(), knockout))


def build(setup: PageSetup) -> None:
    """Lay out the parts; only the chosen part is visible.

    The parts are not tabs of gradio, because the browser would select the first tab instead of the
    part in the page's URL.
    """
    setup.controls.add(PART, gr.Radio)
    for name, module in MODULES.items():
        with gr.Column(elem_id=f"part-{name}"):
            if module in VIEW_IDS:
                add_view(module.VIEW, elem_id=VIEW_IDS[module])
            else:
                module.build(setup)
            if module is head_ablation:
                knockout.build(setup)
