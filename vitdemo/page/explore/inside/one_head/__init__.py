"""The part "One head, number by number": from query and key to the output of a head.

The payload contains all heads of the layer, so `view.js` can show another head or token without a
request:

    {"run": str, "layer": int, "heads": H, "grid": [rows, columns], "prefix": [names],
     "scale": float, "seen": file, "numbers": file}

`numbers` holds queries, keys and values as (3, H, N, D/H) in float32.
"""

from vitdemo.context import AppContext
from vitdemo.explain.checks import to_numpy
from vitdemo.explain.qkv import compute_layer_qkv, head_scale
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, NumbersFile, choose_layer, load_trace
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "one_head"


@needs(keys.IMAGE, keys.MODEL, keys.LAYER)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    model, layer = context.load_model(trace.run), choose_layer(context, state, trace.run)
    return {
        "run": trace.run.name,
        "layer": layer,
        "heads": model.blocks[layer - 1].attn.num_heads,
        "grid": list(trace.grid),
        "prefix": list(trace.prefix_names),
        "scale": head_scale(model, layer - 1),
        "seen": ImageFile(trace.input_image),
        "numbers": NumbersFile(to_numpy(compute_layer_qkv(model, trace.tokens, layer)), exact=True),
    }


FEATURE = Feature({VIEW: payload})
