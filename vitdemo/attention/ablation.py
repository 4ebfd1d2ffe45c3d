"""Attention heads switched off: what the model says without them.

A head that is off hands nothing on (Michel et al. 2019, https://arxiv.org/abs/1905.10650, equation
4 with a mask of zeros and ones). The model stays as it is: the mask is an argument of the pass, so
two users may switch off different heads of one model at the same moment.

Letters: B batch, L layers, H heads, N tokens, D width, C classes. Layers and heads count from 0.

    logits_without(model, images, {(2, 0), (2, 1)})  # (B, C), layer 3 without its first two heads
"""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from vitdemo.attention import _answer, _embed, _step

Head = tuple[int, int]  # (layer, head), both from 0


def logits_without(model: nn.Module, images: Tensor, heads: Collection[Head]) -> Tensor:
    """Logits (B, C) of normalised `images` (B, 3, height, width) with `heads` switched off.

    An empty `heads` gives the model's own answer. Raises `ValueError` naming a head that the model
    does not have, `TypeError` for a model that `trace` refuses.
    """
    x = _embed(model, images)  # (B, N, D)
    keep = _keep(model, heads, x)
    for block, kept in zip(model.blocks, keep, strict=True):
        x, *_ = _step(block, x, kept[None])
    return _answer(model, x)


def logits_without_each(model: nn.Module, tokens: Tensor) -> Tensor:
    """Logits (L, H, B, C) with each single head off, the others on.

    `tokens` (L+1, B, N, D) are those of `trace`: layers before a head's own are not run again, and
    the H heads of a layer go through the others as one batch of H * B.
    """
    return torch.stack([_without_each(model, layer, x) for layer, x in enumerate(tokens[:-1])])


def _without_each(model: nn.Module, layer: int, x: Tensor) -> Tensor:
    """Tokens (B, N, D) that enter `layer` -> logits (H, B, C), each without one of its heads."""
    H, B = model.blocks[layer].attn.num_heads, len(x)
    keep = (1 - torch.eye(H, dtype=x.dtype, device=x.device)).repeat_interleave(B, 0)  # (H*B, H)
    x, *_ = _step(model.blocks[layer], x.repeat(H, 1, 1), keep)  # (H*B, N, D)
    for block in model.blocks[layer + 1 :]:
        x, *_ = _step(block, x)
    return _answer(model, x).unflatten(0, (H, B))  # (H, B, C)


def _keep(model: nn.Module, heads: Collection[Head], x: Tensor) -> list[Tensor]:
    """L masks (H,), zero where a head is off."""
    keep = [torch.ones(b.attn.num_heads, dtype=x.dtype, device=x.device) for b in model.blocks]
    for layer, head in heads:
        if layer not in range(len(keep)) or head not in range(len(keep[layer])):
            shape = f"layers 0..{len(keep) - 1} of heads 0..{len(keep[0]) - 1}"
            raise ValueError(f"There is no head {(layer, head)}: the model has {shape}.")
        keep[layer][head] = 0
    return keep
