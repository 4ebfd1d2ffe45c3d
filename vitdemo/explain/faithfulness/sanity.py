"""Sanity checks of a map: changes of grey levels, another class, and randomised layers.

All checks compute Spearman's rank correlation of the map with other maps by the same method.

- **Noise ceiling**: maps of images whose grey levels were changed by 1 or 2. The correlation of two
  other maps can hardly be higher.
- **Runner-up class**: a map that hardly changes with the class cannot explain why the model
  predicts this class.
- **Cascading randomisation** (Adebayo et al. 2018, https://arxiv.org/abs/1810.03292): maps of
  models whose classifier head is random, then also the last layer, and so on to the first layer. If
  a map hardly changes, it hardly depends on the weights of the randomised layers.

Letters: K stages of the randomisation, R images or models per check, S side in pixels.
"""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # scipy loads a submodule on first use
import torch
from torch import Tensor, nn

from vitdemo.explain.attributions import METHODS, OnStep, attribute_many
from vitdemo.models import list_classifier_heads, list_layers

NUM_CHECKS = 3  # images per noise ceiling, and models per stage
NUM_SLOW_CHECKS = 1  # the same for slow methods
MAX_GREY_CHANGE = 2  # grey levels, of 255
# Steps of Integrated Gradients for randomised models. Few steps suffice, because a rank correlation
# does not need a completeness gap below 1% (benchmarks/log/2026-11-27-faithfulness-steps.md).
PATH_STEPS = (16,)
PROGRESS_STEPS = 1000


@dataclass(frozen=True)
class MapCheck:
    """Rank correlations of a map with other maps by the same method; NaN for a uniform map.

    `layers` is the number of randomised layers at each stage of the cascading randomisation,
    counted from the last layer. The classifier head is random at each stage. `runner_up` is None
    for a method whose map is the same for every class.
    """

    noise: np.ndarray  # (R,) with maps of R changed images
    layers: tuple[int, ...]  # (K,)
    cascade: np.ndarray  # (K, R) with maps of R randomised models
    runner_up: float | None

    @property
    def noise_ceiling(self) -> float:
        return average(self.noise)

    @property
    def cascade_means(self) -> list[float]:
        """Mean correlation at each of the K stages."""
        return [average(values) for values in self.cascade]


def check_maps(
    model: nn.Module,
    image: Tensor,
    maps: Mapping[str, Tensor],
    target: int,
    runner_up: int,
    std: Sequence[float],
    *,
    count: int = NUM_CHECKS,
    on_step: OnStep | None = None,
) -> dict[str, MapCheck]:
    """Run all sanity checks of the `maps` (rows, columns) of one image by name of the method.

    Args:
        image: normalised, (1, 3, S, S).
        target, runner_up: class of the maps, and the class to compare with.
        std: standard deviation of each colour in the normalisation, for values from 0 to 1.
        count: R, the number of changed images, and of randomised models per stage.
        on_step: as in `attribute`, if the only method in `maps` is slow.

    Raises `ValueError` for an unknown class.
    """
    stages, names = list_stages(model), [*maps]
    specific = [name for name in names if METHODS[name].is_class_specific]
    num_parts = 2 + count * len(stages)  # equal parts of the progress: one set of maps each
    noise, second, cascade = (
        report_part(on_step, start / num_parts, end / num_parts)
        for start, end in ((0, 1), (1, 2), (2, num_parts))
    )
    images = add_grey_noise(image, std, count)
    noisy = attribute_many(names, model, images, target, on_step=noise)
    other = attribute_many(specific, model, image, runner_up, on_step=second)
    randomised = compute_cascade_maps(model, image, names, target, count=count, on_step=cascade)
    return {
        name: MapCheck(
            correlate_ranks(own, noisy[name]),
            stages,
            correlate_ranks(own, randomised[name]),
            rank_correlation(own, other[name][0]) if name in specific else None,
        )
        for name, own in maps.items()
    }


@torch.inference_mode(False)  # gradients must pass through the randomised layers
def compute_cascade_maps(
    model: nn.Module,
    image: Tensor,
    methods: Collection[str],
    target: int,
    *,
    count: int = NUM_CHECKS,
    on_step: OnStep | None = None,
) -> dict[str, Tensor]:
    """Compute the maps (K, R, rows, columns) of R models at each of K stages by name of the method.

    The arguments are those of `check_maps`.
    """
    stages, found = list_stages(model), []
    total = count * len(stages)
    for seed in range(count):
        for other in randomise_in_stages(model, stages, seed):
            part = report_part(on_step, len(found) / total, (len(found) + 1) / total)
            options = {"path_steps": PATH_STEPS, "on_step": part}
            found.append(attribute_many(methods, other, image, target, **options))
    maps = {name: torch.cat([each[name] for each in found]) for name in methods}
    return {name: own.unflatten(0, (count, -1)).transpose(0, 1) for name, own in maps.items()}


def list_stages(model: nn.Module) -> tuple[int, ...]:
    """Return the number of randomised layers at each stage: 0, 1, 2, 4, ... and all layers."""
    num_layers, stages = len(list_layers(model)), [0]
    while stages[-1] < num_layers:
        stages.append(min(max(1, 2 * stages[-1]), num_layers))
    return tuple(stages)


def randomise_in_stages(model: nn.Module, stages: Sequence[int], seed: int) -> Iterator[nn.Module]:
    """Yield a copy of `model` with a random classifier head and random last layers, per stage.

    `stages` are increasing numbers of layers. All results are one copy, which changes between them.
    Adebayo et al. draw new weights. Here, the values of each parameter are permuted, so each
    parameter keeps its distribution.
    """
    generator, other = torch.Generator().manual_seed(seed), copy.deepcopy(model)
    parts = [*list_layers(other)][::-1]
    for head in list_classifier_heads(other):
        permute_parameters(head, generator)
    done = 0
    for stage in stages:
        for layer in parts[done:stage]:
            permute_parameters(layer, generator)
        done = stage
        yield other


@torch.no_grad()
def permute_parameters(module: nn.Module, generator: torch.Generator) -> None:
    """Permute the values of each parameter of `module` at random."""
    for parameter in module.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.copy_(parameter.flatten()[order].view_as(parameter))


def add_grey_noise(image: Tensor, std: Sequence[float], count: int) -> Tensor:
    """Return copies (R, 3, S, S) of a normalised image (1, 3, S, S) with changed grey levels.

    Each colour of each pixel changes by 1 to `MAX_GREY_CHANGE` levels of 255, up or down. The draw
    is reproducible. `std` is as in `check_maps`.
    """
    generator = torch.Generator().manual_seed(0)
    shape = count, *image.shape[1:]
    levels = torch.randint(1, MAX_GREY_CHANGE + 1, shape, generator=generator)
    signs = 2 * torch.randint(2, shape, generator=generator) - 1
    return image + (signs * levels / 255 / torch.tensor(std).view(3, 1, 1)).to(image)


def correlate_ranks(own: Tensor, maps: Tensor) -> np.ndarray:
    """Compute Spearman's rank correlations (...) of `own` with `maps` (..., rows, columns).

    1 means the same order of patches. The result is NaN for a uniform map.
    """
    first, others = (scipy.stats.rankdata(each.flatten(-2).cpu(), axis=-1) for each in (own, maps))
    first, others = (each - each.mean(axis=-1, keepdims=True) for each in (first, others))
    norms = np.linalg.norm(first) * np.linalg.norm(others, axis=-1)
    with np.errstate(invalid="ignore"):
        return np.float64(others @ first) / norms


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Compute Spearman's rank correlation of two maps of the same shape; NaN for a uniform map."""
    return float(correlate_ranks(first, second))


def average(correlations: np.ndarray) -> float:
    """Return the mean of the defined `correlations`; NaN if all of them are NaN."""
    defined = correlations[~np.isnan(correlations)]
    return float(defined.mean()) if len(defined) else np.nan


def report_part(on_step: OnStep | None, start: float, end: float) -> OnStep | None:
    """Return a callback for a part of a task, from the fraction `start` of its steps to `end`."""
    if on_step is None:
        return None

    def report(done: int, total: int) -> None:
        on_step(round(PROGRESS_STEPS * (start + (end - start) * done / total)), PROGRESS_STEPS)

    return report
