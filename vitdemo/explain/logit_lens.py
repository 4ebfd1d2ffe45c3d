"""The logit lens: predictions of the classifier from the tokens after each layer.

The model's final norm and classifier head are applied to the output of each block (nostalgebraist
2020, "interpreting GPT: the logit lens"). Norm and head were trained only on tokens of the last
layer, so predictions from an earlier layer are an approximation. If the classifier head was trained
on the class token, predictions from a single patch are also an approximation.

Letters: B batch, L layers, N tokens (special tokens, then P patches), D width, C classes.

    predictions, patches = apply_logit_lens(model, trace(model, images).tokens)
    predictions[-1]  # (B, C): the model's own probabilities
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from vitdemo.explain.checks import require_finite, to_numpy
from vitdemo.explain.forward_pass import classify_tokens, upcast
from vitdemo.explain.image_trace import ImageTrace


@dataclass(frozen=True, eq=False)
class LogitLens:
    """Class probabilities for one image before the first block (index 0) and after each block.

    `predictions` (L+1, C) are computed from the tokens that the classifier reads, and `patches`
    (L+1, P, C) from each single patch token of `trace`.
    """

    trace: ImageTrace
    predictions: np.ndarray
    patches: np.ndarray


@torch.inference_mode()
def compute_logit_lens(model: nn.Module, trace: ImageTrace) -> LogitLens:
    """Compute the logit lens of one image from its trace.

    Raises `RunError` for a model without classes, and for a model that predicts NaN.
    """
    trace.run.require_classes()
    results = apply_logit_lens(model, trace.tokens[:, None])
    predictions, patches = (to_numpy(each[:, 0]) for each in results)
    require_finite(trace.run, predictions[-1])
    return LogitLens(trace, predictions, patches)


def apply_logit_lens(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the model's classifier head to the `tokens` (L+1, B, N, D) of `trace`.

    Returns probabilities (L+1, B, C) from the tokens that the classifier head normally reads, and
    probabilities (L+1, B, P, C) from each single patch token. Index 0 is before the first block.
    The head normally reads the class token, class and distillation token, or the mean of the patch
    tokens. For the second result, one patch token replaces all tokens that the head reads.
    """
    patches = [_patch_logits(model, x) for x in tokens]  # L+1 of (B, P, C)
    return predict_after_layers(model, tokens), upcast(torch.stack(patches)).softmax(dim=-1)


def predict_after_layers(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the first result of `apply_logit_lens`, the probabilities (L+1, B, C)."""
    logits = [classify_tokens(model, x) for x in tokens]  # L+1 of (B, C)
    return upcast(torch.stack(logits)).softmax(dim=-1)


def _patch_logits(model: nn.Module, x: Tensor) -> Tensor:
    prefix = model.num_prefix_tokens
    patches = x[:, prefix:]  # (B, P, D)
    # All tokens are copies of one patch token, so the head reads this patch at every position.
    copies = patches.flatten(0, 1)[:, None].expand(-1, prefix + 1, -1)  # (B*P, prefix+1, D)
    return classify_tokens(model, copies).unflatten(0, patches.shape[:2])  # (B, P, C)
