"""Contributions of a model's parts and heads to a logit, and norms of the residual stream.

A handler returns a `LogitAttribution`, or a message if there is nothing to draw. The payload for
K classes, the most probable class first:

    {"run": str, "words": str, "read": str, "classes": [names], "logits": (K), "embedding": (K),
     "heads": (K, L, H), "bias": (K, L), "mlps": (K, L), "constant": (K),
     "lengths": (L+1, 2), norms of the tokens that the classifier reads, and of the patches}
"""

import numpy as np

from vitdemo.explain.checks import to_numpy
from vitdemo.explain.logit_attribution import LogitAttribution
from vitdemo.page.components import View

LOGIT_DIGITS = 5
RESIDUAL_STREAM_CAPTION = (
    "Each attention and each MLP adds a vector to the tokens (the residual stream). The classifier "
    "reads the sum, so each part contributes to the logit (direct logit attribution). Orange parts "
    "increase the logit; purple parts decrease it. The scale of the final LayerNorm is fixed at "
    "its value for this image. A part may matter more than its number shows, because the number "
    "excludes its effect through later layers."
)


class ResidualStreamView(View):
    """View of contributions to a logit."""

    def to_payload(self, value: LogitAttribution) -> dict:
        parts = {
            "embedding": value.contributions.embedding,
            "heads": value.contributions.heads,
            "bias": value.contributions.attention_bias,
            "mlps": value.contributions.mlps,
            "constant": value.contributions.constant,
        }
        lengths = np.stack([value.classifier_token_norms, value.patch_norms], axis=1)  # (L+1, 2)
        return {
            "run": value.run.name,
            "words": RESIDUAL_STREAM_CAPTION,
            "read": "class token" if value.trace.reads_class_token else "mean of the patches",
            "classes": [value.run.classes[c] for c in value.classes],
            "logits": value.logits.astype(float).round(LOGIT_DIGITS).tolist(),
            **{
                name: to_numpy(x).astype(float).round(LOGIT_DIGITS).tolist()
                for name, x in parts.items()
            },
            "lengths": lengths.astype(float).round(LOGIT_DIGITS).tolist(),
        }
