"""Occlusion (Zeiler & Fergus 2014, https://arxiv.org/abs/1311.2901, section 4.2).

Letters: B batch, S side in pixels, n occluded images.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from vitdemo.explain.attributions.cells import cell_indices
from vitdemo.explain.attributions.method import (
    ATTRIBUTION_BATCH_SIZE,
    LOOP_BATCH_SIZE,
    AttributionInput,
    AttributionLoop,
    AttributionMethod,
    OnStep,
    Values,
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
    total = B * rows * columns
    which = torch.arange(total, device=images.device)  # all cells of the first image come first
    report, scores = on_step or (lambda done, total: None), []
    for start in range(0, total, ATTRIBUTION_BATCH_SIZE):
        report(start, total)
        chunk = which[start : start + ATTRIBUTION_BATCH_SIZE]
        picture, hidden = chunk // (rows * columns), chunk % (rows * columns)
        scores.append(score(hide_cells(images[picture], hidden, grid), picture))
    report(total, total)
    whole = score(images, torch.arange(B, device=images.device))  # (B, ...)
    return whole[:, None, None] - torch.cat(scores).unflatten(0, (B, rows, columns))


def hide_cells(images: Tensor, cells: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return images (n, 3, S, S), or copies of one image, in each of which one cell of (n,) is 0.

    Zero is the uniform colour.
    """
    cell = cell_indices(*images.shape[-2:], grid, images.device)  # (S, S)
    return images * (cell != cells[:, None, None])[:, None]


def start_loop(subject: AttributionInput) -> Values:
    whole = log_score(subject.model, subject.images, subject.class_weights)[0]  # ()
    return {
        "map": torch.zeros(subject.grid),
        "whole": whole,
        "done": torch.tensor(0),
        "total": torch.tensor(math.prod(subject.grid)),
        "is_finished": torch.tensor(False),
    }


def continue_loop(subject: AttributionInput, values: Values) -> Values:
    P = math.prod(subject.grid)
    # The last cell is repeated if the number of cells is not a multiple of the batch size.
    cells = (values["done"] + torch.arange(LOOP_BATCH_SIZE)).clamp(max=P - 1)
    holed = hide_cells(subject.images, cells, subject.grid)
    decreases = values["whole"] - log_score(subject.model, holed, subject.class_weights)
    found = values["map"].flatten().scatter(0, cells, decreases).view(subject.grid)
    done = (values["done"] + LOOP_BATCH_SIZE).clamp(max=P)
    return values | {"map": found, "done": done, "is_finished": done == P}


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
    loop=AttributionLoop(start_loop, continue_loop),
)
