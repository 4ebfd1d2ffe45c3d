"""Is a map true to its model? Deletion and insertion curves, after Petsiuk et al. 2018 (RISE).

https://arxiv.org/abs/1806.07421, section 4.2. Deletion takes the patches away, what a map calls
most important first, and follows the probability of the class: a map that is true makes it fall at
once, so a small area is good. Insertion brings them back in the same order: a large area is good.
Both say something only beside orders that know nothing: random ones, and from the centre out.

A patch is taken away by a fill: painted in the mean colour or in its blurred surroundings, or, for
a ViT, dropped from the tokens, so that no colour has to stand for "nothing".

Letters: P patches (rows x columns), M orders, K steps, n sets of patches, S side, C classes.

    found = measure(model, image, 3, {"relevance": values}, fill="drop")
    area(found.shares, found.deletion["relevance"]), band(found.random_deletion).mean
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo import attention
from vitdemo.attributions import CHUNK, OnStep, cells, class_count
from vitdemo.models import is_vision_transformer, patches_stand_alone

FILLS = ("mean", "blur", "drop")
RANDOM_ORDERS = 20
CENTRE = "centre first"


class Truth(NamedTuple):
    """Curves over the share of patches that is gone (deletion) or back (insertion), on the CPU."""

    shares: Tensor  # (K+1,), from 0 to 1
    deletion: dict[str, Tensor]  # name of the order -> (K+1,) probabilities
    insertion: dict[str, Tensor]
    random_deletion: Tensor  # (R, K+1), a curve for each random order
    random_insertion: Tensor  # (R, K+1)


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
    """Deletion and insertion curves of every map of one picture, of random orders and `CENTRE`.

    Args:
        image: normalised, (1, 3, S, S), so that zero is the mean colour.
        target: the class whose probability is followed; with `against`, its probability when only
            these two classes are to choose from.
        maps: name -> (rows, columns), all on one grid; for `fill="drop"` on that of the patches.
        fill: "mean", "blur" or "drop" (a ViT's tokens; all that stays sees only what stays, so it
            is refused where a convolutional stem mixes patches before they are tokens).
        steps: K, at most one for each patch, which is the default.
        on_step: called as (done, total); it may raise to end the work.

    Raises `ValueError` for a bad value. Each set of patches passes the model once, however many
    orders share it: a reversed random order inserts what the order itself has left.
    """
    grid = _check(model, maps, fill)
    P, count = math.prod(grid), class_count(model)
    pair = [t for t in (target, against) if t is not None]
    pair = [int(attention.check_target(t, 1, count, torch.device("cpu"))) for t in pair]
    ranks = {name: ranking(values.flatten().cpu(), seed) for name, values in maps.items()}
    ranks[CENTRE] = ranking(centredness(*grid).flatten(), seed)
    known, random = torch.stack(list(ranks.values())), random_rankings(random_orders, P, seed)
    moved = _step_counts(P, steps)  # (K+1,): patches gone, or back
    left = torch.cat([known, random])[:, None] >= moved[:, None]  # (M+R, K+1, P)
    back = torch.cat([known, P - 1 - random])[:, None] < moved[:, None]
    sets, which = torch.cat([left, back]).flatten(0, 1).unique(dim=0, return_inverse=True)
    logits = answers(model, image, sets, grid, fill, on_step=on_step)  # (n, C)
    curves = _value(logits, *pair)[which].view(2, len(known) + random_orders, -1)
    deletion, insertion = (dict(zip(ranks, part[: len(known)], strict=True)) for part in curves)
    return Truth(moved / P, deletion, insertion, *curves[:, len(known) :])


@torch.no_grad()
def answers(
    model: nn.Module,
    image: Tensor,
    sets: Tensor,
    grid: tuple[int, int],
    fill: str,
    *,
    on_step: OnStep | None = None,
) -> Tensor:
    """Logits (n, C), on the CPU, of one picture (1, 3, S, S) with only the patches of each set.

    `sets` (n, P) says which patches of `grid` stay; `fill` and `on_step` as in `measure`.
    """
    passed = _dropped if fill == "drop" else _painted
    logits, done = torch.empty(len(sets), class_count(model), dtype=image.dtype), 0
    for which, part in passed(model, image, sets.to(image.device), grid, fill):
        logits[which.cpu()] = part.cpu()
        done += len(which)
        if on_step is not None:
            on_step(done, len(sets))
    return logits


def _painted(
    model: nn.Module, image: Tensor, sets: Tensor, grid: tuple[int, int], fill: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """(numbers of sets, their logits), `CHUNK` pictures at a time."""
    hidden = blur(image) if fill == "blur" else torch.zeros_like(image)
    cell = cells(*image.shape[-2:], grid, image.device)  # (S, S)
    for which in torch.arange(len(sets), device=image.device).split(CHUNK):
        stays = sets[which][:, None, cell]  # (chunk, 1, S, S)
        yield which, model(torch.where(stays, image, hidden))


def _dropped(
    model: nn.Module, image: Tensor, sets: Tensor, grid: tuple[int, int], fill: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """As `_painted`, with sequences that are really shorter: sets of equal size go together."""
    attention.check_model(model)
    x = model._pos_embed(model.patch_embed(image))  # (1, N, D): each token keeps its position
    x = model.norm_pre(x) if hasattr(model, "norm_pre") else x
    prefix, patches = x.split([model.num_prefix_tokens, sets.shape[1]], dim=1)
    sizes = sets.sum(dim=1)
    for size in sizes.unique().tolist():
        for which in (sizes == size).nonzero()[:, 0].split(CHUNK):
            place = sets[which].nonzero()[:, 1].view(len(which), size)  # (chunk, size)
            tokens = torch.cat([prefix.expand(len(which), -1, -1), patches[0, place]], dim=1)
            yield which, _answer(model, tokens)


def _answer(model: nn.Module, x: Tensor) -> Tensor:
    """Tokens (n, prefix + any number of patches, D) -> logits (n, C)."""
    if not attention.reads_class_token(model) and x.shape[1] == model.num_prefix_tokens:
        # The mean of no patch: taken as zero, which leaves the head's own leaning.
        return model.forward_head(x.new_zeros(len(x), x.shape[1] + 1, x.shape[2]))
    for block in model.blocks:
        x = block(x)
    return model.forward_head(model.norm(x))


def ranking(values: Tensor, seed: int = 0) -> Tensor:
    """The place 0..P-1 of each patch when the largest of `values` (P,) comes first.

    Ties fall by a drawn lot: from top to bottom would be an order that knows what photos are like.
    """
    if not values.isfinite().all():
        raise ValueError("A map holds NaN or infinity: it has no order.")
    lot = _permutation(len(values), seed)  # (P,)
    order = lot[values[lot].argsort(descending=True, stable=True)]
    return order.argsort()


def resampled(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Maps (B, rows, columns) on another `grid`, between the cells by straight lines, as is usual
    for Grad-CAM: for orders alone, a picture shows the map's own cells."""
    if maps.shape[1:] == grid:
        return maps
    return F.interpolate(maps[:, None], grid, mode="bilinear", align_corners=False)[:, 0]


def random_rankings(count: int, patches: int, seed: int = 0) -> Tensor:
    """(count, P): places in orders that know nothing."""
    orders = [_permutation(patches, seed + 1 + i) for i in range(count)]
    return torch.stack(orders) if orders else torch.empty(0, patches, dtype=torch.long)


def centredness(rows: int, columns: int) -> Tensor:
    """Minus the distance of each patch to the picture's centre, (rows, columns)."""
    y = (torch.arange(rows) + 0.5) / rows - 0.5
    x = (torch.arange(columns) + 0.5) / columns - 0.5
    return -torch.hypot(y[:, None], x)


def blur(image: Tensor) -> Tensor:
    """`image` (1, 3, S, S) under a Gaussian of an eighth of its side: shapes go, colours stay."""
    rows, columns = (_gaussian(size).to(image) for size in image.shape[-2:])
    return rows @ image @ columns.mT


def area(shares: Tensor, curves: Tensor) -> Tensor:
    """Area under curves (..., K+1) over `shares` (K+1,), by trapezoids: the mean height, 0 to 1."""
    return torch.trapezoid(curves, shares)


def band(curves: Tensor) -> Band:
    """Mean and 5th and 95th percentile of curves (R, ...) over the first dimension."""
    low, high = curves.quantile(torch.tensor([0.05, 0.95], dtype=curves.dtype), dim=0)
    return Band(curves.mean(dim=0), low, high)


def fills(model: nn.Module) -> tuple[str, ...]:
    """What can stand for a patch that is gone, of `FILLS`.

    Only a ViT can do without its token, and only where that is made of this patch and no other.
    """
    can_drop = is_vision_transformer(model) and patches_stand_alone(model)
    return tuple(fill for fill in FILLS if fill != "drop" or can_drop)


def _check(model: nn.Module, maps: Mapping[str, Tensor], fill: str) -> tuple[int, int]:
    """The grid that all maps are on."""
    if fill not in FILLS:
        raise ValueError(f"Unknown fill '{fill}': choose one of {', '.join(FILLS)}.")
    if fill not in fills(model):
        raise ValueError(
            f"{type(model).__name__} has no token for each patch alone: fill by mean or blur."
        )
    grids = {tuple(values.shape) for values in maps.values()}
    if len(grids) != 1 or len(grid := grids.pop()) != 2:
        raise ValueError("Give at least one map, all of them (rows, columns) on one grid.")
    return grid


def _step_counts(patches: int, steps: int | None) -> Tensor:
    if steps is not None and steps < 1:
        raise ValueError(f"steps {steps} is not positive.")
    steps = patches if steps is None else min(steps, patches)
    return torch.linspace(0, patches, steps + 1).round().long()  # (K+1,)


def _value(logits: Tensor, target: int, against: int | None = None) -> Tensor:
    if against is None:
        return logits.softmax(dim=1)[:, target]
    return (logits[:, target] - logits[:, against]).sigmoid()


def _permutation(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _gaussian(size: int) -> Tensor:
    """(size, size): row i has the weights of all places around place i, which sum to one."""
    place = torch.arange(size, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((place[:, None] - place) / (size / 8)) ** 2)
    return weights / weights.sum(dim=1, keepdim=True)
