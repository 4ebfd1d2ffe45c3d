"""Statistics of attention heads (distance, entropy) and cosine similarity of tokens.

The statistics do not depend on a class. Letters: H heads, N tokens (special tokens, then P
patches), D width.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo.explain.forward_pass import upcast


def mean_attention_distance(
    attention: Tensor, grid_size: tuple[int, int], num_prefix_tokens: int
) -> Tensor:
    """Compute the mean attention distance (..., H) of each head in patches.

    The definition is from Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929, appendix D.7.
    The distance between the centres of query and key patch is weighted by the attention and
    averaged over query patches. Only patch tokens are used. The weights of a row are divided by
    their sum over the patches. If this sum is 0, the distance is 0.

    `attention` is (..., H, N, N). `grid_size` contains the rows and columns of the patches, and
    `num_prefix_tokens` is the number of special tokens before them. Raises `ValueError` if special
    tokens and patches do not add up to N tokens.
    """
    p, N = num_prefix_tokens, attention.shape[-1]
    if p < 0 or p + math.prod(grid_size) != N:
        raise ValueError(
            f"{p} special tokens and {grid_size[0]} x {grid_size[1]} patches are not {N} tokens."
        )
    patches = upcast(attention[..., p:, p:])  # (..., H, P, P)
    sides = (torch.arange(n, dtype=patches.dtype, device=patches.device) for n in grid_size)
    places = torch.cartesian_prod(*sides)  # (P, 2), in the order of the tokens
    distances = (places[:, None] - places).norm(dim=-1)  # (P, P)
    total = patches.sum(dim=-1)  # (..., H, P)
    far = (patches * distances).sum(dim=-1)  # (..., H, P)
    empty = total <= torch.finfo(total.dtype).tiny
    return (far / total.masked_fill(empty, 1.0)).mean(dim=-1)  # (..., H)


def entropy(attention: Tensor) -> Tensor:
    """Compute the mean entropy (..., H) of each head's attention rows, in bits.

    `attention` is (..., H, N, N). The entropy is 0 if every token attends to a single token, and
    log2(N) if attention is uniform. Special tokens are included, and 0 log 0 is 0.
    """
    return torch.special.entr(upcast(attention)).sum(dim=-1).mean(dim=-1) / math.log(2)  # (..., H)


def largest_weight(attention: Tensor) -> Tensor:
    """Compute the mean largest weight (..., H) of the rows of `attention` (..., H, N, N)."""
    return attention.amax(dim=-1).mean(dim=-1)  # (..., H)


def softmax_without_scale(attention: Tensor, scale: float) -> Tensor:
    """Compute the attention weights (..., N, N) of a head without the factor `scale`.

    `attention` is softmax(scale * q k). log(attention) / `scale` is q k plus a constant per row,
    and the constant does not change the softmax. A weight of 0 in `attention` stays 0.
    """
    return (attention.log() / scale).softmax(dim=-1)  # (..., N, N)


def token_similarity(tokens: Tensor) -> Tensor:
    """Compute the cosine similarity (..., N, N) of all pairs of `tokens` (..., N, D)."""
    directions = F.normalize(upcast(tokens), dim=-1)
    return (directions @ directions.mT).clamp(-1, 1)
