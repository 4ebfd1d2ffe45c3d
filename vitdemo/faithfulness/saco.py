"""SaCo: do patches that a map calls more important matter more? From -1 to 1, 0 by chance.

Salience-guided faithfulness coefficient, Wu et al. 2024, https://arxiv.org/abs/2404.01415,
algorithm 1. The patches are cut into groups of falling salience, each group is taken away alone,
and every pair of groups votes with the difference of its salience: for the map where the more
salient one costs the class more of its probability, else against it. Unlike the areas under
deletion and insertion curves it reads how much salience a map gives, not the order alone.

Letters: P patches, M maps, G groups.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vitdemo.faithfulness import probability
from vitdemo.faithfulness.fills import answers, check_fill
from vitdemo.faithfulness.nulls import ranking

GROUPS = 10


def saco(
    model: nn.Module,
    image: Tensor,
    target: int,
    maps: Mapping[str, Tensor],
    *,
    fill: str = "mean",
    groups: int = GROUPS,
    seed: int = 0,
) -> dict[str, float]:
    """The coefficient of each map (rows, columns), all on one grid, of an image (1, 3, S, S).

    NaN for a map that gives all groups the same. Raises `ValueError` for a bad fill.
    """
    check_fill(model, fill)
    grid = next(iter(maps.values())).shape
    members = {
        name: group_of(values.flatten().cpu(), groups, seed) for name, values in maps.items()
    }
    left = torch.cat([torch.arange(groups)[:, None] != own for own in members.values()])  # (M*G, P)
    sets = torch.cat([torch.ones_like(left[:1]), left])
    chance = probability(answers(model, image, sets, tuple(grid), fill), target)
    cost = (chance[0] - chance[1:]).view(-1, groups)  # (M, G)
    return {
        name: coefficient(_sums(maps[name].flatten().cpu(), own, groups), lost)
        for (name, own), lost in zip(members.items(), cost, strict=True)
    }


def group_of(values: Tensor, groups: int, seed: int = 0) -> Tensor:
    """The group 0..G-1 of each patch, of nearly equal size, the most salient first: (P,)."""
    return ranking(values, seed) * groups // len(values)


def coefficient(salience: Tensor, cost: Tensor) -> float:
    """From the salience (G,) of the groups, falling, and what each costs the class (G,)."""
    first, second = torch.triu_indices(len(cost), len(cost), offset=1)
    weight = salience[first] - salience[second]
    agrees = cost[first] >= cost[second]
    return float(torch.where(agrees, weight, -weight).sum() / weight.abs().sum())


def _sums(values: Tensor, members: Tensor, groups: int) -> Tensor:
    return values.new_zeros(groups).index_add(0, members, values)
