"""Noisy linear imputation: pixels that are gone are foretold by those around them.

ROAD, Rong et al. 2022, https://arxiv.org/abs/2202.00449, section 4: each missing pixel is the
weighted mean of its eight neighbours (1/6 beside it, 1/12 across its corners), some of which may be
missing too, so all are found together from one sparse linear system; then a little noise. A hole's
shape, which gives away what a map calls important, is far harder to see in the result.

Letters: P patches (rows x columns), n sets of patches, S side, s the side that is solved at.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo.attributions import cells

NOISE = 0.01  # standard deviation, in units of the normalised image; the paper's
# Pixels along a patch and along the image, at least, at which the system is solved.
FINE, SMALLEST = 2, 28
NEIGHBOURS = [
    (dy, dx, 1 / 6 if 0 in (dy, dx) else 1 / 12)
    for dy in (-1, 0, 1)
    for dx in (-1, 0, 1)
    if (dy, dx) != (0, 0)
]


def imputed(image: Tensor, sets: Tensor, grid: tuple[int, int], seed: int = 0) -> Tensor:
    """(n, 3, S, S): `image` (1, 3, S, S) with only the patches of each set (n, P) of `grid`.

    Large images are solved at a fraction of their side and what was found is enlarged: it is
    smooth, and what stays is not touched.
    """
    height, width = image.shape[-2:]
    factor = _factor(height, width, grid)
    small = F.avg_pool2d(image, factor)  # (1, 3, s, s)
    cell = cells(*small.shape[-2:], grid, sets.device)  # (s, s)
    found = torch.stack([_solved(small[0], stays[cell]) for stays in sets])  # (n, 3, s, s)
    if factor > 1:
        found = F.interpolate(found, (height, width), mode="bilinear", align_corners=False)
    noise = torch.randn(image.shape, generator=torch.Generator().manual_seed(seed))
    stays = sets[:, None, cells(height, width, grid, sets.device)]  # (n, 1, S, S)
    return torch.where(stays, image, found + NOISE * noise.to(image))


def _factor(height: int, width: int, grid: tuple[int, int]) -> int:
    """The largest power of two that leaves that many pixels and divides the patches."""
    factor = 1
    while all(
        side % (2 * factor * patches) == 0 and side // (2 * factor) >= max(SMALLEST, FINE * patches)
        for side, patches in zip((height, width), grid, strict=True)
    ):
        factor *= 2
    return factor


def _solved(image: Tensor, stays: Tensor) -> Tensor:
    """`image` (3, s, s) where it `stays` (s, s) bool, and what solves the system elsewhere.

    Where nothing stays there is nothing to go by, and the mean colour is all that is left.
    """
    from scipy.sparse import coo_matrix  # slow to import, and few ask for it
    from scipy.sparse.linalg import splu

    kept = stays.cpu().numpy()
    if kept.all() or not kept.any():
        return image if kept.all() else torch.zeros_like(image)
    pixels = image.double().cpu().numpy()  # (3, s, s)
    ys, xs = np.nonzero(~kept)
    number = np.full(kept.shape, -1)
    number[ys, xs] = np.arange(len(ys))
    total, known = np.zeros(len(ys)), np.zeros((len(ys), 3))
    entries = []  # (row, column, weight)
    for dy, dx, weight in NEIGHBOURS:
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
