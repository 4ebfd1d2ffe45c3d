"""The section "Inside the model" of Explore: from the pixels to the prediction, in nine parts."""

import json

import gradio as gr

from vitdemo.page.explore.inside import (
    ablation,
    architecture,
    attention_distance,
    epochs,
    logit_lens,
    one_head,
    patch_embedding,
    positions,
    residual_stream,
)
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import NO_PROGRESS, REFRESH_EVENT

# Part id: title and module.
PARTS = {
    "lens": ("Logit lens", logit_lens),
    "one_head": ("One head, number by number", one_head),
    "residual_stream": ("Residual stream", residual_stream),
    "ablation": ("Head ablation", ablation),
    "distance": ("Attention distance", attention_distance),
    "positions": ("Position embeddings", positions),
    "filters": ("Patch embedding", patch_embedding),
    "epochs": ("Across epochs", epochs),
    "diagram": ("Architecture", architecture),
}

# The bridge requests the payloads of these parts; a choice of another part draws its section.
BRIDGED_PARTS = [name for name, (_, part) in PARTS.items() if hasattr(part, "payload")]
PAYLOADS = {PARTS[name][1].VIEW: PARTS[name][1].payload for name in BRIDGED_PARTS}
JS_COUNT_DRAW = f"(part, draws) => [{json.dumps(BRIDGED_PARTS)}.includes(part) ? draws : draws + 1]"
# The browser switches the part. On the server, two quick changes could finish in the wrong order.
JS_SHOW_PART = f"""chosen => {json.dumps(list(PARTS))}.map(
    name => ({{__type__: "update", visible: name === chosen}}))"""


def build(look: ExploreTab) -> None:
    """Lay out the parts; only the chosen part is visible and computed.

    The parts are not tabs of gradio, because the browser would select the first tab instead of the
    part in the page's URL.
    """
    choices = [(title, name) for name, (title, _) in PARTS.items()]
    chosen = gr.Radio(choices, value=choices[0][1], label="Part", elem_id="part")
    look.choosers.append(chosen)
    look.url_params["inside"] = chosen
    columns = []
    for number, (name, (_, part)) in enumerate(PARTS.items()):
        with gr.Column(visible=number == 0, elem_id=f"part-{name}") as column:
            part.build(look)
        columns.append(column)

    chosen.change(None, chosen, columns, js=JS_SHOW_PART, **REFRESH_EVENT)
    draws = gr.Number(0, visible="hidden", label="draws of a part")
    chosen.input(None, [chosen, draws], draws, js=JS_COUNT_DRAW, **NO_PROGRESS)
    look.draw_on(draws.change, look.sections_of_tab("inside"))
    look.bridged_parts["inside"] = BRIDGED_PARTS
