"""The part "One head, number by number": from query and key to the output of a head.

The payload contains all heads of the layer, so `view.js` can show another head or token without a
request:

    {"run": str, "layer": int, "heads": H, "grid": [rows, columns], "prefix": [names],
     "scale": float, "seen": file, "numbers": file}

`numbers` holds queries, keys and values as (3, H, N, D/H) in float32.
"""

import torch
from torch import Tensor

from vitdemo.context import AppContext
from vitdemo.explain.qkv import compute_layer_qkv, head_scale
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import choose_layer, fill, load_trace
from vitdemo.page.feature import Feature
from vitdemo.page.graph import (
    Graph,
    Matrices,
    Numbers,
    Outputs,
    Pixels,
    make_layer_input,
    select_layer,
    trace_crop,
)
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "one_head"
SCALE_DIGITS = 9


@needs(keys.IMAGE, keys.MODEL, keys.LAYER)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    model, layer = context.load_model(trace.run), choose_layer(context, state, trace.run)
    data = {
        "run": trace.run.name,
        "layer": layer,
        "heads": model.blocks[layer - 1].attn.num_heads,
        "grid": list(trace.grid),
        "prefix": list(trace.prefix_names),
        "scale": head_scale(model, layer - 1),
    }
    outputs = {
        "seen": Pixels(torch.from_numpy(trace.input_image).permute(2, 0, 1)),
        "numbers": Matrices(compute_layer_qkv(model, trace.tokens, layer), exact=True),
    }
    return fill(data, outputs)


def compute_outputs(
    context: AppContext, run: Run, state: ViewState, crop: Tensor, layer: Tensor
) -> Outputs:
    """Compute the data of the view that depend on image and layer: see `page.graph`."""
    model = context.load_model(run)
    trace = trace_crop(context, run, crop)
    chosen, layers = select_layer(context, run, layer), range(len(model.blocks))
    scales = torch.tensor([head_scale(model, index) for index in layers])
    numbers = torch.stack([compute_layer_qkv(model, trace.tokens, i + 1) for i in layers])
    return {
        "layer": Numbers(chosen),
        "scale": Numbers(scales.take(chosen - 1), SCALE_DIGITS),
        "seen": Pixels(crop),
        "numbers": Matrices(numbers.index_select(0, chosen[None] - 1)[0], exact=True),
    }


GRAPH = Graph(compute_outputs, inputs=[make_layer_input(keys.LAYER)])
FEATURE = Feature({VIEW: payload}, graphs={VIEW: GRAPH})
