"""Colours of patches: the first three principal components of their tokens.

The components are red, green and blue, so patches with similar tokens have similar colours. Oquab
et al. 2023 (DINOv2, https://arxiv.org/abs/2304.07193, figure 1) show patches in this way. The axes
are fitted on the patches of several images together, so a colour has the same meaning in all of
them. The sign of each axis is fixed, and the colours range from the 2nd to the 98th percentile of
the fitted patches, so that few extreme tokens do not determine the scale.

Letters: L layers, n fitted patches, D width, K = 3 components.

    tokens = trace(model, images).tokens[1:, :, model.num_prefix_tokens :]  # (L, B, P, D)
    axes = fit_patch_axes(tokens.flatten(1, 2))
    colour_patches(axes, tokens[:, 0])  # (L, P, 3), 0 to 1
"""

from typing import NamedTuple

import torch
from torch import Tensor

NUM_COMPONENTS = 3  # red, green, blue
LOW_QUANTILE, HIGH_QUANTILE = 0.02, 0.98
# A component with a smaller fraction of the variance is rounding noise. Its colour is constant.
MIN_VARIANCE_RATIO = 1e-10


class PatchAxes(NamedTuple):
    """Principal axes of the patch tokens of each layer, on the CPU in float64."""

    mean: Tensor  # (L, D)
    directions: Tensor  # (L, D, K), unit vectors; zeros for a component without variance
    low: Tensor  # (L, K), component that becomes colour 0
    high: Tensor  # (L, K), component that becomes colour 1
    ratios: Tensor  # (L, K), explained variance ratios


def fit_patch_axes(tokens: Tensor) -> PatchAxes:
    """Fit the axes of each layer on the patch tokens (L, n, D) of all images.

    The sign of an axis is chosen so that the component with the largest absolute value is positive.
    Raises `ValueError` for tokens of another number of dimensions, without patches, with a width
    below 3, or with NaN or infinity.
    """
    if tokens.ndim != 3 or not tokens.shape[1] or tokens.shape[2] < NUM_COMPONENTS:
        raise ValueError(
            f"The tokens have shape {tuple(tokens.shape)}, not (L, n, D) with n > 0 and "
            f"D >= {NUM_COMPONENTS}."
        )
    if not tokens.isfinite().all():
        raise ValueError("The tokens contain NaN or infinity.")
    tokens = tokens.detach().cpu().double()
    mean = tokens.mean(1)  # (L, D)
    centred = tokens - mean[:, None]
    variances, vectors = torch.linalg.eigh(centred.mT @ centred)  # (L, D) ascending, (L, D, D)
    total = variances.sum(1, keepdim=True).clamp_min(torch.finfo(tokens.dtype).tiny)
    ratios = (variances / total).flip(1)[:, :NUM_COMPONENTS].clamp_min(0)  # (L, K)
    directions = vectors.flip(2)[..., :NUM_COMPONENTS]  # (L, D, K)
    components = centred @ directions  # (L, n, K)
    largest = components.gather(1, components.abs().argmax(1, keepdim=True))[:, 0]  # (L, K)
    signs = torch.where(largest < 0, -1.0, 1.0) * (ratios > MIN_VARIANCE_RATIO)
    components = components * signs[:, None]
    low, high = (components.quantile(q, dim=1) for q in (LOW_QUANTILE, HIGH_QUANTILE))
    return PatchAxes(mean, directions * signs[:, None], low, high, ratios)


def colour_patches(axes: PatchAxes, tokens: Tensor) -> Tensor:
    """Return the colours (L, n, K), 0 to 1, of patch tokens (L, n, D) of any image.

    Components outside the range of the axes have the colour 0 or 1. A component without variance
    has the colour 0.5. No values are read, so the function can be recorded as a graph. Raises
    `ValueError` for tokens whose layers or width are not those of the axes.
    """
    L, D = axes.mean.shape
    if tokens.ndim != 3 or (len(tokens), tokens.shape[2]) != (L, D):
        raise ValueError(f"The tokens have shape {tuple(tokens.shape)}, not ({L}, n, {D}).")
    dtype = torch.promote_types(tokens.dtype, torch.float32)
    mean, directions, low, high = (
        each.to(tokens.device, dtype) for each in (axes.mean, axes.directions, axes.low, axes.high)
    )
    components = (tokens.to(dtype) - mean[:, None]) @ directions  # (L, n, K)
    span = high - low
    has_range = span > 0
    colours = (components - low[:, None]) / torch.where(has_range, span, 1.0)[:, None]
    return torch.where(has_range[:, None], colours.clamp(0, 1), 0.5)
