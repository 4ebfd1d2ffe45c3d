"""What a model answers with heads switched off: to one picture, and to many.

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
MEAN_PICTURES = 32  # over which the mean of what a head hands on is taken
INSTEAD = ("mean", "zero")  # what a head that is off hands on
BATCH = 50  # pictures that are answered at a time


@dataclass(frozen=True, eq=False)
class Effects:
    """What the model answers to one picture, `logits` (C,), and `without` (L, H, C) each one head.

    A head that is off hands on its mean over `mean_of`, "32 test pictures", or with None nothing.
    """

    run: Run
    logits: np.ndarray
    without: np.ndarray
    mean_of: str | None = None

    @property
    def target(self) -> int:
        """The predicted class with all heads on."""
        return int(self.logits.argmax())

    @property
    def logit_change(self) -> np.ndarray:
        """Of the target's logit, (L, H); negative where the head speaks for the class."""
        return self.without[..., self.target] - self.logits[self.target]

    @property
    def probability_change(self) -> np.ndarray:
        """Of the target's probability, (L, H)."""
        without = scipy.special.softmax(self.without, axis=-1)[..., self.target]
        return without - scipy.special.softmax(self.logits)[self.target]


@dataclass(frozen=True)
class AblationStep:
    """`done` of `total` pictures; with the last one comes the `test` of the model without the
    heads (first) against the model with all of them (second)."""

    done: int
    total: int
    test: McNemar | None = None


@torch.inference_mode()
def head_effects(
    workbench: Workbench, run: Run, image: Image.Image, instead: str = "mean"
) -> Effects:
    """Every single head of `run` switched off in its turn. Raises `RunError` as `logit_lens`.

    `instead` is one of `INSTEAD`; the mean is over test pictures, or over the example photos where
    there are none that the run knows.
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
    """Probabilities (C,) with `heads` switched off, as in `head_effects`. Raises `RunError`, and
    `ValueError` for a head that the model does not have."""
    model = workbench.model(run)
    check_attention(run, model)
    _, pixels = workbench.input(run.preprocessing, image)
    means, _ = head_means(workbench, run, image, instead)
    return scipy.special.softmax(numpy(ablation.logits_without(model, pixels, heads, means))[0])


@torch.inference_mode()
def head_means(
    workbench: Workbench, run: Run, image: Image.Image | None, instead: str = "mean"
) -> tuple[Means | None, str | None]:
    """What heads that are off hand on, and over what the mean is: see `Effects`.

    For want of test pictures the mean is over the example photos but for `image`: a head that is
    off would else hand on a part of what it tells of this one.

    Raises `RunError` for something that is not in `INSTEAD`.
    """
    if instead not in INSTEAD:
        raise RunError(f"A head cannot hand on '{instead}': choose one of {', '.join(INSTEAD)}.")
    if instead == "zero":
        return None, None
    model = workbench.model(run)
    try:
        sample = workbench.sample(run, MEAN_PICTURES)
    except DataError:  # absent, or of other classes
        photos = workbench.cache.of(_photos)
        of = tuple(i for i, photo in enumerate(photos) if not _same(photo, image))
        if not of:
            return None, None

        def pixels() -> Tensor:
            return torch.cat([workbench.input(run.preprocessing, photos[i])[1] for i in of])

        mean_of = f"{len(of)} photos, for want of test pictures"
    else:

        def pixels() -> Tensor:
            return run.preprocessing(sample.images.to(workbench.device))

        of, mean_of = workbench.source(), f"{len(sample)} test pictures"
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
    """An `AblationStep` for each batch of test pictures; the last one has the test.

    Up to `count` pictures, each class in proportion, the same at every call; what the whole model
    answers to them is kept, and `instead` is as in `head_effects`. Raises `DataError` where they
    are absent, `RunError` without attention.
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
    """Which pictures are named rightly without `heads`, a batch (B,) bool at a time."""
    model = workbench.model(run)
    for images, labels in zip(sample.images.split(BATCH), sample.labels.split(BATCH), strict=True):
        with torch.inference_mode():  # not around a yield: it would leak into the caller
            pixels = run.preprocessing(images.to(workbench.device))
            predicted = ablation.logits_without(model, pixels, heads, means).argmax(1).cpu()
        yield (predicted == labels).numpy()
