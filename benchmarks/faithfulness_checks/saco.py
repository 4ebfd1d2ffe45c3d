"""SaCo: the salience-guided faithfulness coefficient of a map, -1 to 1, with 0 for a random map.

Wu et al. 2024, https://arxiv.org/abs/2404.01415, algorithm 1. The patches are split into groups by
decreasing salience, and each group is removed separately. The weight of a pair of groups is the
difference of their salience. It is positive if removing the more salient group lowers the class
probability more than removing the other group; otherwise it is negative. Unlike the areas under
deletion and insertion curves, the coefficient depends on the map values, not only on their order.

Letters: P patches, M maps, G groups.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vitdemo.explain.faithfulness import class_probability
from vitdemo.explain.faithfulness.baselines import rank_by_value
from vitdemo.explain.faithfulness.fills import ReplacePatches, check_fill, predict_patch_sets

NUM_GROUPS = 10


def compute_saco(
    model: nn.Module,
    image: Tensor,
    target: int,
    maps: Mapping[str, Tensor],
    *,
    fill: str | ReplacePatches = "mean",
    groups: int = NUM_GROUPS,
    seed: int = 0,
) -> dict[str, float]:
    """Compute the SaCo coefficient of each map (rows, columns) of an image (1, 3, S, S).

    All maps must be on the same grid. The coefficient is NaN if all groups of a map have the same
    salience. Raises `ValueError` for an unsupported replacement `fill`.
    """
    check_fill(model, fill)
    grid = next(iter(maps.values())).shape
    members = {
        name: assign_groups(values.flatten().cpu(), groups, seed) for name, values in maps.items()
    }
    left = torch.cat([torch.arange(groups)[:, None] != own for own in members.values()])  # (M*G, P)
    sets = torch.cat([torch.ones_like(left[:1]), left])
    chance = class_probability(predict_patch_sets(model, image, sets, tuple(grid), fill), target)
    cost = (chance[0] - chance[1:]).view(-1, groups)  # (M, G)
    return {
        name: saco_coefficient(_sum_by_group(maps[name].flatten().cpu(), own, groups), lost)
        for (name, own), lost in zip(members.items(), cost, strict=True)
    }


def assign_groups(values: Tensor, groups: int, seed: int = 0) -> Tensor:
    """Return the group (P,) of each patch, 0 to G-1, by decreasing salience, in equal numbers."""
    return rank_by_value(values, seed) * groups // len(values)


def saco_coefficient(salience: Tensor, cost: Tensor) -> float:
    """Compute the SaCo coefficient from the `salience` (G,) and the `cost` (G,) of the groups.

    The cost of a group is the decrease of the class probability when the group is removed.
    """
    first, second = torch.triu_indices(len(cost), len(cost), offset=1)
    weight = salience[first] - salience[second]
    agrees = cost[first] >= cost[second]
    return float(torch.where(agrees, weight, -weight).sum() / weight.abs().sum())


def _sum_by_group(values: Tensor, members: Tensor, groups: int) -> Tensor:
    return values.new_zeros(groups).index_add(0, members, values)
