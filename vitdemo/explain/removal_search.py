"""Greedy search for few patches whose removal changes a prediction.

This is the deletion game of Fong & Vedaldi 2017 (https://arxiv.org/abs/1704.03296) on whole
patches. In each step, the search tests the removal of each candidate patch together with the
patches removed before, and removes the patch with the lowest objective. A greedy search finds an
upper bound of the smallest number of patches: a smaller set may exist.

Letters: P patches (rows x columns), C classes, n sets of patches, K removed patches, S side.

    objective = partial(score_class, target=3)
    found = search_removal(model, image, (8, 8), objective, fill="drop")  # an order of all patches
    misses = lambda logits: logits.argmax(dim=1) != 3
    search_removal(model, image, (8, 8), objective, stop=misses).order  # until the class changes
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitdemo.explain.attributions import OnStep
from vitdemo.explain.faithfulness.fills import ReplacePatches, check_fill, predict_patch_sets

MAX_PASSES = 2000  # images that a search passes through the model, by default


@dataclass(frozen=True)
class RemovalSearch:
    """The K patches that a search removed, in this order.

    `values` (K+1,) are the objective before the first removal and after each removal. `passes` is
    the number of images that passed through the model. `is_met` is true if the stop rule holds
    without these patches; without a stop rule, it is true if all patches are removed.
    """

    order: tuple[int, ...]
    values: tuple[float, ...]
    passes: int
    is_met: bool


def score_class(logits: Tensor, target: int) -> Tensor:
    """Return the log-probability (n,) of class `target` from `logits` (n, C).

    It has the same order as the probability, but also separates probabilities near 1.
    """
    return logits.log_softmax(dim=1)[:, target]


def search_removal(
    model: nn.Module,
    image: Tensor,
    grid: tuple[int, int],
    objective: Callable[[Tensor], Tensor],
    *,
    fill: str | ReplacePatches = "mean",
    stop: Callable[[Tensor], Tensor] | None = None,
    candidates: int | None = None,
    max_passes: int = MAX_PASSES,
    on_step: OnStep | None = None,
) -> RemovalSearch:
    """Remove patches of `image`, one per step, so that the objective becomes as low as possible.

    Args:
        image: normalised, (1, 3, S, S).
        grid: rows and columns of the patches. With `fill="drop"`, it must be the model's grid.
        objective: function of logits (n, C) that returns the values (n,) to lower, such as
            `score_class` or the logit of a class.
        fill: replacement of removed patches, as in `predict_patch_sets`.
        stop: function of logits (n, C) that returns whether the search ends (n,). None means that
            the search removes all patches.
        candidates: number of patches to test per step: those with the largest decrease of the
            objective when they were last tested. The first step tests all patches. None means all.
        max_passes: the search ends before it passes more images through the model.
        on_step: called as (passes, max_passes); an exception in `on_step` stops the search.

    Raises `ValueError` for a replacement that the model does not support, and for numbers below 1.
    """
    check_fill(model, fill)
    for name, number in (("candidates", candidates), ("max_passes", max_passes)):
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}, but must be at least 1.")
    P, passes = math.prod(grid), 0

    def predict(sets: Tensor) -> Tensor:
        """Compute the logits (n, C) without the patches in `sets` (n, P)."""
        nonlocal passes
        before = passes
        report = on_step and (lambda done, _: on_step(before + done, max_passes))
        passes += len(sets)
        return predict_patch_sets(model, image, ~sets, grid, fill, on_step=report)

    removed = torch.zeros(P, dtype=torch.bool)
    logits = predict(removed[None])
    order, values = [], objective(logits).tolist()
    decrease = torch.zeros(P, dtype=torch.float64)  # of the objective, when last tested
    while not (is_met := _is_met(stop, logits, removed)) and passes < max_passes and len(order) < P:
        count = P if candidates is None or not order else candidates
        ranked = decrease.masked_fill(removed, -math.inf).argsort(descending=True, stable=True)
        tested = ranked[: min(count, P - len(order), max_passes - passes)]  # (n,)
        sets = removed | torch.nn.functional.one_hot(tested, P).bool()  # (n, P)
        found = predict(sets)
        scores = objective(found).double()
        decrease[tested] = values[-1] - scores
        best = _choose_set(scores, stop and stop(found))
        removed, logits = sets[best], found[best : best + 1]
        order.append(int(tested[best]))
        values.append(float(scores[best]))
    return RemovalSearch(tuple(order), tuple(values), passes, is_met)


def _is_met(stop: Callable[[Tensor], Tensor] | None, logits: Tensor, removed: Tensor) -> bool:
    """Return whether the search ends with the `removed` patches (P,) and their `logits` (1, C)."""
    return bool(removed.all()) if stop is None else bool(stop(logits))


def _choose_set(scores: Tensor, meets_rule: Tensor | None) -> int:
    """Return the index of the lowest of `scores` (n,), if possible of a set that meets the rule."""
    if meets_rule is not None and meets_rule.any():
        scores = scores.masked_fill(~meets_rule, math.inf)
    return int(scores.argmin())
