"""Faithfulness score of the first few patches of an order: compares a ranking by hand with maps.

The curves are the first K steps of the deletion and the insertion curve of the faithfulness test
(Petsiuk et al. 2018, https://arxiv.org/abs/1806.07421, section 4.2), with one patch per step. The
score is the mean probability of the class with only the first 1 to K patches, minus the mean
probability without them.

Letters: P patches (rows x columns), M orders, K first patches, n sets of patches, S side.

    curves = measure_first_patches(model, image, 3, torch.tensor([[27, 35]]), (8, 8), fill="drop")
    score_first_patches(curves)  # (1,)
    search_first_patches(model, image, 3, (8, 8), 2, fill="drop").order  # a greedy search
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo.explain.attributions import ATTRIBUTION_BATCH_SIZE, OnStep
from vitdemo.explain.checks import check_classes
from vitdemo.explain.faithfulness import class_probability
from vitdemo.explain.faithfulness.fills import ReplacePatches, check_fill, predict_patch_sets
from vitdemo.explain.removal_search import (
    MAX_PASSES,
    RemovalLoop,
    RemovalSearch,
    run_search,
)

CANDIDATES = 12  # patches that most steps of the search test


def measure_first_patches(
    model: nn.Module,
    image: Tensor,
    target: int,
    orders: Tensor,
    grid: tuple[int, int],
    *,
    fill: str | ReplacePatches = "mean",
    against: int | None = None,
    on_step: OnStep | None = None,
) -> Tensor:
    """Measure the probability (2, M, K+1) of class `target` without and with only first patches.

    Args:
        image: normalised, (1, 3, S, S).
        orders: the first patches of each order (M, K), from 0 in reading order.
        grid: rows and columns of the patches. With `fill="drop"`, it must be the model's grid.
        fill, against, on_step: as in `measure_perturbation_curves`.

    Raises `ValueError` for an unknown class, a replacement that the model does not support, and an
    order that contains a patch twice.
    """
    check_fill(model, fill)
    classes = check_classes(target, against, image, model.num_classes)
    if any(len(order.unique()) < len(order) for order in orders):
        raise ValueError("orders contains a patch twice in one order.")
    steps = F.one_hot(orders, math.prod(grid)).cumsum(1).bool()  # (M, K, P)
    first = torch.cat([torch.zeros_like(steps[:, :1]), steps], dim=1)  # (M, K+1, P)
    sets, which = torch.cat([~first, first]).flatten(0, 1).unique(dim=0, return_inverse=True)
    logits = predict_patch_sets(model, image, sets, grid, fill, on_step=on_step)
    return class_probability(logits, *classes)[which].view(2, len(orders), -1)


def score_first_patches(curves: Tensor) -> Tensor:
    """Compute the score (M,) of each order from the curves (2, M, K+1)."""
    without, only = curves[..., 1:].mean(dim=-1)
    return only - without


def search_first_patches(
    model: nn.Module,
    image: Tensor,
    target: int,
    grid: tuple[int, int],
    count: int,
    *,
    fill: str | ReplacePatches = "mean",
    against: int | None = None,
    on_step: OnStep | None = None,
) -> RemovalSearch:
    """Search greedily for the order of `count` patches with the highest score.

    Each step chooses the patch with the highest probability with only the chosen patches, minus the
    probability without them. A better order may exist. A test of a set passes two images through
    the model, and `passes` of the result counts sets. Other arguments and errors are as in
    `measure_first_patches`.
    """
    check_fill(model, fill)
    classes = check_classes(target, against, image, model.num_classes)

    def predict(sets: Tensor, needed: Tensor) -> Tensor:
        """Compute the probabilities without and with only the patches of `sets` (n, P), (n, 2)."""
        chosen = sets[needed]
        logits = predict_patch_sets(model, image, torch.cat([~chosen, chosen]), grid, fill)
        found = class_probability(logits, *classes).view(2, -1).T
        return found.new_zeros(len(sets), 2).index_put((needed,), found)

    def lower(probabilities: Tensor) -> Tensor:
        return probabilities[:, 0] - probabilities[:, 1]

    limits = {"max_passes": MAX_PASSES, "batch_size": ATTRIBUTION_BATCH_SIZE // 2}
    limits |= {"candidates": CANDIDATES, "max_removed": count}
    loop = RemovalLoop(math.prod(grid), lower, stop=None, restores=False, **limits)
    return run_search(loop, predict, image.dtype, on_step)
