"""Contributions of each head and each MLP to the logits of K classes, the most probable first.

{"reads_class_token": bool, "classes": [names], "logits": (K), "embedding": (K),
 "heads": (K, L, H), "bias": (K, L), "mlps": (K, L), "constant": (K),
 "lengths": (L+1, 2), norms of the tokens that the classifier reads, and of the patches}
"""

import torch
from torch import nn

from vitdemo.errors import RunError
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_attribution import (
    MAX_STREAM_CLASSES,
    compute_contributions,
    mean_token_norms,
)
from vitdemo.page.graph import Choice, Numbers, Outputs

LOGIT_DIGITS = 5


def compute_stream(model: nn.Module, trace: ImageTrace) -> Outputs:
    """Compute the contributions to logits. Raises `RunError` for an unsupported classifier."""
    logits, classes = trace.logits.topk(min(MAX_STREAM_CLASSES, len(trace.logits)))  # (K,)
    try:
        parts = compute_contributions(model, trace.tokens, classes)
    except TypeError as error:
        raise RunError(str(error)) from error
    rows = trace.classifier_rows, slice(trace.num_prefix_tokens, None)  # classifier tokens, patches
    numbers = {
        "logits": logits,
        "embedding": parts.embedding,
        "heads": parts.heads,
        "bias": parts.attention_bias,
        "mlps": parts.mlps,
        "constant": parts.constant,
        "lengths": torch.stack([mean_token_norms(trace.tokens, each) for each in rows], dim=1),
    }
    return {
        "classes": Choice(classes, trace.run.classes),
        **{name: Numbers(values, LOGIT_DIGITS) for name, values in numbers.items()},
    }
