"""The part "One head, number by number": from query and key to the output of a head.

The payload contains all heads of the layer, so `view.js` can show another head or token without a
request:

    {"run": str, "heads": H, "grid": [rows, columns], "prefix": [names], "scale": float,
     "seen": file, "caption": str, "numbers": file}

`numbers` holds queries, keys and values as (3, H, N, D/H) in float32.
"""

import torch

from vitdemo.context import AppContext
from vitdemo.explain.checks import to_numpy
from vitdemo.explain.qkv import compute_layer_qkv
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, NumbersFile, choose_layer, load_trace
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "one_head"
ONE_HEAD_CAPTION = (
    "In layer {layer}, each of the {heads} heads computes a query, a key and a value of {width} "
    "numbers from every token. All steps below use the model's own numbers."
)


@needs(keys.IMAGE, keys.MODEL, keys.LAYER)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    layer = choose_layer(context, state, trace.run)
    found = compute_layer_qkv(context.load_model(trace.run), trace, layer)
    numbers = torch.stack([found.queries, found.keys, found.values])  # (3, H, N, D/H)
    _, heads, _, width = numbers.shape
    return {
        "run": found.trace.run.name,
        "heads": heads,
        "grid": list(found.trace.grid),
        "prefix": list(found.trace.prefix_names),
        "scale": found.scale,
        "seen": ImageFile(found.trace.input_image),
        "caption": ONE_HEAD_CAPTION.format(layer=found.layer, heads=heads, width=width),
        "numbers": NumbersFile(to_numpy(numbers), exact=True),
    }


FEATURE = Feature({VIEW: payload})
