"""What changes of its pictures do to a run's accuracy: one curve for each kind of change.

    for point in measure(workbench, run):
        print(point.change, point.strength, point.accuracy, f"{point.done} of {point.total}")

Every model is put to the same test: the same pictures, each with a seed of its own, changed before
the model's own preprocessing. 1,000 pictures tell an accuracy of 80 % to 2.5 points
(95 %).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from vitdemo.data import Pictures
from vitdemo.perturb import PERTURBATIONS, apply
from vitdemo.runs import Run
from vitdemo.training import Preprocessing, predict
from vitdemo.workbench import Workbench

PICTURES = 1000  # of the test set


@dataclass(frozen=True)
class Point:
    """One point of a curve, number `done` of `total`; `accuracy` is 0 to 1."""

    change: str
    strength: float
    accuracy: float
    done: int
    total: int


def measure(
    workbench: Workbench,
    run: Run,
    changes: Sequence[str] = tuple(PERTURBATIONS),
    count: int = PICTURES,
) -> Iterator[Point]:
    """One `Point` for each strength of each change, as soon as it is known.

    What was measured before comes from memory, as long as the run's files and the settings are the
    same; a generator that is closed early keeps what it has measured. Raises `DataError` where the
    test pictures are absent, `RunError` where the model is, `ValueError` for an unknown change.
    """
    for change in changes:
        if change not in PERTURBATIONS:
            raise ValueError(f"Unknown change '{change}': choose {', '.join(PERTURBATIONS)}.")
    sample, source = workbench.sample(run, count), workbench.source()
    model = workbench.model(run)
    points = [(c, s) for c in changes for s in PERTURBATIONS[c].strengths]
    for done, (change, strength) in enumerate(points, start=1):
        neutral = strength == PERTURBATIONS[change].neutral
        what = (None, None) if neutral else (change, strength)  # the neutral ones are one
        key = (accuracy_under, run, source, count, *what)
        asked = model, run.preprocessing, sample, change, strength
        accuracy = workbench.cache.get_or_make(key, partial(accuracy_under, *asked))
        yield Point(change, strength, accuracy, done, len(points))


def accuracy_under(
    model: nn.Module,
    preprocessing: Preprocessing,
    sample: Pictures,
    change: str,
    strength: float,
    batch_size: int = 250,
) -> float:
    """Share of the sample that `model` gets right after `change` at `strength`, 0 to 1."""
    images, labels = sample.images, sample.labels
    right = 0
    for start in range(0, len(images), batch_size):
        part = slice(start, start + batch_size)
        changed = change_all(images[part], change, strength, start)
        predicted = predict(model, changed, preprocessing).argmax(1)  # (B,)
        right += int((predicted == labels[part]).sum())
    return right / len(images)


def change_all(images: Tensor, change: str, strength: float, first: int = 0) -> Tensor:
    """`apply` with a seed of its own, `first` and on, for each picture.

    Pictures that cannot be cut into the pieces asked for are shuffled at the next side that can.
    """
    seeds = range(first, first + len(images))
    S = images.shape[-1]
    if change == "shuffle" and S % round(strength):
        side = -(-S // round(strength)) * round(strength)
        grown = nn.functional.interpolate(
            images.float(), (side, side), mode="bicubic", antialias=True
        )
        images = grown.round().clamp(0, 255).to(torch.uint8)
    return apply(change, images, strength, seeds)
