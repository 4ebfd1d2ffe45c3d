"""The part "Residual stream": contributions of each head and each MLP to a logit.

The payload for K classes, the most probable class first:

    {"caption": str, "about": str, "read": str, "classes": [names], "logits": (K),
     "embedding": (K), "heads": (K, L, H), "bias": (K, L), "mlps": (K, L), "constant": (K),
     "lengths": (L+1, 2), norms of the tokens that the classifier reads, and of the patches}
"""

import numpy as np

from vitdemo.context import AppContext
from vitdemo.explain.checks import to_numpy
from vitdemo.explain.logit_attribution import compute_logit_attribution
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_trace, round_numbers
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "residual_stream"
LOGIT_DIGITS = 5
RESIDUAL_STREAM_CAPTION = (
    "Direct logit attribution: the contribution of each attention module and each MLP to the "
    "logit of a class, through the final LayerNorm."
)
ABOUT_RESIDUAL_STREAM = (
    "Each attention module and each MLP adds a vector to the tokens (the residual stream). The "
    "classifier reads the sum, so each part contributes to the logit. The scale of the final "
    "LayerNorm is fixed at its value for this image. A part may be more important than its "
    "contribution shows, because the contribution excludes effects through later layers."
)


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    attribution = compute_logit_attribution(context.load_model(trace.run), trace)
    parts = attribution.contributions
    norms = [attribution.classifier_token_norms, attribution.patch_norms]
    return {
        "caption": RESIDUAL_STREAM_CAPTION,
        "about": ABOUT_RESIDUAL_STREAM,
        "read": "class token" if attribution.trace.reads_class_token else "mean of the patches",
        "classes": [attribution.trace.run.classes[c] for c in attribution.classes],
        "logits": round_numbers(attribution.logits, LOGIT_DIGITS),
        "embedding": round_numbers(to_numpy(parts.embedding), LOGIT_DIGITS),
        "heads": round_numbers(to_numpy(parts.heads), LOGIT_DIGITS),
        "bias": round_numbers(to_numpy(parts.attention_bias), LOGIT_DIGITS),
        "mlps": round_numbers(to_numpy(parts.mlps), LOGIT_DIGITS),
        "constant": round_numbers(to_numpy(parts.constant), LOGIT_DIGITS),
        "lengths": round_numbers(np.stack(norms, axis=1), LOGIT_DIGITS),  # (L+1, 2)
    }


FEATURE = Feature({VIEW: payload})
