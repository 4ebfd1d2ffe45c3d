"""Greedy search for few patches whose removal changes a prediction.

This is the deletion game of Fong & Vedaldi 2017 (https://arxiv.org/abs/1704.03296) on whole
patches. In each step, the search tests the candidate patches: each one is removed together with the
patches of earlier steps. The patch with the lowest objective stays removed. When the prediction has
changed, the search can restore patches that are not needed. The number of patches is an upper bound
for the smallest number: a smaller set may exist.

Letters: P patches (rows x columns), C classes, n sets of patches, S side.

    objective = partial(score_class, target=3)
    found = search_removal(model, image, (8, 8), objective, fill="drop")  # an order of all patches
    misses = lambda logits: logits.argmax(dim=1) != 3
    search_removal(model, image, (8, 8), objective, stop=misses, restores=True).order  # few patches
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo.explain.attributions import OnStep
from vitdemo.explain.faithfulness.fills import ReplacePatches, check_fill, predict_patch_sets

MAX_PASSES = 2000  # images that a search passes through the model, by default
FULL_STEP = 3  # one of this number of steps tests all patches


@dataclass(frozen=True)
class RemovalSearch:
    """The patches that a search removed, in this order.

    `values` are the objective for the full image and after each step of the search. `passes` is the
    number of images that passed through the model. `is_met` is true if the stop rule holds without
    these patches; without a stop rule, it is true if all patches are removed.
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
    restores: bool = False,
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
        restores: whether the search then restores patches, one per step, while the rule `stop`
            still holds. Each step restores the patch that leaves the objective lowest.
        candidates: number of patches to test in most steps. They are the patches with the largest
            decrease of the objective in their last test. The first step and every third step after
            it test all patches, because decreases change. None: every step tests all patches.
        max_passes: the search ends before it passes more images through the model.
        on_step: called as (passes, max_passes); an exception in `on_step` stops the search.

    Raises `ValueError` for a replacement that the model does not support, and for numbers below 1.
    """
    check_fill(model, fill)
    for name, number in (("candidates", candidates), ("max_passes", max_passes)):
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}, but must be at least 1.")
    predict = partial(predict_patch_sets, model, image, grid=grid, fill=fill)
    search = _Search(predict, objective, stop, math.prod(grid), max_passes, on_step)
    search.remove_patches(candidates)
    if stop and restores:
        search.restore_patches()
    return RemovalSearch(
        tuple(search.order), tuple(search.values), search.passes, search.is_finished
    )


class _Search:
    """A search in progress; see `search_removal` for the arguments."""

    def __init__(
        self,
        predict: Callable[..., Tensor],
        objective: Callable[[Tensor], Tensor],
        stop: Callable[[Tensor], Tensor] | None,
        P: int,
        max_passes: int,
        on_step: OnStep | None,
    ):
        self.predict, self.objective, self.stop = predict, objective, stop
        self.max_passes, self.on_step = max_passes, on_step
        self.passes, self.order = 0, []
        self.removed = torch.zeros(P, dtype=torch.bool)
        scores, meets_rule = self.test_sets(self.removed[None])
        self.values, self.meets_rule = scores.tolist(), bool(meets_rule)

    @property
    def is_finished(self) -> bool:
        return self.meets_rule if self.stop else bool(self.removed.all())

    def test_sets(self, sets: Tensor) -> tuple[Tensor, Tensor]:
        """Return objective (n,) and stop rule (n,) without the patches in `sets` (n, P)."""
        before = self.passes
        self.passes += len(sets)
        report = self.on_step and (lambda done, _: self.on_step(before + done, self.max_passes))
        logits = self.predict(~sets, on_step=report)  # (n, C)
        never = torch.zeros(len(sets), dtype=torch.bool)
        return self.objective(logits).double(), self.stop(logits) if self.stop else never

    def remove_patches(self, candidates: int | None) -> None:
        """Remove patches until the stop rule holds, all patches are removed or no pass is left."""
        P = len(self.removed)
        decrease = torch.zeros(P, dtype=torch.float64)  # of the objective, when last tested
        while not self.is_finished and len(self.order) < P and self.passes < self.max_passes:
            is_full = candidates is None or len(self.order) % FULL_STEP == 0
            count = min(P if is_full else candidates, P - len(self.order))
            ranked = decrease.masked_fill(self.removed, -math.inf).argsort(
                descending=True, stable=True
            )
            tested = ranked[: min(count, self.max_passes - self.passes)]  # (n,)
            scores, meets_rule = self.test_sets(self.removed | F.one_hot(tested, P).bool())
            decrease[tested] = self.values[-1] - scores
            allowed = meets_rule if meets_rule.any() else torch.ones_like(meets_rule)
            best = int(scores.masked_fill(~allowed, math.inf).argmin())
            self.order.append(int(tested[best]))
            self.change_patch(self.order[-1], scores[best], meets_rule[best])

    def restore_patches(self) -> None:
        """Restore patches while the stop rule still holds and passes are left."""
        while self.meets_rule and self.order and self.passes + len(self.order) <= self.max_passes:
            tested = torch.tensor(self.order)  # (n,)
            sets = self.removed & ~F.one_hot(tested, len(self.removed)).bool()
            scores, meets_rule = self.test_sets(sets)
            if not meets_rule.any():
                return
            best = int(scores.masked_fill(~meets_rule, math.inf).argmin())
            self.change_patch(self.order.pop(best), scores[best], meets_rule[best])

    def change_patch(self, patch: int, score: Tensor, meets_rule: Tensor) -> None:
        """Remove the patch, or restore it if it is removed."""
        self.removed[patch] = ~self.removed[patch]
        self.values.append(float(score))
        self.meets_rule = bool(meets_rule)
