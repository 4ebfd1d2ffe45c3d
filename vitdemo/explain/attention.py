"""Maps computed from the attention weights of a Vision Transformer.

`rollout`, `relevance` and `gradient_rollout` combine the attention of all layers into one matrix
per image. `classifier_map` extracts one value per patch. Attention and rollout do not depend on the
class, so they do not explain a prediction. Maps from `class_gradients` depend on the class.

Letters: B batch, L layers, H heads, N tokens (special tokens, then P patches), D width, C classes.

    attention = trace(model, images).attention  # (L, B, H, N, N)
    classifier_map(rollout(attention), 1, classifier_rows(model))  # (B, P)
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import class_gradients, upcast

FUSIONS = ("mean", "max", "min")
ROUNDING = 1e-4  # added to numbers of patches, because 0.7 * 90 is below 63 in floating point


def fuse_heads(attention: Tensor, fusion: str | Tensor = "mean") -> Tensor:
    """Combine the heads of `attention` (..., H, N, N) element-wise into (..., N, N), in float32.

    `fusion` is "mean", "max" or "min", or a tensor () with its index in `FUSIONS`; any other text
    raises `ValueError`. Each row of the result sums to at least one for "max", and to at most one
    for "min".
    """
    if isinstance(fusion, Tensor):
        found = torch.stack([fuse_heads(attention, name) for name in FUSIONS])
        return found.index_select(0, fusion[None])[0]
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
    steps = rollout_steps(
        attention,
        fusion=fusion,
        discard_ratio=discard_ratio,
        residual=residual,
        start_layer=start_layer,
        num_prefix_tokens=num_prefix_tokens,
    )
    return steps[-1]


def rollout_steps(
    attention: Tensor,
    *,
    fusion: str | Tensor = "mean",
    discard_ratio: float | Tensor = 0.0,
    residual: bool | Tensor = True,
    start_layer: int = 0,
    num_prefix_tokens: int = 1,
) -> Tensor:
    """Compute the rollout after each layer from `start_layer`, (L-start, B, N, N).

    The last step is the result of `rollout`. Arguments and errors are as in `rollout`. Fusion (an
    index of `FUSIONS`), ratio and residual may be tensors () whose values are not read, so that the
    function can be recorded as a graph.
    """
    _check_rollout(attention, discard_ratio, start_layer, num_prefix_tokens)
    matrices = fuse_heads(attention[start_layer:], fusion)  # (L-start, B, N, N)
    matrices = _discard_lowest(matrices, discard_ratio, num_prefix_tokens)
    matrices = _normalise_rows(matrices, residual)
    # A later layer reads the output of earlier layers, so its matrix is the left factor.
    products = itertools.accumulate(matrices, lambda result, matrix: matrix @ result)
    return torch.stack(list(products))


def relevance(model: nn.Module, images: Tensor, target: int | Tensor) -> Tensor:
    """Compute the relevance (B, N, N) of each token for class `target` through all layers.

    Chefer et al. 2021, https://arxiv.org/abs/2103.15679, equations 5 and 6 (self-attention).
    R = I, then R += mean over heads of (dy/dA * A)+ @ R, from the first layer to the last.

    Args:
        model, images: as in `trace`. The caller may be in `no_grad` or `inference_mode`. No `.grad`
        is set. target: one class for all images, or a LongTensor (B,) with one class per image.

    The values of `target` are not read, so that the function can be recorded as a graph: check them
    with `checks.check_target`. Raises `ValueError` for a `target` of another shape, and `TypeError`
    for a target that is not an integer, or a model that `trace` rejects.
    """
    found = class_gradients(model, images, target)
    return accumulate_relevance(found.attention, found.attention_gradients)


def accumulate_relevance(attention: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Compute `relevance` (B, N, N) from attention and gradients of L layers, each (B, H, N, N)."""
    result = _identity_like(attention[0][:, 0])
    for weights, gradient in zip(attention, gradients, strict=True):
        step = (upcast(gradient) * upcast(weights)).clamp(min=0).mean(dim=1)  # (B, N, N)
        result = result + step @ result
    return result


def gradient_rollout(attention: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Compute the rollout (B, N, N) of gradient-weighted attention.

    `attention` and `gradients` are (B, H, N, N) for each of L layers. Each layer's matrix is I +
    (mean over heads of dy/dA * A)+, with rows that sum to one. The matrices are multiplied from the
    first layer to the last. The product of only the skip connections is subtracted, because it
    would hide all other contributions in a model with mean pooling.

    This is a corrected form of the "gradient attention rollout" in
    https://github.com/jacobgil/vit-explain (`vit_grad_rollout.py`), which has no paper. That code
    has three errors. (1) Each gradient is paired with the attention of the opposite layer, because
    backward hooks run from the last layer to the first. (2) Columns are divided instead of rows.
    (3) By default, 90% of the entries are discarded, but only in the first image of a batch. The
    result differs from `relevance` in two ways: heads can cancel each other, and a large gradient
    cannot make a layer outweigh the skip connection.
    """
    identity = _identity_like(attention[0][:, 0])
    result, skips = identity, identity
    for weights, gradient in zip(attention, gradients, strict=True):
        matrix = identity + (upcast(gradient) * upcast(weights)).mean(dim=1).clamp(min=0)
        total = matrix.sum(dim=-1, keepdim=True)  # (B, N, 1)
        result, skips = matrix / total @ result, skips / total
    return result - skips


def subtract_identity(matrix: Tensor) -> Tensor:
    """Subtract the initial identity from `relevance` (..., N, N).

    The identity does not change the class token's row over the patches. In the mean of the patches'
    rows, the identity adds 1 / P to each patch, which would hide the contribution of attention.
    """
    return matrix - _identity_like(matrix)


def classifier_map(matrix: Tensor, num_prefix_tokens: int, rows: slice) -> Tensor:
    """Return the mean over `rows` of `matrix` (B, N, N), for the patch columns only, as (B, P).

    `rows` come from `classifier_rows`. Raises `ValueError` if there is no patch.
    """
    _check_prefix(matrix, num_prefix_tokens)
    return upcast(matrix[:, rows, num_prefix_tokens:]).mean(dim=1)


def _discard_lowest(
    matrices: Tensor, discard_ratio: float | Tensor, num_prefix_tokens: int
) -> Tensor:
    special, patches = matrices.tensor_split([num_prefix_tokens], dim=-1)  # (L, B, N, P) patches
    P = patches.shape[-1]
    share = discard_ratio * P + ROUNDING
    count = share.floor() if isinstance(share, Tensor) else math.floor(share)
    if not isinstance(count, Tensor) and count == 0:
        return matrices
    # A stable sort breaks ties in the same way on every device. With ties, a threshold instead of a
    # count would discard too many weights.
    order = patches.argsort(dim=-1, stable=True)  # (L, B, N, P)
    kept = (torch.arange(P, device=order.device) >= count).expand(order.shape)
    is_kept = torch.zeros_like(patches, dtype=torch.bool).scatter(-1, order, kept)
    return torch.cat([special, patches.where(is_kept, 0.0)], dim=-1)


def _normalise_rows(matrices: Tensor, residual: bool | Tensor) -> Tensor:
    identity = _identity_like(matrices)
    averages = (matrices + identity) / 2
    if isinstance(residual, Tensor):
        matrices = torch.where(residual, averages, matrices)
    elif residual:
        matrices = averages
    total = matrices.sum(dim=-1, keepdim=True)  # (L, B, N, 1)
    # With "min", a row can be all zeros. The row of the identity then replaces it.
    empty = total <= torch.finfo(matrices.dtype).tiny
    return torch.where(empty, identity, matrices / total.masked_fill(empty, 1.0))


def _identity_like(matrices: Tensor) -> Tensor:
    """Return identity matrices of the shape of `matrices` (..., N, N), at least in float32."""
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    return upcast(identity).expand(matrices.shape)


def _check_rollout(
    attention: Tensor, discard_ratio: float | Tensor, start_layer: int, num_prefix_tokens: int
) -> None:
    if attention.ndim != 5:
        raise ValueError(f"attention must be (L, B, H, N, N), not {tuple(attention.shape)}.")
    if not isinstance(discard_ratio, Tensor) and not 0 <= discard_ratio < 1:
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
