"""Maps computed from the attention weights of a Vision Transformer.

`rollout` and `relevance` combine the attention of all layers into one matrix per image.
`class_token_map` extracts one value per patch. Attention and rollout do not depend on the class, so
they do not explain a prediction. `relevance` and maps from `class_gradients` depend on the class.

Letters: B batch, L layers, H heads, N tokens (special tokens, then P patches), D width, C classes.

    attention = trace(model, images).attention  # (L, B, H, N, N)
    class_token_map(rollout(attention), num_prefix_tokens=1)  # (B, P)
"""

import functools
import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import class_gradients, upcast

FUSIONS = ("mean", "max", "min")


def fuse_heads(attention: Tensor, fusion: str = "mean") -> Tensor:
    """Combine the heads of `attention` (..., H, N, N) element-wise into (..., N, N), in float32.

    `fusion` is "mean", "max" or "min"; any other value raises `ValueError`. Each row of the result
    sums to at least one for "max", and to at most one for "min".
    """
    if fusion not in FUSIONS:
        raise ValueError(f"Unknown fusion '{fusion}': choose one of {', '.join(FUSIONS)}.")
    attention = upcast(attention)
    if fusion == "mean":
        return attention.mean(dim=-3)  # (..., N, N)
    return attention.amax(dim=-3) if fusion == "max" else attention.amin(dim=-3)


def rollout(
    attention: Tensor,
    *,
    fusion: str = "mean",
    discard_ratio: float = 0.0,
    residual: bool = True,
    start_layer: int = 0,
    num_prefix_tokens: int = 1,
) -> Tensor:
    """Compute attention rollout (B, N, N), the product of all layers of `attention`.

    Abnar & Zuidema 2020, https://arxiv.org/abs/2005.00928, section 3.

    Args:
        attention: (L, B, H, N, N), as from `trace`.
        fusion: how heads are combined: "mean", "max" or "min".
        discard_ratio: fraction of patches, 0 <= ratio < 1. In each row, the `floor(discard_ratio *
            P)` smallest weights of patches are set to 0.
        residual: average with the identity, for the skip connection around the attention.
        start_layer: first layer of the product, 0 to L-1.
        num_prefix_tokens: number of special tokens before the patches.

    Rows of the result sum to one. Raises `ValueError` for a value outside these ranges.
    """
    matrices = _rollout_matrices(
        attention, fusion, discard_ratio, residual, start_layer, num_prefix_tokens
    )
    return functools.reduce(_multiply_layer, matrices)  # (B, N, N)


def rollout_steps(
    attention: Tensor,
    *,
    fusion: str = "mean",
    discard_ratio: float = 0.0,
    residual: bool = True,
    start_layer: int = 0,
    num_prefix_tokens: int = 1,
) -> Tensor:
    """Compute the rollout after each layer from `start_layer`, (L-start, B, N, N).

    The last step is the result of `rollout`. Arguments and errors are as in `rollout`.
    """
    matrices = _rollout_matrices(
        attention, fusion, discard_ratio, residual, start_layer, num_prefix_tokens
    )
    return torch.stack(list(itertools.accumulate(matrices, _multiply_layer)))


def relevance(model: nn.Module, images: Tensor, target: int | Tensor) -> Tensor:
    """Compute the relevance (B, N, N) of each token for class `target` through all layers.

    Chefer et al. 2021, https://arxiv.org/abs/2103.15679, equations 5 and 6 (self-attention).
    R = I, then R += mean over heads of (dy/dA * A)+ @ R, from the first layer to the last.

    Args:
        model, images: as in `trace`. The caller may be in `no_grad` or `inference_mode`. No tensor
            gets a `.grad`.
        target: one class for all images, or a LongTensor (B,) with one class per image.

    Raises `ValueError` for a class out of range or a `target` of another shape. Raises `TypeError`
    for a target that is not an integer, or a model that `trace` rejects.
    """
    found = class_gradients(model, images, target)
    return accumulate_relevance(found.attention, found.attention_gradients)


def accumulate_relevance(attention: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Compute `relevance` (B, N, N) from attention and gradients of L layers, each (B, H, N, N)."""
    B, _, N, _ = attention[0].shape
    result = upcast(torch.eye(N, dtype=attention[0].dtype, device=attention[0].device))
    result = result.expand(B, -1, -1)
    for weights, gradient in zip(attention, gradients, strict=True):
        step = (upcast(gradient) * upcast(weights)).clamp(min=0).mean(dim=1)  # (B, N, N)
        result = result + step @ result
    return result


def subtract_identity(matrix: Tensor) -> Tensor:
    """Subtract the initial identity from `relevance` (..., N, N).

    The identity does not change the class token's row over the patches. In the mean of the patches'
    rows, the identity adds 1 / P to each patch, which would hide the contribution of attention.
    """
    return matrix - torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def class_token_map(matrix: Tensor, num_prefix_tokens: int) -> Tensor:
    """Return the class token's row of `matrix` (B, N, N) over the patches, (B, P).

    Without special tokens, the result is the mean of all rows. If the model is available, use
    `classifier_map` with `classifier_rows` instead. Raises `ValueError` if there is no patch.
    """
    rows = slice(0, 1 if num_prefix_tokens else None)
    return classifier_map(matrix, num_prefix_tokens, rows)


def classifier_map(matrix: Tensor, num_prefix_tokens: int, rows: slice) -> Tensor:
    """Return the mean of `rows` of `matrix` (B, N, N) over the patches, (B, P).

    `rows` come from `classifier_rows`. Raises `ValueError` if there is no patch.
    """
    _check_prefix(matrix, num_prefix_tokens)
    return upcast(matrix[:, rows, num_prefix_tokens:]).mean(dim=1)


def _rollout_matrices(
    attention: Tensor,
    fusion: str,
    discard_ratio: float,
    residual: bool,
    start_layer: int,
    num_prefix_tokens: int,
) -> Tensor:
    """Return the factors of the rollout (L-start, B, N, N), whose rows sum to one."""
    _check_rollout(attention, discard_ratio, start_layer, num_prefix_tokens)
    matrices = fuse_heads(attention[start_layer:], fusion)  # (L-start, B, N, N)
    matrices = _discard_lowest(matrices, discard_ratio, num_prefix_tokens)
    return _normalise_rows(matrices, residual)


def _multiply_layer(result: Tensor, matrix: Tensor) -> Tensor:
    return matrix @ result  # a later layer reads the output of earlier layers


def _discard_lowest(matrices: Tensor, discard_ratio: float, num_prefix_tokens: int) -> Tensor:
    patches = matrices[..., num_prefix_tokens:]  # (L, B, N, P)
    count = math.floor(discard_ratio * patches.shape[-1])
    if count == 0:
        return matrices
    # A stable sort breaks ties in the same way on every device. With ties, a threshold instead of a
    # count would discard too many weights.
    lowest = patches.argsort(dim=-1, stable=True)[..., :count]  # (L, B, N, count)
    return matrices.scatter(-1, lowest + num_prefix_tokens, 0.0)


def _normalise_rows(matrices: Tensor, residual: bool) -> Tensor:
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    if residual:
        matrices = (matrices + identity) / 2
    total = matrices.sum(dim=-1, keepdim=True)  # (L, B, N, 1)
    # With "min", a row can be all zeros. The row of the identity then replaces it.
    empty = total <= torch.finfo(matrices.dtype).tiny
    return torch.where(empty, identity, matrices / total.masked_fill(empty, 1.0))


def _check_rollout(
    attention: Tensor, discard_ratio: float, start_layer: int, num_prefix_tokens: int
) -> None:
    if attention.ndim != 5:
        raise ValueError(f"attention must be (L, B, H, N, N), not {tuple(attention.shape)}.")
    if not 0 <= discard_ratio < 1:
        raise ValueError(f"discard_ratio {discard_ratio} must be at least 0 and below 1.")
    if start_layer not in range(len(attention)):
        raise ValueError(f"start_layer {start_layer} must be in 0..{len(attention) - 1}.")
    _check_prefix(attention, num_prefix_tokens)


def _check_prefix(matrix: Tensor, num_prefix_tokens: int) -> None:
    if matrix.ndim < 3 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"A matrix of shape {tuple(matrix.shape)} does not end in (B, N, N).")
    if num_prefix_tokens not in range(matrix.shape[-1]):
        raise ValueError(
            f"num_prefix_tokens {num_prefix_tokens} must be in 0..{matrix.shape[-1] - 1}."
        )
