"""Search for the order of patches with the highest faithfulness score on one image.

The faithfulness score of an order depends only on the sets of patches that the steps of its curves
remove. The value of a set is the probability of the class with only these patches, minus the
probability without them. The score is the area under the curve of the values of all K + 1 sets.

The search has two parts. The first part fills the steps from both ends: the first steps with the
patches that raise the value most, and the last steps with the patches that lower it most. If a
given order, such as that of a map, has a higher score, it replaces the order of the first part. The
second part swaps two patches of neighbouring steps if this raises the score. Such a swap changes
only one set, so a test of a swap needs two forward passes. The score of the order is a lower bound
for the highest score: a better order may exist.

Letters: P patches (rows x columns), K steps, n sets of patches, S side.

    found = search_best_order(model, image, 3, (8, 8), start=values, fill="drop", steps=16)
    measure_perturbation_curves(model, image, 3, {"best": found.values}, fill="drop", steps=16)
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitdemo.explain.attributions import ATTRIBUTION_BATCH_SIZE, OnStep
from vitdemo.explain.checks import check_classes
from vitdemo.explain.faithfulness import (
    area_under_curve,
    class_probability,
    list_step_ends,
    rank_by_value,
)
from vitdemo.explain.faithfulness.fills import ReplacePatches, check_fill, predict_patch_sets
from vitdemo.explain.removal_search import MAX_PASSES

FILL_SHARE = 0.4  # of the passes: maximum for the first part
MIN_GAIN = 1e-6  # of a swap: smaller gains are rounding errors


@dataclass(frozen=True)
class OrderSearch:
    """The best order that a search found.

    The patches of `values` (rows, columns) have this order if they are sorted by decreasing value.
    Patches of the same step have equal values. `score` is the faithfulness score of the order with
    the steps of the search. `passes` is the number of images that passed through the model.
    """

    values: Tensor
    score: float
    passes: int


def search_best_order(
    model: nn.Module,
    image: Tensor,
    target: int,
    grid: tuple[int, int],
    *,
    start: Tensor | None = None,
    fill: str | ReplacePatches = "mean",
    against: int | None = None,
    steps: int | None = None,
    max_passes: int = MAX_PASSES,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> OrderSearch:
    """Search for the order of patches with the highest faithfulness score of class `target`.

    Args:
        image: normalised, (1, 3, S, S).
        grid: rows and columns of the patches. With `fill="drop"`, it must be the model's grid.
        start: a map (rows, columns) whose order the second part may improve.
        fill, against, steps: as in `measure_perturbation_curves`.
        max_passes: the search ends before it passes more images through the model. However, the
            first part always passes up to 4 (P + K) images, and `start` 2 (K + 1) images.
        seed: seed of the order in which swaps are tested.
        on_step: called as (passes, max_passes); an exception in `on_step` stops the search.

    Raises `ValueError` for a replacement that the model does not support, and for an unknown class.
    """
    check_fill(model, fill)
    P = math.prod(grid)
    classes = check_classes(target, against, image, model.num_classes)

    def measure(sets: Tensor) -> Tensor:
        logits = predict_patch_sets(model, image, torch.cat([sets, ~sets]), grid, fill)
        kept, removed = class_probability(logits, *classes).double().chunk(2)
        return kept - removed

    search = _Search(measure, list_step_ends(P, steps), max_passes, seed, on_step)
    search.fill_steps()
    if start is not None:
        search.replace_order(start)
    search.swap_patches()
    return OrderSearch(-search.step_of.view(grid).float(), search.score, search.passes)


class _Search:
    """The search of `search_best_order`. `step_of` (P,) is the step of each patch, 0 to K - 1.

    Set k = 0..K contains the patches of the steps below k, and `values` (K+1,) are the values of
    the sets. `measure_sets` computes the values (n,) of sets (n, P).
    """

    def __init__(
        self,
        measure_sets: Callable[[Tensor], Tensor],
        ends: Tensor,
        max_passes: int,
        seed: int,
        on_step: OnStep | None,
    ):
        self.measure_sets, self.ends, self.on_step = measure_sets, ends, on_step
        self.P, self.K, self.max_passes, self.passes = int(ends[-1]), len(ends) - 1, max_passes, 0
        self.generator = torch.Generator().manual_seed(seed)
        self.step_of = torch.zeros(self.P, dtype=torch.long)
        self.values = torch.empty(0)

    @property
    def score(self) -> float:
        return float(area_under_curve(self.ends / self.P, self.values))

    def measure(self, sets: Tensor) -> Tensor:
        """Compute the values (n,) of `sets` (n, P)."""
        values = []
        for part in sets.split(ATTRIBUTION_BATCH_SIZE // 2):
            values.append(self.measure_sets(part))
            self.passes += 2 * len(part)
            if self.on_step is not None:
                self.on_step(self.passes, self.max_passes)
        return torch.cat(values)

    def fill_steps(self) -> None:
        """Choose the patches of the steps 0, K - 1, 1, K - 2 and so on.

        Each step takes the patches with the largest gains. The gain of a patch is the change of the
        set's value by this patch alone, when last tested: an increase for the first steps, a
        decrease for the last steps. Each step tests the patches with the largest gains again.
        """
        ends = zip(range(self.K), reversed(range(self.K)), strict=True)
        *order, middle = list(itertools.chain(*ends))[: self.K]
        self.step_of[:] = middle  # the middle step takes the remaining patches
        single = torch.eye(self.P, dtype=torch.bool)
        empty, *rest = self.measure(torch.cat([torch.zeros_like(single[:1]), single]))
        gains = [torch.stack(rest) - empty, empty - torch.stack(rest)]
        for turn, step in enumerate(order):
            side, is_free = turn % 2, self.step_of == middle
            if turn > 1:
                base = self.step_of > step if side else self.step_of < step
                tested = find_largest(gains[side], is_free, self.count_candidates())
                before, *after = self.measure(torch.cat([base[None], base | single[tested]]))
                gains[side][tested] = (torch.stack(after) - before) * (-1 if side else 1)
            size = int(self.ends[step + 1] - self.ends[step])
            self.step_of[find_largest(gains[side], is_free, size)] = step
        self.values = self.measure_steps(self.step_of)

    def count_candidates(self) -> int:
        """Return the number of patches that each step tests again."""
        sets = int(FILL_SHARE * self.max_passes / 2) - self.P - 1  # after the first test
        return max(sets // max(self.K - 3, 1) - 1, math.ceil(self.P / self.K))

    def measure_steps(self, step_of: Tensor) -> Tensor:
        """Compute the values (K+1,) of the sets of the steps `step_of` (P,)."""
        return self.measure(step_of < torch.arange(self.K + 1)[:, None])

    def replace_order(self, start: Tensor) -> None:
        """Take the order of the map `start` (rows, columns) if its score is higher."""
        ranks, own = rank_by_value(start.flatten().cpu()), (self.step_of, self.values, self.score)
        self.step_of = (ranks[:, None] >= self.ends[1:]).sum(1)  # (P,)
        self.values = self.measure_steps(self.step_of)
        if self.score <= own[-1]:
            self.step_of, self.values, _ = own

    def swap_patches(self) -> None:
        """Swap patches of neighbouring steps until no swap raises the score, or the passes end."""
        untested = {k: self.draw_pairs(k) for k in range(1, self.K)}
        count = max(ATTRIBUTION_BATCH_SIZE // self.K, 1)  # of swaps of a set that fill a batch
        while any(untested.values()) and self.passes < self.max_passes - 1:
            for first in (1, 2):  # swaps for every other set do not depend on each other
                swaps = []
                for k in range(first, self.K, 2):
                    swaps += [(k, *pair) for pair in untested[k][:count]]
                    del untested[k][:count]
                for k in self.test_swaps(swaps[: (self.max_passes - self.passes) // 2]):
                    for changed in {k - 1, k, k + 1} & {*untested}:
                        untested[changed] = self.draw_pairs(changed)

    def draw_pairs(self, k: int) -> list[tuple[int, int]]:
        """Return all pairs of patches of the two steps next to set k, in random order."""
        sides = [(self.step_of == step).nonzero()[:, 0].tolist() for step in (k - 1, k)]
        pairs = list(itertools.product(*sides))
        return [pairs[i] for i in torch.randperm(len(pairs), generator=self.generator)]

    def test_swaps(self, swaps: list[tuple[int, int, int]]) -> set[int]:
        """Test swaps (set, patch, patch), and make the best swap of each set that raises its value.

        Return the changed sets.
        """
        if not swaps:
            return set()
        sets = torch.stack([self.step_of < k for k, *_ in swaps])
        for row, (_, *pair) in zip(sets, swaps, strict=True):
            row[pair] ^= True
        best = {}
        for (k, *pair), value in zip(swaps, self.measure(sets).tolist(), strict=True):
            least = best[k][0] if k in best else float(self.values[k]) + MIN_GAIN
            if value > least:
                best[k] = value, pair
        for k, (value, pair) in best.items():
            self.values[k] = value
            self.step_of[pair] = self.step_of[pair].flip(0)
        return {*best}


def find_largest(values: Tensor, is_allowed: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` largest `values` (P,) where `is_allowed` (P,) is true."""
    count = min(count, int(is_allowed.sum()))
    return values.masked_fill(~is_allowed, -math.inf).topk(count).indices
