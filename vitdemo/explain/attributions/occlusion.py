"""Occlusion (Zeiler & Fergus 2014, https://arxiv.org/abs/1311.2901, section 4.2).

Letters: B batch, S side in pixels, n occluded images.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from vitdemo.explain.attributions.cells import cell_indices
from vitdemo.explain.attributions.method import (
    ATTRIBUTION_BATCH_SIZE,
    AttributionInput,
    AttributionMethod,
    OnStep,
    log_score,
)


def compute_occlusion(subject: AttributionInput) -> Tensor:
    def score(images: Tensor, picture: Tensor) -> Tensor:
        return log_score(subject.model, images, subject.class_weights[picture])

    return occlude(score, subject.images, subject.grid, subject.on_step)


@torch.no_grad()
def occlude(
    score: Callable[[Tensor, Tensor], Tensor],
    images: Tensor,
    grid: tuple[int, int],
    on_step: OnStep | None = None,
) -> Tensor:
    """Compute the decrease (B, rows, columns, ...) of a score when a cell becomes 0.

    `images` are (B, 3, S, S). `score` takes variants (n, 3, S, S) of the images, and the index (n,)
    of each variant's image; it returns (n, ...). `on_step` is as in `attribute`.
    """
    B, (rows, columns) = len(images), grid
    cell = cell_indices(*images.shape[-2:], grid, images.device)  # (S, S)
    total = B * rows * columns
    which = torch.arange(total, device=images.device)  # all cells of the first image come first
    report, scores = on_step or (lambda done, total: None), []
    for start in range(0, total, ATTRIBUTION_BATCH_SIZE):
        report(start, total)
        chunk = which[start : start + ATTRIBUTION_BATCH_SIZE]
        picture, hidden = chunk // (rows * columns), chunk % (rows * columns)
        kept = cell != hidden[:, None, None]  # (chunk, S, S)
        holed = images[picture] * kept[:, None]  # zero is the uniform colour
        scores.append(score(holed, picture))
    report(total, total)
    whole = score(images, torch.arange(B, device=images.device))  # (B, ...)
    return whole[:, None, None] - torch.cat(scores).unflatten(0, (B, rows, columns))


METHOD = AttributionMethod(
    "occlusion",
    "Occlusion",
    "Decrease of the class's log-probability if one patch is replaced by a uniform colour, the "
    "model input 0 (Zeiler & Fergus 2014). A patch gets a low value if its neighbours contain the "
    "same information. The model may never have seen such a patch in training.",
    compute_occlusion,
    is_signed=True,
    is_slow=True,
    is_linear=True,
)
