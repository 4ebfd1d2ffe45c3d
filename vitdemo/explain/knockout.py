"""Attention knock-out: tokens are blocked from attending to chosen tokens in chosen layers.

The method is from Geva et al. 2023, https://arxiv.org/abs/2304.14767, section 5. The attention
scores of the blocked pairs are minus infinity before the softmax. The other weights of each row
therefore still sum to one. The change of the prediction shows how much the prediction depends on
the information that passes between these tokens. The model is not changed: the mask is an argument
of the pass.

Letters: B batch, L layers, N tokens, D width, C classes. Layers count from 0.

    blocked = build_patch_knockout(model, range(0, 6))  # special tokens, layers 1 to 6
    compute_knockout_logits(model, images, blocked)  # (B, C)
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import (
    ForwardPass,
    Trace,
    reads_class_token,
    run_forward,
    stack_trace,
)
from vitdemo.models.plain_vit import check_plain_vit


def compute_knockout_logits(model: nn.Module, images: Tensor, blocked: Tensor) -> Tensor:
    """Compute the logits (B, C) of `images` (B, 3, height, width) with blocked attention.

    The images are normalised. `blocked` is a bool tensor (L, N, N), or (L, B, N, N) with a mask for
    each image. Where `blocked` is True, the row's token cannot attend to the column's token in any
    head of this layer.

    Raises `ValueError` for a `blocked` of another shape. A row that is all True gives NaN. Raises
    `TypeError` for a model that `trace` rejects.
    """
    return _run_masked(model, images, blocked).logits


def trace_with_knockout(model: nn.Module, images: Tensor, blocked: Tensor) -> Trace:
    """Compute logits, tokens and attention for `images` with the attention mask `blocked`."""
    return stack_trace(_run_masked(model, images, blocked))


def build_patch_knockout(model: nn.Module, layers: Iterable[int]) -> Tensor:
    """Build the mask (L, N, N) that blocks the attention of special tokens to patches in `layers`.

    Special tokens are the class token, the distillation token and the registers. The attention of
    all special tokens is blocked together, because the class token could otherwise read information
    about the patches from a register. If `layers` contains all layers, the logits do not depend on
    the image.

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
    blocked = torch.zeros(L, N, N, dtype=torch.bool)
    for layer in layers:
        if layer not in range(L):
            raise ValueError(f"There is no layer {layer}: the model has layers 0..{L - 1}.")
        blocked[layer, :p, p:] = True
    return blocked


def _run_masked(model: nn.Module, images: Tensor, blocked: Tensor) -> ForwardPass:
    check_plain_vit(model)
    L, B = len(model.blocks), len(images)
    N = model.num_prefix_tokens + model.patch_embed.num_patches
    if blocked.dtype != torch.bool or blocked.shape not in ((L, N, N), (L, B, N, N)):
        raise ValueError(
            f"`blocked` is {blocked.dtype} of shape {tuple(blocked.shape)}, not torch.bool of "
            f"shape {(L, N, N)} or {(L, B, N, N)}."
        )
    masks = blocked.to(images.device)
    return run_forward(model, images, [m[:, None] if m.ndim == 3 else m for m in masks])
