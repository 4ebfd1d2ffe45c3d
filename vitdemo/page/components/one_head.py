"""One head of one layer, number by number: query, key, dot product, softmax, values.

A handler returns `Heads`, or a sentence that says why there is none. The numbers of all heads of
the layer travel once; another head, query or key token asks nobody. The value that reaches the
script:

    {"run": str, "heads": H, "grid": [rows, columns], "prefix": [names], "scale": float,
     "seen": file, "words": str, "numbers": file}

`numbers` holds queries, keys and values as (3, H, N, D/H) in float32, see
`vitdemo.attention.packed`.
"""

import torch

from vitdemo.inside.one_head import Heads
from vitdemo.page.components import Drawing, served_numbers, served_picture

WORDS = (
    "Layer {layer}: each of its {heads} heads makes a query, a key and a value of {width} numbers "
    "from every token. Everything below is worked out from those, with the model's own numbers."
)


class OneHead(Drawing):
    """See the module."""

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
