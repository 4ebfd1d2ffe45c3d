"""The section "Inside the model" of Explore: from the pixels to the prediction, in nine parts."""

import gradio as gr

from vitdemo.page.bridge import add_view
from vitdemo.page.explore.inside import (
    architecture,
    attention_distance,
    epochs,
    head_ablation,
    logit_lens,
    one_head,
    patch_embedding,
    positions,
    residual_stream,
)
from vitdemo.page.explore.tab import ExploreTab

# Part id: title and module, in the order of the forward pass after the overview.
PARTS = {
    "diagram": ("Architecture", architecture),
    "filters": ("Patch embedding", patch_embedding),
    "positions": ("Position embeddings", positions),
    "one_head": ("One head", one_head),
    "distance": ("Attention distance", attention_distance),
    "ablation": ("Head ablation", head_ablation),
    "residual_stream": ("Residual stream", residual_stream),
    "lens": ("Logit lens", logit_lens),
    "epochs": ("Across epochs", epochs),
}

VIEW_IDS = {  # elem_id of each view of a part without controls
    architecture: "diagram",
    positions: "positions",
    one_head: "one-head",
    attention_distance: "distances",
    residual_stream: "residual-stream",
    logit_lens: "lens",
    epochs: "epochs-inside",
}
PAYLOADS = {part.VIEW: part.payload for _, part in PARTS.values()}
PAYLOADS[head_ablation.COMPARISON_VIEW] = head_ablation.comparison_payload
TASKS = {head_ablation.ACCURACY_TASK: head_ablation.measure_accuracy}


def build(look: ExploreTab) -> None:
    """Lay out the parts; only the chosen part is visible.

    The parts are not tabs of gradio, because the browser would select the first tab instead of the
    part in the page's URL.
    """
    choices = [(title, name) for name, (title, _) in PARTS.items()]
    part = gr.Radio(choices, value=choices[0][1], label="Part", elem_id="part")
    look.controls["inside"] = part
    for name, (_, module) in PARTS.items():
        with gr.Column(elem_id=f"part-{name}"):
            if module in VIEW_IDS:
                add_view(module.VIEW, elem_id=VIEW_IDS[module])
            else:
                module.build(look)
