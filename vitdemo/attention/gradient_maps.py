"""Maps of one class made of attention, features and their gradients (see `class_gradients`).

Letters: B batch, L layers, H heads, N tokens (prefix tokens, then P patches), D width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from vitdemo.attention import widen


def gradient_rollout(
    attention: Sequence[Tensor], gradients: Sequence[Tensor], *, skips: bool = True
) -> Tensor:
    """Rollout of attention weighted by its gradient: L of (B, H, N, N) each, to (B, N, N).

    In each layer I + (mean over heads of dy/dA * A)+ with rows that sum to one, multiplied from the
    first layer to the last: the "gradient attention rollout" of
    https://github.com/jacobgil/vit-explain. It differs from `relevance` in that heads may cancel
    each other and that no layer can outweigh the skip connection by the size of its gradient.
    Rows of the result sum to one. Without `skips`, what the skip connections alone hand on, a token
    to itself, is taken away from it: in a model that averages its patches all else drowns in it.
    """
    B, _, N, _ = attention[0].shape
    identity = widen(torch.eye(N, dtype=attention[0].dtype, device=attention[0].device))
    result, alone = identity.expand(B, -1, -1), identity.new_ones(B, N)
    for weights, gradient in zip(attention, gradients, strict=True):
        matrix = identity + (widen(gradient) * widen(weights)).mean(dim=1).clamp(min=0)  # (B, N, N)
        total = matrix.sum(dim=-1)  # (B, N)
        result, alone = matrix / total[..., None] @ result, alone / total
    return result if skips else result - torch.diag_embed(alone)


def token_grad_cam(features: Tensor, gradients: Tensor, num_prefix_tokens: int) -> Tensor:
    """Grad-CAM of tokens (B, N, D) and their gradients, as (B, P), none of it negative.

    Selvaraju et al. 2017, https://arxiv.org/abs/1610.02391, equations 1 and 2, with the patches in
    place of the places of a convolution: the mean runs over patches, the sum over D.
    """
    features = widen(features[:, num_prefix_tokens:])  # (B, P, D)
    gradients = widen(gradients[:, num_prefix_tokens:])
    weights = gradients.mean(dim=1, keepdim=True)  # (B, 1, D)
    return (features * weights).sum(dim=-1).clamp(min=0)  # (B, P)
