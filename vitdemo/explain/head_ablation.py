"""Ablation of attention heads: the model's predictions without some heads.

The output of an ablated head is replaced by zeros (Michel et al. 2019,
https://arxiv.org/abs/1905.10650, equation 4), or by its mean over other images. Zeros also remove
the part of the output that is the same for every image. Later layers expect this constant, so the
prediction may change merely because the constant is missing. The model is not changed, because mask
and means are arguments of the pass. Several users can therefore ablate different heads at the same
time.

Letters: B batch, L layers, H heads, N tokens, D width, C classes. Layers and heads count from 0.

    means = compute_head_means(model, other_images)
    ablate_heads(model, images, {(2, 0), (2, 1)}, means)  # (B, C), layer 3 without two heads
"""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import (
    classify_tokens,
    compute_heads,
    embed_images,
    run_block,
    upcast,
)
from vitdemo.models.plain_vit import check_plain_vit

HeadIndex = tuple[int, int]  # (layer, head), both counted from 0
HeadMeans = Sequence[Tensor]  # mean outputs (H, N, D/H) of the heads in each of L layers


def compute_head_means(model: nn.Module, images: Tensor) -> HeadMeans:
    """Compute the mean output of each head for each token over normalised `images`.

    `images` are (B, 3, height, width). These images should not contain the image to explain,
    because the mean would then contain a part of the head's output for this image.
    """
    x, means = embed_images(model, images), []
    for block in model.blocks:
        handed, _ = compute_heads(block.attn, block.norm1(x))  # (B, H, N, D/H)
        means.append(upcast(handed).mean(dim=0))
        x, *_ = run_block(block, x)
    return means


def ablate_heads(
    model: nn.Module, images: Tensor, heads: Collection[HeadIndex], means: HeadMeans | None = None
) -> Tensor:
    """Compute logits (B, C) of normalised `images` (B, 3, height, width) without `heads`.

    The output of `heads` is replaced by `means`, or by zeros. If `heads` is empty, the result is
    the unchanged model's logits. Raises `ValueError` for an unknown head, and `TypeError` for a
    model that `trace` rejects.
    """
    return compute_masked_logits(model, images, build_head_masks(model, heads), means)


def compute_masked_logits(
    model: nn.Module, images: Tensor, masks: Sequence[Tensor], means: HeadMeans | None = None
) -> Tensor:
    """Compute logits (B, C) of `images`; `masks` are as from `build_head_masks`, for each layer.

    No values are read, so the function can be recorded as a graph of images and masks.
    """
    x = embed_images(model, images)  # (B, N, D)
    instead = means or [None] * len(masks)
    for block, mask, mean in zip(model.blocks, masks, instead, strict=True):
        x, *_ = run_block(block, x, mask[None].to(x), mean)
    return classify_tokens(model, x)


def build_head_masks(model: nn.Module, heads: Collection[HeadIndex]) -> list[Tensor]:
    """Return a mask (H,) for each layer that is 0 for ablated heads and 1 for other heads.

    Raises `ValueError` for an unknown head, and `TypeError` for a model that `trace` rejects.
    """
    check_plain_vit(model)
    masks = [torch.ones(block.attn.num_heads) for block in model.blocks]
    for layer, head in heads:
        if layer not in range(len(masks)) or head not in range(len(masks[layer])):
            shape = f"layers 0..{len(masks) - 1} with heads 0..{len(masks[0]) - 1}"
            raise ValueError(f"There is no head {(layer, head)}: the model has {shape}.")
        masks[layer][head] = 0
    return masks


def ablate_each_head(model: nn.Module, tokens: Tensor, means: HeadMeans | None = None) -> Tensor:
    """Compute logits (L, H, B, C) with one head ablated at a time; `means`: see `ablate_heads`.

    `tokens` (L+1, B, N, D) come from `trace`, so layers before the head are not run again. The
    later layers process one batch of H * B images: a copy of the batch for each ablated head.
    """
    instead = means or [None] * (len(tokens) - 1)
    parts = zip(tokens[:-1], instead, strict=True)
    return torch.stack(
        [_ablate_layer_heads(model, layer, *part) for layer, part in enumerate(parts)]
    )


def _ablate_layer_heads(model: nn.Module, layer: int, x: Tensor, mean: Tensor | None) -> Tensor:
    """Compute logits (H, B, C) with one head of `layer` ablated at a time; `x` is (B, N, D)."""
    H, B = model.blocks[layer].attn.num_heads, len(x)
    keep = (1 - torch.eye(H, dtype=x.dtype, device=x.device)).repeat_interleave(B, 0)  # (H*B, H)
    x, *_ = run_block(model.blocks[layer], x.repeat(H, 1, 1), keep, mean)  # (H*B, N, D)
    for block in model.blocks[layer + 1 :]:
        x, *_ = run_block(block, x)
    return classify_tokens(model, x).unflatten(0, (H, B))  # (H, B, C)
