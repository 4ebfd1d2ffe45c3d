"""The section "Inside" of Look: what happens between the pixels and the answer, in nine parts."""

import json

import gradio as gr

from vitdemo.page.kit import QUIET
from vitdemo.page.look.inside import (
    ablation,
    diagram,
    distance,
    epochs,
    filters,
    lens,
    one_head,
    positions,
    residual_stream,
)
from vitdemo.page.look.tab import Look

# Id of the part: its title and its file.
PARTS = {
    "lens": ("Logit lens", lens),
    "one_head": ("One head, number by number", one_head),
    "residual_stream": ("Residual stream", residual_stream),
    "ablation": ("Head ablation", ablation),
    "distance": ("Attention distance", distance),
    "positions": ("Position embeddings", positions),
    "filters": ("Patch embedding", filters),
    "epochs": ("In training", epochs),
    "diagram": ("The model", diagram),
}

# In the browser: two changes at once, as a link makes them, overtake each other on their way to the
# server and back
SHOW = f"""chosen => {json.dumps(list(PARTS))}.map(
    name => ({{__type__: "update", visible: name === chosen}}))"""


def build(look: Look) -> None:
    """Lay out the parts, of which the chosen one is shown and draws.

    Not tabs: as they appear, the browser selects the first by itself, over what the page's address
    asks for.
    """
    choices = [(title, name) for name, (title, _) in PARTS.items()]
    chosen = gr.Radio(choices, value=choices[0][1], label="Part", elem_id="part")
    look.choosers.append(chosen)
    look.linked["inside"] = chosen
    columns = []
    for number, (name, (_, part)) in enumerate(PARTS.items()):
        with gr.Column(visible=number == 0, elem_id=f"part-{name}") as column:
            part.build(look)
        columns.append(column)

    chosen.change(None, chosen, columns, js=SHOW, **QUIET)
    look.draw_on(chosen.input, look.within("inside"))
