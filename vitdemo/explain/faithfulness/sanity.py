"""Sanity checks of a map: its dependence on the class and on the classifier head.

A map that hardly changes with the class cannot explain why the model predicts this class. If a map
hardly changes when the classifier head is randomised, it depends only on the image and on the
earlier layers. This check is from Adebayo et al. 2018, https://arxiv.org/abs/1810.03292.

The correlation with the map of a single randomised head varies from strongly negative to strongly
positive. The check therefore uses `NUM_RANDOM_HEADS` randomised heads. The baseline is the
correlation among the maps of the randomised heads, which differs between methods.

Letters: B batch, R randomised heads, P patches (rows x columns), D width, C classes.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # scipy loads a submodule on first use
import torch
from torch import Tensor, nn

from vitdemo.explain import attributions
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.faithfulness.baselines import rank_p_value
from vitdemo.models import find_classifier_heads

NUM_RANDOM_HEADS = 19  # the minimum for a rank p-value of 0.05
# Steps of Integrated Gradients for randomised heads. Few steps suffice, because a rank correlation
# does not need a completeness gap below 1% (benchmarks/log/2026-11-27-faithfulness-steps.md).
RANDOM_HEAD_PATH_STEPS = (16,)


@dataclass(frozen=True)
class RandomHeadCheck:
    """Spearman correlations of a map with the maps of R randomised heads, and among these maps.

    `p_value` is the rank p-value of the map's mean correlation with the randomised heads' maps. The
    null distribution consists of the mean correlation of each of these maps with all others.
    """

    map_correlations: np.ndarray  # (R,), NaN if a map is uniform
    head_correlations: np.ndarray  # (R * (R - 1) / 2,), one value for each pair of randomised heads
    p_value: float  # NaN if the map is uniform

    @property
    def is_defined(self) -> bool:
        return not (np.isnan(self.map_correlations).all() or np.isnan(self.head_correlations).all())


@torch.inference_mode(False)  # gradients must pass through the classifier head
def randomise_head(model: nn.Module, *seeds: int) -> nn.Module:
    """Return `model` with R random classifier heads, joined to one head of R * C classes.

    The weights have the same standard deviation as before, and there is no bias. Class c of the
    head from `seeds[r]` becomes class r * C + c. The result shares all other parts with `model`,
    which is unchanged. Raises `TypeError` if the classifier head is not a linear layer.
    """
    heads = find_classifier_heads(model)
    if not heads:
        raise TypeError(
            f"{type(model).__name__} has no linear classifier head: choose another model."
        )
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    other = copy.copy(model)
    other._modules = dict(model._modules)
    for name, old in heads.items():
        own = old.weight.detach()  # (C, D)
        drawn = [torch.randn(own.shape, generator=each) for each in generators]
        weight = (torch.cat(drawn) * own.std().cpu()).to(own)  # (R * C, D)
        head = nn.Linear(own.shape[1], 1)
        head.out_features = len(weight)
        head.weight.data, head.bias.data = weight, torch.zeros_like(weight[:, 0])
        other._modules[name] = head.requires_grad_(False).train(old.training)
    other.num_classes = len(seeds) * model.num_classes  # changes only the copy
    return other


@torch.inference_mode(False)
def compute_random_head_maps(
    model: nn.Module,
    image: Tensor,
    methods: Sequence[str],
    target: int,
    *,
    count: int = NUM_RANDOM_HEADS,
    on_step: OnStep | None = None,
) -> dict[str, Tensor]:
    """Compute the maps (R, rows, columns) of class `target` by each method for R randomised heads.

    `image` is (1, 3, S, S), `count` is R. All heads share the forward passes of the fast methods
    and of occlusion; the fast methods take one backward pass for each head. Integrated Gradients
    takes `RANDOM_HEAD_PATH_STEPS` steps for each head. `on_step` is called as (done, total) during
    a slow method; an exception in `on_step` stops the method.
    """
    slow = [name for name in methods if attributions.METHODS[name].is_slow]
    fast, found = [name for name in methods if name not in slow], {}
    joined = randomise_head(model, *range(count))
    if fast:
        targets = [model.num_classes * seed + target for seed in range(count)]
        found = attributions.attribute_classes(fast, joined, image, targets)
    for i, name in enumerate(slow):
        report = report_part(on_step, i, len(slow))
        if name == "occlusion":
            found[name] = _occlusion_maps(joined, image, target, count, report)
        else:
            found[name] = _maps_per_head(name, model, image, target, count, report)
    return {name: found[name] for name in methods}


def compare_with_random_heads(own: Tensor, random: Tensor) -> RandomHeadCheck:
    """Compare the map `own` (rows, columns) with maps of randomised heads (R, rows, columns)."""
    maps = torch.cat([own[None], random]).flatten(1).cpu()  # (R+1, P)
    correlations = np.full((len(maps), len(maps)), np.nan)  # NaN remains for a single patch
    if maps.shape[1] > 1:
        with np.errstate(invalid="ignore"):
            correlations = np.corrcoef(scipy.stats.rankdata(maps, axis=1))
    np.fill_diagonal(correlations, np.nan)
    pairs = correlations[1:, 1:][np.triu_indices(len(random), 1)]
    return RandomHeadCheck(correlations[0, 1:], pairs, _first_p_value(correlations))


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Compute Spearman's rank correlation of two maps of the same shape; NaN for a uniform map.

    A correlation of 1 means that both maps order the patches equally.
    """
    return float(compare_with_random_heads(first, second[None]).map_correlations[0])


def _occlusion_maps(
    joined: nn.Module, image: Tensor, target: int, count: int, on_step: OnStep | None
) -> Tensor:
    def score(images: Tensor, _: Tensor) -> Tensor:
        """Compute the target class's log-probability (n, R) for each randomised classifier head."""
        logits = joined(images).unflatten(1, (count, -1))  # (n, R, C)
        return logits.log_softmax(dim=-1)[..., target]

    grid = attributions.cell_grid(joined, image)
    return attributions.occlude(score, image, grid, on_step)[0].movedim(-1, 0)


def _maps_per_head(
    name: str, model: nn.Module, image: Tensor, target: int, count: int, on_step: OnStep | None
) -> Tensor:
    parts = []
    for seed in range(count):
        report = report_part(on_step, seed, count)
        settings = {"path_steps": RANDOM_HEAD_PATH_STEPS, "on_step": report}
        other = randomise_head(model, seed)
        parts.append(attributions.attribute(name, other, image, target, **settings))
    return torch.cat(parts)


def report_part(on_step: OnStep | None, index: int, parts: int) -> OnStep | None:
    """Return a callback that reports the progress of part `index` of `parts` equal parts."""
    return on_step and (lambda done, total: on_step(index * total + done, parts * total))


def _first_p_value(correlations: np.ndarray) -> float:
    """Compute the rank p-value of the first map's mean correlation from `correlations` (M, M)."""
    defined = ~np.isnan(correlations).all(axis=1)
    if not defined[0] or defined.sum() < 2:
        return math.nan
    means = np.nanmean(correlations[defined][:, defined], axis=1)
    return rank_p_value(means[0], torch.from_numpy(means[1:]))
