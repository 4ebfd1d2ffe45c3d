"""The section "Inside the model" of Explore: from the pixels to the prediction, in nine parts."""

import gradio as gr

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

# Part id: title and module.
PARTS = {
    "lens": ("Logit lens", logit_lens),
    "one_head": ("One head, number by number", one_head),
    "residual_stream": ("Residual stream", residual_stream),
    "ablation": ("Head ablation", head_ablation),
    "distance": ("Attention distance", attention_distance),
    "positions": ("Position embeddings", positions),
    "filters": ("Patch embedding", patch_embedding),
    "epochs": ("Across epochs", epochs),
    "diagram": ("Architecture", architecture),
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
            module.build(look)
