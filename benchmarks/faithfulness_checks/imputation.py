"""Noisy linear imputation: missing pixels are interpolated from their neighbours.

ROAD, Rong et al. 2022, https://arxiv.org/abs/2202.00449, section 4. Each missing pixel is the
weighted mean of its eight neighbours: 1/6 for direct and 1/12 for diagonal neighbours. Neighbours
may also be missing, so one sparse linear system gives all missing pixels. Then noise is added. As a
result, the shape of the removed region, which could reveal the map, is hardly visible.

Letters: P patches (rows x columns), n sets of patches, S side, s side in the linear system.
"""

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import splu
from torch import Tensor

from vitdemo.explain.attributions import cell_indices

NOISE_STD = 0.01  # standard deviation in units of the normalised image, as in the paper
# Minimum side of a patch and of the image in the linear system, in pixels.
MIN_PATCH_SIDE, MIN_IMAGE_SIDE = 2, 28
NEIGHBOUR_WEIGHTS = [
    (dy, dx, 1 / 6 if 0 in (dy, dx) else 1 / 12)
    for dy in (-1, 0, 1)
    for dx in (-1, 0, 1)
    if (dy, dx) != (0, 0)
]


def impute_patches(image: Tensor, sets: Tensor, grid: tuple[int, int], seed: int = 0) -> Tensor:
    """Return `image` (1, 3, S, S) with imputed patches, (n, 3, S, S), for each set of patches.

    `sets` (n, P) is True for the patches of `grid` that remain unchanged. For large images, the
    linear system is solved at a lower resolution. Its solution is smooth, so little is lost.
    """
    height, width = image.shape[-2:]
    factor = _downscale_factor(height, width, grid)
    small = F.avg_pool2d(image, factor)  # (1, 3, s, s)
    cell = cell_indices(*small.shape[-2:], grid, sets.device)  # (s, s)
    found = torch.stack([_solve_pixels(small[0], stays[cell]) for stays in sets])  # (n, 3, s, s)
    if factor > 1:
        found = F.interpolate(found, (height, width), mode="bilinear", align_corners=False)
    noise = torch.randn(image.shape, generator=torch.Generator().manual_seed(seed))
    stays = sets[:, None, cell_indices(height, width, grid, sets.device)]  # (n, 1, S, S)
    return torch.where(stays, image, found + NOISE_STD * noise.to(image))


def _downscale_factor(height: int, width: int, grid: tuple[int, int]) -> int:
    """Return the largest power of two by which patches can be reduced down to the minimum sides."""
    factor = 1
    while all(
        side % (2 * factor * patches) == 0
        and side // (2 * factor) >= max(MIN_IMAGE_SIDE, MIN_PATCH_SIDE * patches)
        for side, patches in zip((height, width), grid, strict=True)
    ):
        factor *= 2
    return factor


def _solve_pixels(image: Tensor, stays: Tensor) -> Tensor:
    """Interpolate the pixels of `image` (3, s, s) that are False in `stays` (s, s).

    If no pixel is True in `stays`, the result has the mean colour.
    """
    kept = stays.cpu().numpy()
    if kept.all() or not kept.any():
        return image if kept.all() else torch.zeros_like(image)
    pixels = image.double().cpu().numpy()  # (3, s, s)
    ys, xs = np.nonzero(~kept)
    number = np.full(kept.shape, -1)
    number[ys, xs] = np.arange(len(ys))
    total, known = np.zeros(len(ys)), np.zeros((len(ys), 3))
    entries = []  # (row, column, weight)
    for dy, dx, weight in NEIGHBOUR_WEIGHTS:
        y, x = ys + dy, xs + dx
        inside = (y >= 0) & (y < kept.shape[0]) & (x >= 0) & (x < kept.shape[1])
        rows, y, x = np.flatnonzero(inside), y[inside], x[inside]
        total[rows] += weight
        there = kept[y, x]
        known[rows[there]] += weight * pixels[:, y[there], x[there]].T
        entries.append((rows[~there], number[y[~there], x[~there]], weight))
    rows, columns = (np.concatenate([entry[i] for entry in entries]) for i in (0, 1))
    weights = np.concatenate([np.full(len(entry[0]), entry[2]) for entry in entries])
    own = np.arange(len(ys))
    system = coo_matrix(
        (
            np.concatenate([total, -weights]),
            (np.concatenate([own, rows]), np.concatenate([own, columns])),
        )
    ).tocsc()
    pixels[:, ys, xs] = splu(system).solve(known).T
    return torch.from_numpy(pixels).to(image)
