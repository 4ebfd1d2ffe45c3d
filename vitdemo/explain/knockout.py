"""Attention knock-out: tokens are barred from attending to chosen tokens in chosen layers.

Geva et al. 2023, https://arxiv.org/abs/2304.14767, section 5: the attention scores of the barred
pairs are minus infinity before the softmax, so the other weights of each row still sum to one. The
change of the prediction shows how much the prediction depends on the information that passes
between these tokens. The model is not changed: the mask is an argument of the pass.

Letters: B batch, L layers, N tokens, D width, C classes. Layers count from 0.

    barred = build_patch_knockout(model, range(0, 6))  # special tokens, layers 1 to 6
    compute_knockout_logits(model, images, barred)  # (B, C)
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import (
    Trace,
    classify_tokens,
    embed_images,
    reads_class_token,
    run_block,
)
from vitdemo.models.plain_vit import check_plain_vit


def compute_knockout_logits(model: nn.Module, images: Tensor, barred: Tensor) -> Tensor:
    """Compute the logits (B, C) of normalised `images` (B, 3, height, width) with barred attention.

    `barred` is a bool tensor (L, N, N), or (L, B, N, N) with a mask for each image. Where `barred`
    is True, the row's token cannot attend to the column's token in any head of this layer.

    Raises `ValueError` for a `barred` of another shape, or with a row that is all True. Raises
    `TypeError` for a model that `trace` rejects.
    """
    for x, _ in _run_layers(model, embed_images(model, images), barred):
        last = x  # (B, N, D)
    return classify_tokens(model, last)


def trace_with_knockout(model: nn.Module, images: Tensor, barred: Tensor) -> Trace:
    """Compute logits, tokens and attention for `images` with the attention mask `barred`."""
    tokens, attention = [embed_images(model, images)], []
    for x, weights in _run_layers(model, tokens[0], barred):
        tokens.append(x)
        attention.append(weights)
    return Trace(classify_tokens(model, tokens[-1]), torch.stack(tokens), torch.stack(attention))


def build_patch_knockout(model: nn.Module, layers: Iterable[int]) -> Tensor:
    """Build the mask (L, N, N) that bars all special tokens from the patches in `layers`.

    Special tokens are the class token, the distillation token and the registers. They are barred
    together, because the class token could otherwise read information about the patches from a
    register. If `layers` contains all layers, the logits do not depend on the image.

    Raises `ValueError` for a layer that does not exist. Also raises `ValueError` for a model that
    predicts from the mean of the patch tokens, because its prediction always depends on patches.
    """
    check_plain_vit(model)
    if not reads_class_token(model):
        raise ValueError(
            f"{type(model).__name__} predicts from the mean of its patch tokens. Use a model that "
            "predicts from a class token."
        )
    L, p = len(model.blocks), model.num_prefix_tokens
    N = p + model.patch_embed.num_patches
    barred = torch.zeros(L, N, N, dtype=torch.bool)
    for layer in layers:
        if layer not in range(L):
            raise ValueError(f"There is no layer {layer}: the model has layers 0..{L - 1}.")
        barred[layer, :p, p:] = True
    return barred


def _run_layers(model: nn.Module, x: Tensor, barred: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the tokens (B, N, D) and the attention (B, H, N, N) of each layer."""
    _check_knockout_mask(barred, len(model.blocks), *x.shape[:2])
    for block, mask in zip(model.blocks, barred.to(x.device), strict=True):
        own = mask[:, None] if mask.ndim == 3 else mask  # (B, 1, N, N) or (N, N)
        x, weights, _ = run_block(block, x, barred=own)
        yield x, weights


def _check_knockout_mask(barred: Tensor, L: int, B: int, N: int) -> None:
    if barred.dtype != torch.bool or barred.shape not in ((L, N, N), (L, B, N, N)):
        raise ValueError(
            f"`barred` is {barred.dtype} of shape {tuple(barred.shape)}, not torch.bool of shape "
            f"{(L, N, N)} or {(L, B, N, N)}."
        )
    if barred.all(dim=-1).any():
        raise ValueError("A row of `barred` is all True. Leave one entry of each row False.")
