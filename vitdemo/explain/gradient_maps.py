"""Attribution maps from attention, features and their gradients (see `class_gradients`).

Letters: B batch, L layers, H heads, N tokens (special tokens, then P patches), D width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from vitdemo.explain.forward_pass import upcast


def gradient_rollout(
    attention: Sequence[Tensor], gradients: Sequence[Tensor], *, include_skips: bool = True
) -> Tensor:
    """Compute the rollout (B, N, N) of gradient-weighted attention.

    `attention` and `gradients` are (B, H, N, N) for each of L layers. Each layer's matrix is
    I + (mean over heads of dy/dA * A)+, with rows that sum to one. The matrices are multiplied from
    the first layer to the last. Unless `include_skips`, the contribution of the skip connections is
    subtracted, because it would hide all others in a model with mean pooling.

    This is a corrected form of the "gradient attention rollout" in
    https://github.com/jacobgil/vit-explain (`vit_grad_rollout.py`), which has no paper. That code
    has three errors. It pairs each gradient with the attention of the opposite layer, because
    backward hooks run from the last layer to the first. It divides columns instead of rows. It
    discards 90% of the entries by default, but only in the first image of a batch.
    The result differs from `relevance` in two ways: heads can cancel each other, and a large
    gradient cannot make a layer outweigh the skip connection.
    """
    B, _, N, _ = attention[0].shape
    identity = upcast(torch.eye(N, dtype=attention[0].dtype, device=attention[0].device))
    result, alone = identity.expand(B, -1, -1), identity.new_ones(B, N)
    for weights, gradient in zip(attention, gradients, strict=True):
        matrix = identity + (upcast(gradient) * upcast(weights)).mean(dim=1).clamp(
            min=0
        )  # (B, N, N)
        total = matrix.sum(dim=-1)  # (B, N)
        result, alone = matrix / total[..., None] @ result, alone / total
    return result if include_skips else result - torch.diag_embed(alone)


def token_grad_cam(features: Tensor, gradients: Tensor, num_prefix_tokens: int) -> Tensor:
    """Compute Grad-CAM (B, P) from token features (B, N, D) and their gradients.

    Selvaraju et al. 2017, https://arxiv.org/abs/1610.02391, equations 1 and 2. Patches replace the
    positions of a convolution: the mean is over patches, the sum over D. Negative values become 0.
    """
    features = upcast(features[:, num_prefix_tokens:])  # (B, P, D)
    gradients = upcast(gradients[:, num_prefix_tokens:])
    weights = gradients.mean(dim=1, keepdim=True)  # (B, 1, D)
    return (features * weights).sum(dim=-1).clamp(min=0)  # (B, P)
