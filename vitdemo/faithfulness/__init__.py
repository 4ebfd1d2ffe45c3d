"""Is a map true to its model? Deletion and insertion curves, after Petsiuk et al. 2018 (RISE).

https://arxiv.org/abs/1806.07421, section 4.2. Deletion takes the patches away, what a map calls
most important first, and follows the probability of the class: a map that is true makes it fall at
once, so a small area is good. Insertion brings them back in the same order: a large area is good.
The score is insertion minus deletion: by how much the answer is higher, on average over the curve,
with what a map calls important than with the rest. It says something only beside maps that know
nothing (`nulls`), and beside an order from the centre out.

Letters: P patches (rows x columns), M orders, K steps, R random orders, n sets of patches, S side.

    found = measure(model, image, 3, {"relevance": values}, fill="drop")
    score = found.scores["relevance"]
    rank_p(score, found.random_scores)  # against random orders
    rank_p(score, shape_scores(model, image, 3, values, fill="drop"))  # against its own shape
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo import attention
from vitdemo.attributions import OnStep, class_count
from vitdemo.faithfulness.fills import FILLS, answers, blur, check_fill, fills
from vitdemo.faithfulness.nulls import (
    LEVEL,
    RANDOM_ORDERS,
    SHAPES,
    centredness,
    edge_map,
    random_rankings,
    rank_p,
    ranking,
    same_shape,
    staged_p,
)

__all__ = [
    "FILLS",
    "LEVEL",
    "RANDOM_ORDERS",
    "SHAPES",
    "answers",
    "blur",
    "centredness",
    "edge_map",
    "fills",
    "random_rankings",
    "rank_p",
    "ranking",
    "same_shape",
    "staged_p",
]

CENTRE, EDGES = "centre first", "edge map"  # the baselines that are one order per image
# Of a curve that is compared with baselines. Against one step per patch, the standard deviation of
# a score's error is 0.055 with 4 steps, 0.031 with 8 and 0.016 with 16 (`benchmarks/LOG.md`).
STEPS = 16


class Truth(NamedTuple):
    """Curves over the share of patches that is gone (deletion) or back (insertion), on the CPU."""

    shares: Tensor  # (K+1,), from 0 to 1
    deletion: dict[str, Tensor]  # name of the order -> (K+1,) probabilities
    insertion: dict[str, Tensor]
    random_deletion: Tensor  # (R, K+1), a curve for each random order
    random_insertion: Tensor  # (R, K+1), of the same orders

    @property
    def scores(self) -> dict[str, float]:
        """Insertion minus deletion area of each order, -1 to 1."""
        pairs = {name: (self.insertion[name], curve) for name, curve in self.deletion.items()}
        return {name: float(area(self.shares, up - down)) for name, (up, down) in pairs.items()}

    @property
    def random_scores(self) -> Tensor:
        """(R,): each order's own insertion minus deletion, as a map's is."""
        return area(self.shares, self.random_insertion - self.random_deletion)


class Band(NamedTuple):
    """Curves (R, K+1) as one: at each step their mean, and what nine of ten lie between."""

    mean: Tensor  # (K+1,)
    low: Tensor  # 5th percentile
    high: Tensor  # 95th percentile


def measure(
    model: nn.Module,
    image: Tensor,
    target: int,
    maps: Mapping[str, Tensor],
    *,
    fill: str = "mean",
    against: int | None = None,
    steps: int | None = None,
    random_orders: int = RANDOM_ORDERS,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> Truth:
    """Deletion and insertion curves of every map of one image, of random orders and `CENTRE`.

    Args:
        image: normalised, (1, 3, S, S), so that zero is the mean colour.
        target: the class whose probability is followed; with `against`, its probability when only
            these two classes are to choose from.
        maps: name -> (rows, columns), all on one grid; for `fill="drop"` on that of the patches.
        fill: "mean", "blur", "road" or "drop" (a ViT's tokens; all that stays sees only what stays,
            so it is refused where a convolutional stem mixes patches before they are tokens).
        steps: K, at most one for each patch, which is the default.
        on_step: called as (done, total); it may raise to end the work.

    Raises `ValueError` for a bad value. Each set of patches passes the model once, however many
    orders share it.
    """
    grid = _check(model, maps, fill)
    P = math.prod(grid)
    ranks = {name: ranking(values.flatten().cpu(), seed) for name, values in maps.items()}
    ranks[CENTRE] = ranking(centredness(*grid).flatten(), seed)
    orders = torch.cat([torch.stack([*ranks.values()]), random_rankings(random_orders, P, seed)])
    moved = _step_counts(P, steps)
    curves = _curves(model, image, (target, against), orders, moved, grid, fill, on_step)
    deletion, insertion = (dict(zip(ranks, part[: len(ranks)], strict=True)) for part in curves)
    return Truth(moved / P, deletion, insertion, *curves[:, len(ranks) :])


def shape_scores(
    model: nn.Module,
    image: Tensor,
    target: int,
    values: Tensor,
    *,
    fill: str = "mean",
    against: int | None = None,
    steps: int | None = None,
    count: int = SHAPES,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> Tensor:
    """Insertion minus deletion, (count,), of the map `values` (rows, columns) laid elsewhere.

    The null of `nulls.same_shape`; all else as in `measure`, whose `scores` are comparable where
    `steps` are the same.
    """
    grid = _check(model, {"": values}, fill)
    laid = same_shape(values.cpu(), count, seed)
    orders = torch.stack([ranking(own.flatten(), seed) for own in laid])
    moved = _step_counts(math.prod(grid), steps)
    deletion, insertion = _curves(
        model, image, (target, against), orders, moved, grid, fill, on_step
    )
    return area(moved / math.prod(grid), insertion - deletion)


def _curves(
    model: nn.Module,
    image: Tensor,
    classes: tuple[int, int | None],
    orders: Tensor,
    moved: Tensor,
    grid: tuple[int, int],
    fill: str,
    on_step: OnStep | None,
) -> Tensor:
    """(2, M, K+1): deletion and insertion curves of `orders` (M, P) when `moved` (K+1,) patches are
    gone, or back."""
    count = class_count(model)
    pair = [t for t in classes if t is not None]
    pair = [int(attention.check_target(t, 1, count, torch.device("cpu"))) for t in pair]
    left = orders[:, None] >= moved[:, None]  # (M, K+1, P)
    back = orders[:, None] < moved[:, None]
    sets, which = torch.cat([left, back]).flatten(0, 1).unique(dim=0, return_inverse=True)
    logits = answers(model, image, sets, grid, fill, on_step=on_step)  # (n, C)
    return probability(logits, *pair)[which].view(2, len(orders), -1)


def probability(logits: Tensor, target: int, against: int | None = None) -> Tensor:
    """Of `target` among all classes of `logits` (n, C), or among itself and `against`: (n,)."""
    if against is None:
        return logits.softmax(dim=1)[:, target]
    return (logits[:, target] - logits[:, against]).sigmoid()


def resampled(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Maps (B, rows, columns) on another `grid`, between the cells by straight lines, as is usual
    for Grad-CAM: for orders alone, an image shows the map's own cells."""
    if maps.shape[1:] == grid:
        return maps
    return F.interpolate(maps[:, None], grid, mode="bilinear", align_corners=False)[:, 0]


def area(shares: Tensor, curves: Tensor) -> Tensor:
    """Area under curves (..., K+1) over `shares` (K+1,), by trapezoids: the mean height, 0 to 1."""
    return torch.trapezoid(curves, shares)


def band(curves: Tensor) -> Band:
    """Mean and 5th and 95th percentile of curves (R, ...) over the first dimension."""
    low, high = curves.quantile(torch.tensor([0.05, 0.95], dtype=curves.dtype), dim=0)
    return Band(curves.mean(dim=0), low, high)


def _check(model: nn.Module, maps: Mapping[str, Tensor], fill: str) -> tuple[int, int]:
    """The grid that all maps are on."""
    check_fill(model, fill)
    grids = {tuple(values.shape) for values in maps.values()}
    if len(grids) != 1 or len(grid := grids.pop()) != 2:
        raise ValueError("Give at least one map, all of them (rows, columns) on one grid.")
    return grid


def _step_counts(patches: int, steps: int | None) -> Tensor:
    if steps is not None and steps < 1:
        raise ValueError(f"steps {steps} is not positive.")
    steps = patches if steps is None else min(steps, patches)
    return torch.linspace(0, patches, steps + 1).round().long()  # (K+1,)
