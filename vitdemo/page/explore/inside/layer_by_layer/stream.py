"""Contributions of each head and each MLP to the logits of K classes, the most probable first.

{"reads_class_token": bool, "classes": [names], "logits": (K), "embedding": (K),
 "heads": (K, L, H), "bias": (K, L), "mlps": (K, L), "constant": (K),
 "lengths": (L+1, 2), norms of the tokens that the classifier reads, and of the patches}
"""

import numpy as np
from torch import nn

from vitdemo.explain.checks import to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_attribution import compute_logit_attribution
from vitdemo.page.bridge import round_numbers

LOGIT_DIGITS = 5


def describe_stream(model: nn.Module, trace: ImageTrace) -> dict:
    attribution = compute_logit_attribution(model, trace)
    parts = attribution.contributions
    numbers = {
        "logits": attribution.logits,
        "embedding": to_numpy(parts.embedding),
        "heads": to_numpy(parts.heads),
        "bias": to_numpy(parts.attention_bias),
        "mlps": to_numpy(parts.mlps),
        "constant": to_numpy(parts.constant),
        "lengths": np.stack([attribution.classifier_token_norms, attribution.patch_norms], axis=1),
    }
    return {
        "reads_class_token": trace.reads_class_token,
        "classes": [trace.run.classes[c] for c in attribution.classes],
        **{name: round_numbers(values, LOGIT_DIGITS) for name, values in numbers.items()},
    }
