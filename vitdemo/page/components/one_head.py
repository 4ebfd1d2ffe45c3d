"""Computation of one attention head, number by number: dot product, softmax, weighted values.

A handler returns `LayerQKV`, or a message if there is nothing to draw. The payload contains all
heads of the layer, so the browser can draw another head or token without a request:

    {"run": str, "heads": H, "grid": [rows, columns], "prefix": [names], "scale": float,
     "seen": file, "words": str, "numbers": file}

`numbers` holds queries, keys and values as (3, H, N, D/H) in float32, see
`vitdemo.page.components.matrix_file`.
"""

import torch

from vitdemo.explain.qkv import LayerQKV
from vitdemo.page.components import View, serve_image, serve_numbers

ONE_HEAD_CAPTION = (
    "In layer {layer}, each of the {heads} heads computes a query, a key and a value of {width} "
    "numbers from every token. All steps below use the model's own numbers."
)


class OneHeadView(View):
    """Computation of one attention head, number by number."""

    def to_payload(self, value: LayerQKV) -> dict:
        numbers = torch.stack([value.queries, value.keys, value.values])  # (3, H, N, D/H)
        _, heads, _, width = numbers.shape
        return {
            "run": value.run.name,
            "heads": heads,
            "grid": list(value.trace.grid),
            "prefix": list(value.trace.prefix_names),
            "scale": value.scale,
            "seen": serve_image(self, value.input_image),
            "words": ONE_HEAD_CAPTION.format(layer=value.layer, heads=heads, width=width),
            "numbers": serve_numbers(self, numbers, exact=True),
        }
