"""What each part of a model adds to a logit: bars, the heads one by one, lengths of the stream.

A handler returns a `Stream`, or a sentence that says why there is none. The value that reaches the
script, K classes, the most probable first:

    {"run": str, "words": str, "read": str, "classes": [names], "logits": (K), "embedding": (K),
     "heads": (K, L, H), "bias": (K, L), "mlps": (K, L), "constant": (K),
     "lengths": [[of the tokens that answer, of the patches], ...]}      # (L+1, 2)
"""

import numpy as np

from vitdemo.inside import numpy
from vitdemo.inside.residual_stream import Stream
from vitdemo.page.components import Drawing

DIGITS = 5
WORDS = (
    "Each attention and each MLP adds to the tokens (the residual stream), and the classifier "
    "reads their sum: so a logit is a sum of what every part wrote (direct logit attribution; "
    "orange for, purple against). The last norm's scale is held as it was for this picture. A part "
    "may matter more than its number says: what later layers make of it counts as theirs."
)


class ResidualStream(Drawing):
    """See the module."""

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
            "read": "class token" if value.look.from_class_token else "patches that answer",
            "classes": [value.run.classes[c] for c in value.classes],
            "logits": value.logits.astype(float).round(DIGITS).tolist(),
            **{name: numpy(x).astype(float).round(DIGITS).tolist() for name, x in parts.items()},
            "lengths": lengths.astype(float).round(DIGITS).tolist(),
        }
