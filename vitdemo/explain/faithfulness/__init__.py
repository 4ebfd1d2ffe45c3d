"""Faithfulness test of a map: deletion and insertion curves, after Petsiuk et al. 2018 (RISE).

https://arxiv.org/abs/1806.07421, section 4.2. Deletion removes the patches by decreasing map value,
and measures the probability of the class. If the map is faithful, the probability falls early and
the area under the curve is small. Insertion restores the patches in the same order. If the map is
faithful, the area under the insertion curve is large. The score is the insertion area minus the
deletion area. The score must be compared with the baselines: random orders, transformed copies of
the map, the centre-first order and the edge map.

Letters: P patches (rows x columns), M orders, K steps, R random orders, n sets of patches, S side.

    found = measure_perturbation_curves(model, image, 3, {"relevance": values}, fill="drop")
    score = found.scores["relevance"]
    rank_p_value(score, found.random_scores)  # against random orders
    copies = score_transformed_copies(model, image, 3, values, fill="drop")
    rank_p_value(score, copies)  # against transformed copies
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo.explain.attributions import OnStep
from vitdemo.explain.checks import check_classes
from vitdemo.explain.faithfulness.baselines import (
    NUM_COPIES,
    NUM_RANDOM_ORDERS,
    SIGNIFICANCE_LEVEL,
    centre_map,
    draw_random_rankings,
    draw_transformed_copies,
    edge_map,
    rank_by_value,
    rank_p_value,
    staged_p_value,
)
from vitdemo.explain.faithfulness.fills import (
    FILLS,
    ReplacePatches,
    blur_image,
    check_fill,
    predict_patch_sets,
    supported_fills,
)

__all__ = [  # re-exported names of other modules
    "FILLS",
    "SIGNIFICANCE_LEVEL",
    "blur_image",
    "edge_map",
    "rank_p_value",
    "staged_p_value",
    "supported_fills",
]

# Baselines with a single order per image
CENTRE_BASELINE, EDGE_BASELINE = "centre first", "edge map"
# Steps per curve. Compared with one step per patch, the error of a score has a standard deviation
# of 0.031 with 8 steps and 0.016 with 16 steps (benchmarks/log/2026-11-27-faithfulness-steps.md).
CURVE_STEPS = 16


class PerturbationCurves(NamedTuple):
    """Deletion and insertion curves: class probability by fraction of patches, on the CPU."""

    fractions: Tensor  # (K+1,), from 0 to 1
    deletion: dict[str, Tensor]  # probabilities (K+1,) by the name of the order
    insertion: dict[str, Tensor]
    random_deletion: Tensor  # (R, K+1), one curve for each random order
    random_insertion: Tensor  # (R, K+1), for the same orders

    @property
    def scores(self) -> dict[str, float]:
        """The insertion area minus the deletion area of each order, -1 to 1."""
        return {
            name: float(area_under_curve(self.fractions, self.insertion[name] - down))
            for name, down in self.deletion.items()
        }

    @property
    def random_scores(self) -> Tensor:
        """The scores (R,) of the random orders."""
        return area_under_curve(self.fractions, self.random_insertion - self.random_deletion)


def measure_perturbation_curves(
    model: nn.Module,
    image: Tensor,
    target: int,
    maps: Mapping[str, Tensor],
    *,
    fill: str | ReplacePatches = "mean",
    against: int | None = None,
    steps: int | None = None,
    random_orders: int = NUM_RANDOM_ORDERS,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> PerturbationCurves:
    """Measure the deletion and insertion curves of several maps of one image.

    Also measures the curves of the centre-first order (`CENTRE_BASELINE`) and of random orders.

    Args:
        image: normalised, (1, 3, S, S). Zero is `Preprocessing.zero_colour`.
        target: the class whose probability is measured. With `against`, the probability is
            normalised over only these two classes.
        maps: maps (rows, columns) by name, all on the same grid. With `fill="drop"`, the grid must
            be the model's patch grid.
        fill: "mean", "blur", a function, or "drop" to remove a ViT's tokens. "drop" is not
            supported with a convolutional stem, because the stem mixes patches before they become
            tokens.
        steps: number of steps K, at most one step per patch. None means one step per patch.
        on_step: called as (done, total); may raise to stop the measurement.

    Orders with a common set of patches share its forward pass. Raises `ValueError`.
    """
    grid = _check_common_grid(model, maps, fill)
    P = math.prod(grid)
    ranks = {name: rank_by_value(values.flatten().cpu(), seed) for name, values in maps.items()}
    ranks[CENTRE_BASELINE] = rank_by_value(centre_map(*grid).flatten(), seed)
    orders = torch.stack([*ranks.values(), *draw_random_rankings(random_orders, P, seed)])
    fractions, curves = _measure_order_curves(
        model, image, (target, against), orders, grid, fill, steps, on_step
    )
    deletion, insertion = (dict(zip(ranks, part[: len(ranks)], strict=True)) for part in curves)
    return PerturbationCurves(fractions, deletion, insertion, *curves[:, len(ranks) :])


def score_transformed_copies(
    model: nn.Module,
    image: Tensor,
    target: int,
    values: Tensor,
    *,
    fill: str | ReplacePatches = "mean",
    against: int | None = None,
    steps: int | None = None,
    count: int = NUM_COPIES,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> Tensor:
    """Measure the scores (count,) of transformed copies of the map `values` (rows, columns).

    The copies come from `draw_transformed_copies`. Other arguments are as in
    `measure_perturbation_curves`. Scores from both functions are comparable if `steps` is the same.
    """
    grid = _check_common_grid(model, {"": values}, fill)
    laid = draw_transformed_copies(values.cpu(), count, seed)
    orders = torch.stack([rank_by_value(own.flatten(), seed) for own in laid])
    fractions, (deletion, insertion) = _measure_order_curves(
        model, image, (target, against), orders, grid, fill, steps, on_step
    )
    return area_under_curve(fractions, insertion - deletion)


def _measure_order_curves(
    model: nn.Module,
    image: Tensor,
    classes: tuple[int, int | None],
    orders: Tensor,
    grid: tuple[int, int],
    fill: str | ReplacePatches,
    steps: int | None,
    on_step: OnStep | None,
) -> tuple[Tensor, Tensor]:
    """Measure deletion and insertion curves (2, M, K+1) of `orders` (M, P).

    Also returns the fractions (K+1,) of removed or restored patches.
    """
    P = orders.shape[1]
    moved = list_step_ends(P, steps)  # (K+1,) patches
    pair = check_classes(*classes, image, model.num_classes)
    removed = orders[:, None] < moved[:, None]  # (M, K+1, P)
    sets, which = torch.cat([~removed, removed]).flatten(0, 1).unique(dim=0, return_inverse=True)
    logits = predict_patch_sets(model, image, sets, grid, fill, on_step=on_step)  # (n, C)
    return moved / P, class_probability(logits, *pair)[which].view(2, len(orders), -1)


def list_step_ends(patches: int, steps: int | None) -> Tensor:
    """Return the number of removed patches before the first step and after each step (K+1,).

    `steps` is as in `measure_perturbation_curves`. Raises `ValueError` for a number below 1.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}, but must be at least 1.")
    return torch.linspace(0, patches, min(steps or patches, patches) + 1).round().long()


def class_probability(logits: Tensor, target: int, against: int | None = None) -> Tensor:
    """Compute the probability (n,) of `target` among all classes, or only the two given classes."""
    if against is None:
        return logits.softmax(dim=1)[:, target]
    return (logits[:, target] - logits[:, against]).sigmoid()


def resample_maps(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Interpolate maps (B, rows, columns) bilinearly to another `grid`, as usual for Grad-CAM.

    The result is used only to order patches. The page shows the original map.
    """
    if maps.shape[1:] == grid:
        return maps
    return F.interpolate(maps[:, None], grid, mode="bilinear", align_corners=False)[:, 0]


def area_under_curve(fractions: Tensor, curves: Tensor) -> Tensor:
    """Compute the area under curves (..., K+1) over `fractions` (K+1,) by the trapezoidal rule."""
    return torch.trapezoid(curves, fractions)


def compute_band(curves: Tensor) -> Tensor:
    """Compute the mean and the 5th and 95th percentile (3, ...) of curves (R, ...) over R."""
    percentiles = curves.quantile(torch.tensor([0.05, 0.95], dtype=curves.dtype), dim=0)
    return torch.cat([curves.mean(dim=0, keepdim=True), percentiles])


def _check_common_grid(
    model: nn.Module, maps: Mapping[str, Tensor], fill: str | ReplacePatches
) -> tuple[int, int]:
    """Return the common grid of all `maps`.

    Raises `ValueError` if their grids differ, or if a value is not finite.
    """
    check_fill(model, fill)
    grids = {tuple(values.shape) for values in maps.values()}
    if len(grids) != 1 or len(grid := grids.pop()) != 2:
        raise ValueError(
            "maps must contain at least one map, and all maps must have one shape (rows, columns)."
        )
    if not all(values.isfinite().all() for values in maps.values()):
        raise ValueError("The map contains NaN or infinity. Use a map with finite values.")
    return grid
