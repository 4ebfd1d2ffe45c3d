"""The logit lens: predictions of the classifier from the tokens after each layer.

The model's final norm and classifier head are applied to the output of each block (nostalgebraist
2020, "interpreting GPT: the logit lens"). They were trained only on tokens of the last layer. So
predictions from an earlier layer are an approximation. So are predictions from a single patch if
the classifier head was trained on the class token.

Letters: B batch, L layers, N tokens (prefix tokens, then P patches), D width, C classes.

    answers, patches = apply_logit_lens(model, trace(model, images).tokens)
    answers[-1]  # (B, C): the model's own probabilities
"""

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import classify_tokens, upcast


def apply_logit_lens(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the model's classifier head to the `tokens` (L+1, B, N, D) of `trace`.

    Returns two arrays of probabilities, where index 0 is before the first block. `answers`
    (L+1, B, C) are computed from the tokens that the head normally reads: the class token, both
    special tokens of a distilled model, or the mean of the patch tokens. The last ones are the
    model's prediction. `patches` (L+1, B, P, C) are computed from each single patch token, which
    replaces all tokens that the head reads.
    """
    answers = [classify_tokens(model, x) for x in tokens]  # L+1 of (B, C)
    patches = [_patch_logits(model, x) for x in tokens]  # L+1 of (B, P, C)
    return tuple(upcast(torch.stack(logits)).softmax(dim=-1) for logits in (answers, patches))


def _patch_logits(model: nn.Module, x: Tensor) -> Tensor:
    prefix = model.num_prefix_tokens
    patches = x[:, prefix:]  # (B, P, D)
    # All tokens are copies of the patch, so the head reads this patch from any of them.
    copies = patches.flatten(0, 1)[:, None].expand(-1, prefix + 1, -1)  # (B*P, prefix+1, D)
    return classify_tokens(model, copies).unflatten(0, patches.shape[:2])  # (B, P, C)
