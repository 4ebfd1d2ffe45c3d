"""One head of one layer, number by number: query, key, dot product, softmax, values.

A handler returns `Heads`, or a message if there is nothing to draw. The payload contains all heads
of the layer, so another head, query or key token needs no request:

    {"run": str, "heads": H, "grid": [rows, columns], "prefix": [names], "scale": float,
     "seen": file, "words": str, "numbers": file}

`numbers` holds queries, keys and values as (3, H, N, D/H) in float32, see
`vitdemo.attention.packed`.
"""

import torch

from vitdemo.inside.one_head import Heads
from vitdemo.page.components import Drawing, served_numbers, served_picture

WORDS = (
    "In layer {layer}, each of the {heads} heads computes a query, a key and a value of {width} "
    "numbers from every token. All steps below use the model's own numbers."
)


class OneHead(Drawing):
    """Step-by-step computation of one head, see the module."""

    def drawn(self, value: Heads) -> dict:
        numbers = torch.stack([value.queries, value.keys, value.values])  # (3, H, N, D/H)
        _, heads, _, width = numbers.shape
        return {
            "run": value.run.name,
            "heads": heads,
            "grid": list(value.look.grid),
            "prefix": list(value.look.prefix_names),
            "scale": value.scale,
            "seen": served_picture(self, value.seen),
            "words": WORDS.format(layer=value.layer, heads=heads, width=width),
            "numbers": served_numbers(self, numbers, exact=True),
        }
