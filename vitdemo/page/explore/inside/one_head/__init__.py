"""The part "One head, number by number": from query and key to the output of a head.

The payload contains all heads of the layer, so `view.js` can show another head or token without a
request:

    {"run": str, "layer": int, "heads": H, "grid": [rows, columns], "prefix": [names],
     "scale": float, "seen": file, "numbers": file, "photos": number of example photos,
     "sinks": {"patches": (H), "weights": (H), "norm_ratios": (H), "similarities": (H),
               "patch_similarities": (H)}}

`numbers` holds queries, keys and values as (3, H, N, D/H) in float32. `sinks` describes the most
attended patch of each head: see `explain.sinks.Sinks` and `analyses.sinks.PhotoSimilarities`.
"""

import torch
from torch import Tensor

from vitdemo.analyses.sinks import PhotoSimilarities, compute_photo_similarities
from vitdemo.context import AppContext
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.qkv import compute_layer_qkv, head_scale
from vitdemo.explain.sinks import find_sinks
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
SINK_DIGITS = 4


@needs(keys.IMAGE, keys.MODEL, keys.LAYER)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    model, layer = context.load_model(trace.run), choose_layer(context, state, trace.run)
    similarities = compute_photo_similarities(context, trace.run)
    numbers = compute_layer_qkv(model, trace.tokens, layer)  # (3, H, N, D/H)
    data = {
        "run": trace.run.name,
        "layer": layer,
        "heads": model.blocks[layer - 1].attn.num_heads,
        "grid": list(trace.grid),
        "prefix": list(trace.prefix_names),
        "scale": head_scale(model, layer - 1),
        "photos": similarities.count,
        "sinks": {},
    }
    outputs = {
        "seen": Pixels(torch.from_numpy(trace.input_image).permute(2, 0, 1)),
        "numbers": Matrices(numbers, exact=True),
        **describe_sinks(trace, torch.tensor(layer), numbers, similarities),
    }
    return fill(data, outputs)


def describe_sinks(
    trace: ImageTrace, layer: Tensor, numbers: Tensor, similarities: PhotoSimilarities
) -> Outputs:
    """Return `sinks` for the `layer` () (1..L), whose `numbers` are (3, H, N, D/H)."""
    index = layer[None] - 1
    attention = trace.attention.index_select(0, index)[0]  # (H, N, N)
    found = find_sinks(attention, numbers[2], trace.num_prefix_tokens)
    known = similarities.sinks, similarities.patches
    own, others = (torch.from_numpy(each).index_select(0, index)[0] for each in known)
    return {
        "sinks.patches": Numbers(found.patches),
        "sinks.weights": Numbers(found.weights, SINK_DIGITS),
        "sinks.norm_ratios": Numbers(found.norm_ratios, SINK_DIGITS),
        "sinks.similarities": Numbers(own, SINK_DIGITS),
        "sinks.patch_similarities": Numbers(others, SINK_DIGITS),
    }


def compute_outputs(
    context: AppContext, run: Run, state: ViewState, crop: Tensor, layer: Tensor
) -> Outputs:
    """Compute the data of the view that depend on image and layer: see `page.graph`."""
    model = context.load_model(run)
    trace = trace_crop(context, run, crop)
    chosen, layers = select_layer(context, run, layer), range(len(model.blocks))
    scales = torch.tensor([head_scale(model, index) for index in layers])
    numbers = torch.stack([compute_layer_qkv(model, trace.tokens, i + 1) for i in layers])
    own = numbers.index_select(0, chosen[None] - 1)[0]
    return {
        "layer": Numbers(chosen),
        "scale": Numbers(scales.take(chosen - 1), SCALE_DIGITS),
        "seen": Pixels(crop),
        "numbers": Matrices(own, exact=True),
        **describe_sinks(trace, chosen, own, compute_photo_similarities(context, run)),
    }


GRAPH = Graph(compute_outputs, inputs=[make_layer_input(keys.LAYER)])
FEATURE = Feature({VIEW: payload}, graphs={VIEW: GRAPH})
