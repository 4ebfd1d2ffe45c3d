"""Predictions of a model with some heads switched off: for one image, and on the test set.

Letters: L layers, H heads, C classes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from PIL import Image
from torch import Tensor

from vitdemo.attention import ablation
from vitdemo.attention.ablation import Head, Means
from vitdemo.data import Pictures
from vitdemo.errors import DataError, RunError
from vitdemo.inputs import load_image, visible_square
from vitdemo.inside import check_attention, check_finite, numpy
from vitdemo.metrics.paired import McNemar, mcnemar
from vitdemo.photos import example_files
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

ACCURACY_PICTURES = 1000
MEAN_PICTURES = 32  # images for the mean output of a head
INSTEAD = ("mean", "zero")  # replacements for the output of a head that is off
BATCH = 50  # images per forward pass


@dataclass(frozen=True, eq=False)
class Effects:
    """Predictions for one image: `logits` (C,), and `without` (L, H, C) each single head.

    The output of a head that is off is replaced by its mean over `mean_of`, such as "32 test
    images". If this is None, it is replaced by zeros.
    """

    run: Run
    logits: np.ndarray
    without: np.ndarray
    mean_of: str | None = None

    @property
    def target(self) -> int:
        """Index of the class predicted with all heads on."""
        return int(self.logits.argmax())

    @property
    def logit_change(self) -> np.ndarray:
        """Change of the target's logit, (L, H); negative if the head supports the class."""
        return self.without[..., self.target] - self.logits[self.target]

    @property
    def probability_change(self) -> np.ndarray:
        """Change of the target's probability, (L, H)."""
        without = scipy.special.softmax(self.without, axis=-1)[..., self.target]
        return without - scipy.special.softmax(self.logits)[self.target]


@dataclass(frozen=True)
class AblationStep:
    """Progress: `done` of `total` images.

    The last step has the `test` of the model without the heads (first) against the model with all
    heads (second).
    """

    done: int
    total: int
    test: McNemar | None = None


@torch.inference_mode()
def head_effects(
    workbench: Workbench, run: Run, image: Image.Image, instead: str = "mean"
) -> Effects:
    """Return the predictions with each single head switched off. Raises `RunError`.

    `instead` is one of `INSTEAD`. The mean is over test images, or over the example photos if there
    is no test set with the run's classes.
    """
    run.check_classes()
    look = workbench.look(run, image)
    means, mean_of = head_means(workbench, run, image, instead)
    without = ablation.logits_without_each(workbench.model(run), look.tokens[:, None], means)
    check_finite(run, numpy(look.logits))
    return Effects(run, numpy(look.logits), numpy(without[:, :, 0]), mean_of)


@torch.inference_mode()
def answer_without(
    workbench: Workbench,
    run: Run,
    image: Image.Image,
    heads: Collection[Head],
    instead: str = "mean",
) -> np.ndarray:
    """Return probabilities (C,) with `heads` switched off, see `head_effects`.

    Raises `RunError`, and `ValueError` for a head that the model does not have.
    """
    model = workbench.model(run)
    check_attention(run, model)
    _, pixels = workbench.input(run.preprocessing, image)
    means, _ = head_means(workbench, run, image, instead)
    return scipy.special.softmax(numpy(ablation.logits_without(model, pixels, heads, means))[0])


@torch.inference_mode()
def head_means(
    workbench: Workbench, run: Run, image: Image.Image | None, instead: str = "mean"
) -> tuple[Means | None, str | None]:
    """Return replacements for the outputs of heads that are off, and what the mean is over.

    Without test images, the mean is over the example photos except `image`. Otherwise a head that
    is off would still pass on a part of its output for this image.

    Raises `RunError` if `instead` is not in `INSTEAD`.
    """
    if instead not in INSTEAD:
        choices = ", ".join(INSTEAD)
        raise RunError(f"Unknown replacement '{instead}' for a head: choose one of {choices}.")
    if instead == "zero":
        return None, None
    model = workbench.model(run)
    try:
        sample = workbench.sample(run, MEAN_PICTURES)
    except DataError:  # no test set with these classes
        photos = workbench.cache.of(_photos)
        of = tuple(i for i, photo in enumerate(photos) if not _same(photo, image))
        if not of:
            return None, None

        def pixels() -> Tensor:
            return torch.cat([workbench.input(run.preprocessing, photos[i])[1] for i in of])

        mean_of = f"{len(of)} photos, because no test images are available"
    else:

        def pixels() -> Tensor:
            return run.preprocessing(sample.images.to(workbench.device))

        of, mean_of = workbench.source(), f"{len(sample)} test images"
    key = (ablation.mean_outputs, run, of)
    means = workbench.cache.get_or_make(key, lambda: ablation.mean_outputs(model, pixels()))
    return means, mean_of


def _photos() -> list[Image.Image]:
    return [visible_square(load_image(file)) for file in example_files()]


def _same(one: Image.Image, other: Image.Image | None) -> bool:
    return other is not None and one.size == other.size and one.tobytes() == other.tobytes()


def accuracy_without(
    workbench: Workbench,
    run: Run,
    heads: Collection[Head],
    instead: str = "mean",
    count: int = ACCURACY_PICTURES,
) -> Iterator[AblationStep]:
    """Yield an `AblationStep` for each batch of test images; the last one has the test.

    The sample has up to `count` images, stratified by class and the same at every call. Predictions
    of the whole model are cached. `instead` is as in `head_effects`. Raises `DataError` without
    test images, and `RunError` for a model without attention.
    """
    sample = workbench.sample(run, count)
    check_attention(run, workbench.model(run))
    total = len(sample)
    key = (_right_answers, run, workbench.source(), count)
    before = workbench.cache.get(key)
    work = total if before is not None else 2 * total
    if before is None:
        parts = []
        for part in _right_answers(workbench, run, sample, (), None):
            parts.append(part)
            yield AblationStep(sum(map(len, parts)), work)
        before = workbench.cache.put(key, np.concatenate(parts))
    means, _ = head_means(workbench, run, None, instead)
    after = []
    for part in _right_answers(workbench, run, sample, heads, means):
        after.append(part)
        yield AblationStep(work - total + sum(map(len, after)), work)
    yield AblationStep(work, work, mcnemar(np.concatenate(after), before))


def _right_answers(
    workbench: Workbench, run: Run, sample: Pictures, heads: Collection[Head], means: Means | None
) -> Iterator[np.ndarray]:
    """Yield which images are classified correctly without `heads`, in batches (B,) of bool."""
    model = workbench.model(run)
    for images, labels in zip(sample.images.split(BATCH), sample.labels.split(BATCH), strict=True):
        with torch.inference_mode():  # not around a yield: it would stay active in the caller
            pixels = run.preprocessing(images.to(workbench.device))
            predicted = ablation.logits_without(model, pixels, heads, means).argmax(1).cpu()
        yield (predicted == labels).numpy()
