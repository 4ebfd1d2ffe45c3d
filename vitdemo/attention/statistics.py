"""How far each head looks, how evenly it spreads what it looks at, and how alike tokens are.

All are of one image and say nothing of a class. Letters as in `vitdemo.attention`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo.attention import widen


def distance(attention: Tensor, grid_size: tuple[int, int], num_prefix_tokens: int) -> Tensor:
    """Mean attention distance of each head in patches: `attention` (..., H, N, N) to (..., H).

    Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929, appendix D.7: the distance between
    the middles of the patch that looks and of the patch looked at, weighted by the attention, then
    the mean over all patches that look. Only patches count, on both sides: a row's weights are
    divided by what it gives to patches; a row that gives them nothing stays where it is (0).

    Args:
        grid_size: rows and columns of the patches.
        num_prefix_tokens: tokens before the patches: class, distillation, registers.

    Raises `ValueError` where grid and prefix do not add up to N tokens.
    """
    p, N = num_prefix_tokens, attention.shape[-1]
    if p < 0 or p + math.prod(grid_size) != N:
        raise ValueError(
            f"{p} prefix tokens and {grid_size[0]} x {grid_size[1]} patches are not {N} tokens."
        )
    patches = widen(attention[..., p:, p:])  # (..., H, P, P)
    total = patches.sum(dim=-1)  # (..., H, P)
    far = (patches * _distances(grid_size, patches)).sum(dim=-1)  # (..., H, P)
    empty = total <= torch.finfo(total.dtype).tiny
    return (far / total.masked_fill(empty, 1.0)).mean(dim=-1)  # (..., H)


def entropy(attention: Tensor) -> Tensor:
    """Mean entropy of each head's rows in bits: `attention` (..., H, N, N) to (..., H).

    0 where every token looks at one token alone, log2(N) where all look at all alike; all tokens
    count, prefix tokens too, and 0 log 0 is 0.
    """
    return torch.special.entr(widen(attention)).sum(dim=-1).mean(dim=-1) / math.log(2)  # (..., H)


def largest_weight(attention: Tensor) -> Tensor:
    """Mean of the largest weight of each row: `attention` (..., H, N, N) to (..., H)."""
    return attention.amax(dim=-1).mean(dim=-1)  # (..., H)


def unscaled(attention: Tensor, scale: float) -> Tensor:
    """Weights (..., N, N) that the same queries and keys would give without their `scale`.

    `attention` is softmax(scale * q k). Its logarithm divided by `scale` is q k plus a constant of
    each row, which the softmax ignores. A weight that is 0 in `attention` stays 0.
    """
    return (attention.log() / scale).softmax(dim=-1)  # (..., N, N)


def token_similarity(tokens: Tensor) -> Tensor:
    """Cosine of every two tokens of a layer, `tokens` (..., N, D) to (..., N, N) in -1..1."""
    directions = F.normalize(widen(tokens), dim=-1)
    return (directions @ directions.mT).clamp(-1, 1)


def _distances(grid_size: tuple[int, int], like: Tensor) -> Tensor:
    """Euclidean distance between every two patches of the grid, (P, P), in `like`'s type."""
    rows, columns = (torch.arange(n, dtype=like.dtype, device=like.device) for n in grid_size)
    places = torch.cartesian_prod(rows, columns)  # (P, 2), in the order of the tokens
    return (places[:, None] - places[None]).square().sum(dim=-1).sqrt()  # (P, P)
