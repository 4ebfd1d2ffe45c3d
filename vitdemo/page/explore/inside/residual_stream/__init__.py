"""The part "Residual stream": contributions of each head and each MLP to a logit.

The payload for K classes, the most probable class first:

    {"reads_class_token": bool, "classes": [names], "logits": (K), "embedding": (K),
     "heads": (K, L, H), "bias": (K, L), "mlps": (K, L), "constant": (K),
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


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    attribution = compute_logit_attribution(context.load_model(trace.run), trace)
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


FEATURE = Feature({VIEW: payload})
