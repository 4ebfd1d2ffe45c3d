"""Attention heads switched off: what the model answers without them.

A head that is off hands on its mean over other images ("mean ablation"), or nothing (Michel et
al. 2019, https://arxiv.org/abs/1905.10650, equation 4). With nothing, what it adds to every image
alike goes too, which the rest of the model was trained to expect, and the answer may change for
want of that constant alone. The model stays as it is: mask and mean are arguments of the pass, so
two users may switch off different heads of one model at the same moment.

Letters: B batch, L layers, H heads, N tokens, D width, C classes. Layers and heads count from 0.

    means = mean_outputs(model, other_images)
    logits_without(model, images, {(2, 0), (2, 1)}, means)  # (B, C), layer 3 without two heads
"""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from vitdemo.attention import _answer, _embed, _heads, _step, widen

Head = tuple[int, int]  # (layer, head), both from 0
Means = Sequence[Tensor]  # of each of the L layers, (H, N, D/H)


def mean_outputs(model: nn.Module, images: Tensor) -> Means:
    """What each head hands on to each token, mean over normalised `images` (B, 3, height, width).

    They are to be other ones than those that are asked about: over one image alone it is what the
    head hands on itself.
    """
    x, means = _embed(model, images), []
    for block in model.blocks:
        handed, _ = _heads(block.attn, block.norm1(x))  # (B, H, N, D/H)
        means.append(widen(handed).mean(dim=0))
        x, *_ = _step(block, x)
    return means


def logits_without(
    model: nn.Module, images: Tensor, heads: Collection[Head], means: Means | None = None
) -> Tensor:
    """Logits (B, C) of normalised `images` (B, 3, height, width) with `heads` switched off.

    They hand on their `means`, or zeros without them. An empty `heads` gives the model's own
    answer. Raises `ValueError` naming a head that the model does not have, `TypeError` for a model
    that `trace` refuses.
    """
    x = _embed(model, images)  # (B, N, D)
    keep = _keep(model, heads, x)
    instead = means or [None] * len(keep)
    for block, kept, mean in zip(model.blocks, keep, instead, strict=True):
        x, *_ = _step(block, x, kept[None], mean)
    return _answer(model, x)


def logits_without_each(model: nn.Module, tokens: Tensor, means: Means | None = None) -> Tensor:
    """Logits (L, H, B, C) with each single head off, the others on; `means` as in `logits_without`.

    `tokens` (L+1, B, N, D) are those of `trace`: layers before a head's own are not run again, and
    the H heads of a layer go through the others as one batch of H * B.
    """
    instead = means or [None] * (len(tokens) - 1)
    parts = zip(tokens[:-1], instead, strict=True)
    return torch.stack([_without_each(model, layer, *part) for layer, part in enumerate(parts)])


def _without_each(model: nn.Module, layer: int, x: Tensor, mean: Tensor | None) -> Tensor:
    """Tokens (B, N, D) that enter `layer` -> logits (H, B, C), each without one of its heads."""
    H, B = model.blocks[layer].attn.num_heads, len(x)
    keep = (1 - torch.eye(H, dtype=x.dtype, device=x.device)).repeat_interleave(B, 0)  # (H*B, H)
    x, *_ = _step(model.blocks[layer], x.repeat(H, 1, 1), keep, mean)  # (H*B, N, D)
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
