"""Contributions of each part of a model to a logit: bars, single heads, norms of the stream.

A handler returns a `Stream`, or a message if there is nothing to draw. The payload, with K classes,
the most probable one first:

    {"run": str, "words": str, "read": str, "classes": [names], "logits": (K), "embedding": (K),
     "heads": (K, L, H), "bias": (K, L), "mlps": (K, L), "constant": (K),
     "lengths": [[of the tokens that the classifier reads, of the patches], ...]}      # (L+1, 2)
"""

import numpy as np

from vitdemo.inside import numpy
from vitdemo.inside.residual_stream import Stream
from vitdemo.page.components import Drawing

DIGITS = 5
WORDS = (
    "Each attention and each MLP adds a vector to the tokens (the residual stream). The classifier "
    "reads the sum, so each part contributes to the logit (direct logit attribution). Orange parts "
    "increase the logit; purple parts decrease it. The scale of the final LayerNorm is fixed at "
    "its value for this image. A part may matter more than its number shows, because the number "
    "excludes its effect through later layers."
)


class ResidualStream(Drawing):
    """View of logit contributions, see the module."""

    def drawn(self, value: Stream) -> dict:
        parts = {
            "embedding": value.parts.embedding,
            "heads": value.parts.heads,
            "bias": value.parts.attention_bias,
            "mlps": value.parts.mlps,
            "constant": value.parts.constant,
        }
        lengths = np.stack([value.answer_lengths, value.patch_lengths], axis=1)  # (L+1, 2)
        return {
            "run": value.run.name,
            "words": WORDS,
            "read": "class token" if value.look.from_class_token else "mean of the patches",
            "classes": [value.run.classes[c] for c in value.classes],
            "logits": value.logits.astype(float).round(DIGITS).tolist(),
            **{name: numpy(x).astype(float).round(DIGITS).tolist() for name, x in parts.items()},
            "lengths": lengths.astype(float).round(DIGITS).tolist(),
        }
