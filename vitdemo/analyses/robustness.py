"""Robustness of a run: accuracy as a function of the strength of each image change.

    for point in measure_robustness(context, run):
        print(point.change, point.strength, point.accuracy, f"{point.done} of {point.total}")

All models are tested on the same images, which are changed before the model's preprocessing. The
random seed of a change depends only on the image. With 1,000 images and an accuracy of 80%, the
margin of error (95%) is 2.5 percentage points.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from vitdemo.context import AppContext
from vitdemo.data import ImageDataset, LabelledImages
from vitdemo.data.perturb import PERTURBATIONS, apply_perturbation
from vitdemo.runs import Run
from vitdemo.training import Preprocessing, predict_logits

DEFAULT_IMAGE_COUNT = 1000  # default number of test images
BATCH_SIZE = 250  # images per forward pass


@dataclass(frozen=True)
class RobustnessPoint:
    """Accuracy (0 to 1) for one strength of one image change: point `done` of `total`."""

    change: str
    strength: float
    accuracy: float
    done: int
    total: int


def measure_robustness(
    context: AppContext,
    run: Run,
    changes: Sequence[str] = tuple(PERTURBATIONS),
    count: int = DEFAULT_IMAGE_COUNT,
) -> Iterator[RobustnessPoint]:
    """Yield a `RobustnessPoint` for each strength of each change as soon as it is measured.

    Points are cached until the run's files or the settings change, even if the generator is closed
    early. Raises `DataError` without test images, `RunError` without weights, or `ValueError`.
    """
    for change in changes:
        if change not in PERTURBATIONS:
            raise ValueError(f"Unknown change '{change}': choose {', '.join(PERTURBATIONS)}.")
    sample, source = context.sample_test_images(run, count), context.open_dataset()
    model = context.load_model(run)
    points = [(c, s) for c in changes for s in PERTURBATIONS[c].strengths]
    for done, (change, strength) in enumerate(points, start=1):
        key = point_key(run, source, count, change, strength)
        arguments = model, run.preprocessing, sample, change, strength
        accuracy = context.cache.get_or_compute(key, partial(perturbed_accuracy, *arguments))
        yield RobustnessPoint(change, strength, accuracy, done, len(points))


def find_curves(
    context: AppContext, runs: Sequence[Run], changes: Sequence[str], count: int
) -> dict[str, dict[str, list[float]]]:
    """Return the curves that are completely cached: change -> run name -> accuracies by strength.

    Raises `DataError` if the dataset is missing.
    """
    source, curves = context.open_dataset(), {change: {} for change in changes}
    for change in changes:
        for run in runs:
            strengths = PERTURBATIONS[change].strengths
            keys = [point_key(run, source, count, change, strength) for strength in strengths]
            points = [context.cache.get(key) for key in keys]
            if None not in points:
                curves[change][run.name] = points
    return curves


def point_key(run: Run, source: ImageDataset, count: int, change: str, strength: float) -> tuple:
    """Return the cache key of an accuracy; the unchanged images have one key for all changes."""
    neutral = strength == PERTURBATIONS[change].neutral
    name = (None, None) if neutral else (change, strength)
    return perturbed_accuracy, run, source, count, *name


def perturbed_accuracy(
    model: nn.Module,
    preprocessing: Preprocessing,
    sample: LabelledImages,
    change: str,
    strength: float,
) -> float:
    """Measure the accuracy (0 to 1) of `model` on `sample` after `change` at `strength`."""
    predicted = []
    for start in range(0, len(sample), BATCH_SIZE):
        images = sample.images[start : start + BATCH_SIZE]
        perturbed = perturb_images(images, change, strength, start)
        predicted.append(predict_logits(model, perturbed, preprocessing).argmax(1))  # (B,)
    return int((torch.cat(predicted) == sample.labels).sum()) / len(sample)


def perturb_images(images: Tensor, change: str, strength: float, first: int = 0) -> Tensor:
    """Apply `change` to `images` (B, 3, S, S); image i of the batch has the seed `first` + i.

    Before shuffling, images are enlarged so that their side is a multiple of the number of pieces.
    """
    seeds = range(first, first + len(images))
    S = images.shape[-1]
    if change == "shuffle" and S % round(strength):
        side = -(-S // round(strength)) * round(strength)
        enlarged = nn.functional.interpolate(
            images.float(), (side, side), mode="bicubic", antialias=True
        )
        images = enlarged.round().clamp(0, 255).to(torch.uint8)
    return apply_perturbation(change, images, strength, seeds)
