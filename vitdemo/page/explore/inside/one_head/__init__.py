"""The part "One head, number by number": from query and key to the output of a head.

The payload contains all heads of the layer, so `view.js` can show another head or token without a
request:

    {"run": str, "heads": H, "grid": [rows, columns], "prefix": [names], "scale": float,
     "seen": file, "words": str, "numbers": file}

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

TEXTS = {
    "head": "Head",
    "query": "Query token",
    "key": "Key token",
    "patch": "patch row {row}, column {column}",
    "image": "Input image of {run} with the attention weights of the chosen query",
    "map": "Attention weights of the query token. Point at a patch to use it as the key; click to "
    "use it as the query.",
    "strongest": "Keys with the largest weights for the {query}",
    "strip": "{name}: {count} numbers from {low} to {high}",
    "number": "number {number}: {value}",
    "product_title": "Query and key, number by number",
    "query_vector": "query q",
    "key_vector": "key k",
    "products": "products",
    "product": "The sum of the products is the dot product q · k = {dot}.",
    "scale_title": "Scale",
    "scale": "The dot product divided by √{width}, the square root of the head's width, is the "
    "score: {dot} × {factor} = {score}.",
    "softmax_title": "Softmax",
    "softmax": "e to the power of the score, divided by the sum over all {count} keys: {power} / "
    "{total} = ",
    "weight": "This is the attention weight from the {query} to the {key}.",
    "values_title": "Values, weighted and added",
    "value_vector": "value v",
    "weighted": "weight × v",
    "sum": "sum of all",
    "output": "The sum over all {count} tokens is the output of this head for the {query}. This "
    "key contributes {percent}% of the output, measured along the direction of the output.",
    "numbers": "Attention weights of the query token",
    "key_column": "key token",
    "dot_column": "q · k",
    "score_column": "score",
    "weight_column": "weight, %",
}


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
        "words": ONE_HEAD_CAPTION.format(layer=found.layer, heads=heads, width=width),
        "numbers": NumbersFile(to_numpy(numbers), exact=True),
    }


FEATURE = Feature({VIEW: payload})
