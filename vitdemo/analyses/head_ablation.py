"""Predictions of a model with some attention heads switched off, for one image or the test set.

Letters: L layers, H heads, C classes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from PIL import Image
from torch import Tensor

from vitdemo.context import AppContext
from vitdemo.data import LabelledImages
from vitdemo.data.photos import is_same_image, load_example_squares
from vitdemo.errors import DataError, RunError
from vitdemo.explain import head_ablation
from vitdemo.explain.checks import require_attention, require_finite, to_numpy
from vitdemo.explain.head_ablation import HeadIndex, HeadMeans
from vitdemo.metrics.paired import McNemarResult, mcnemar
from vitdemo.runs import Run

NUM_ACCURACY_IMAGES = 1000
NUM_MEAN_IMAGES = 32  # number of images over which a head's output is averaged
ABLATION_MODES = ("mean", "zero")  # replacements for the output of an ablated head
ABLATION_BATCH_SIZE = 50  # images per forward pass


@dataclass(frozen=True, eq=False)
class AblationEffects:
    """Effect of each attention head on the prediction for one image.

    `logits` (C,) are computed with all heads, and `ablated_logits` (L, H, C) with one head off. The
    head's output is replaced by its mean over `mean_source` ("32 test images"). If `mean_source` is
    None, the output is replaced by zeros.
    """

    run: Run
    logits: np.ndarray
    ablated_logits: np.ndarray
    mean_source: str | None = None

    @property
    def target(self) -> int:
        """Index of the class that the model predicts with all heads on."""
        return int(self.logits.argmax())

    @property
    def logit_change(self) -> np.ndarray:
        """Change (L, H) of the predicted class's logit; negative if the head supports the class."""
        return self.ablated_logits[..., self.target] - self.logits[self.target]

    @property
    def probability_change(self) -> np.ndarray:
        """Change (L, H) of the predicted class's probability when one head is off."""
        without = scipy.special.softmax(self.ablated_logits, axis=-1)[..., self.target]
        return without - scipy.special.softmax(self.logits)[self.target]


@dataclass(frozen=True)
class AblationStep:
    """Progress of an accuracy measurement with some heads off: `done` of `total` images.

    The last step contains McNemar's `test`: the model without these heads against the whole model.
    """

    done: int
    total: int
    test: McNemarResult | None = None


@torch.inference_mode()
def compute_head_effects(
    context: AppContext, run: Run, image: Image.Image, mode: str = "mean"
) -> AblationEffects:
    """Predict `image` with each single head switched off. Raises `RunError`.

    `mode` is one of `ABLATION_MODES`. "mean" replaces a head's output by its mean over test images,
    or over the example photos if no test set has the run's classes.
    """
    run.require_classes()
    look = context.trace_image(run, image)
    means, mean_of = load_head_means(context, run, image, mode)
    without = head_ablation.ablate_each_head(context.load_model(run), look.tokens[:, None], means)
    require_finite(run, to_numpy(look.logits))
    return AblationEffects(run, to_numpy(look.logits), to_numpy(without[:, :, 0]), mean_of)


@torch.inference_mode()
def predict_without_heads(
    context: AppContext,
    run: Run,
    image: Image.Image,
    heads: Collection[HeadIndex],
    mode: str = "mean",
) -> np.ndarray:
    """Return the class probabilities (C,) for `image` with `heads` switched off.

    `mode` is as in `compute_head_effects`. Raises `RunError`, and `ValueError` for an unknown head.
    """
    model = context.load_model(run)
    require_attention(run, model)
    _, pixels = context.prepare_input(run.preprocessing, image)
    means, _ = load_head_means(context, run, image, mode)
    logits = to_numpy(head_ablation.ablate_heads(model, pixels, heads, means))[0]  # (C,)
    return scipy.special.softmax(logits)


@torch.inference_mode()
def load_head_means(
    context: AppContext, run: Run, image: Image.Image | None, mode: str = "mean"
) -> tuple[HeadMeans | None, str | None]:
    """Return the mean outputs of all heads and a description of the images; both None for "zero".

    Without test images, the mean is over the example photos except `image`, so that the mean does
    not contain the head's output for this image.

    Raises `RunError` if `mode` is not in `ABLATION_MODES`.
    """
    if mode not in ABLATION_MODES:
        choices = ", ".join(ABLATION_MODES)
        raise RunError(f"Unknown replacement '{mode}' for a head: choose one of {choices}.")
    if mode == "zero":
        return None, None
    model = context.load_model(run)
    try:
        sample = context.sample_test_images(run, NUM_MEAN_IMAGES)
    except DataError:  # no test set has these classes, so the example photos are used
        photos = context.cache.call(load_example_squares)
        of = [i for i, photo in enumerate(photos) if not is_same_image(photo, image)]
        if not of:
            return None, None
        outputs = compute_photo_outputs(context, run)
        return [each[of].mean(0) for each in outputs], describe_photo_means(len(of))
    key = (head_ablation.compute_head_means, run, context.open_dataset())
    means = context.cache.get_or_compute(
        key,
        lambda: head_ablation.compute_head_means(
            model, run.preprocessing(sample.images.to(context.device))
        ),
    )
    return means, f"{len(sample)} test images"


def describe_photo_means(count: int) -> str:
    return f"{count} photos, because no test images are available"


@torch.inference_mode(False)
@torch.no_grad()
def compute_photo_outputs(context: AppContext, run: Run) -> list[Tensor]:
    """Return the cached outputs (n, H, N, D/H) of heads for n example photos, for L layers."""
    model = context.load_model(run)

    def compute() -> list[Tensor]:
        photos = context.cache.call(load_example_squares)
        crops = [context.prepare_input(run.preprocessing, each)[1].clone() for each in photos]
        outputs = [head_ablation.compute_head_means(model, each) for each in crops]  # n of L
        return [torch.stack(each) for each in zip(*outputs, strict=True)]

    return context.cache.get_or_compute((compute_photo_outputs, run), compute)


def measure_accuracy_without_heads(
    context: AppContext, run: Run, heads: Collection[HeadIndex], mode: str = "mean"
) -> Iterator[AblationStep]:
    """Yield an `AblationStep` for each batch of test images; the last step contains the test.

    The sample has up to `NUM_ACCURACY_IMAGES` images, stratified by class. Every call uses the same
    images. Predictions of the whole model are cached. `mode` is as in `compute_head_effects`.
    Raises `DataError` without test images, and `RunError` for a model without attention.
    """
    sample = context.sample_test_images(run, NUM_ACCURACY_IMAGES)
    require_attention(run, context.load_model(run))
    key = (_iter_correct_predictions, run, context.open_dataset(), NUM_ACCURACY_IMAGES)
    before, done = context.cache.get(key), 0
    passes = [(heads, load_head_means(context, run, None, mode)[0])]
    if before is None:
        passes.insert(0, ((), None))
    total = len(passes) * len(sample)
    for ablated, means in passes:
        parts = []
        for part in _iter_correct_predictions(context, run, sample, ablated, means):
            parts.append(part)
            done += len(part)
            yield AblationStep(done, total)
        after = np.concatenate(parts)
        if before is None:
            before = context.cache.put(key, after)
    yield AblationStep(total, total, mcnemar(after, before))


def _iter_correct_predictions(
    context: AppContext,
    run: Run,
    sample: LabelledImages,
    heads: Collection[HeadIndex],
    means: HeadMeans | None,
) -> Iterator[np.ndarray]:
    """Yield a mask (B,) of the images classified correctly without `heads`, for each batch."""
    model = context.load_model(run)
    parts = [each.split(ABLATION_BATCH_SIZE) for each in (sample.images, sample.labels)]
    for images, labels in zip(*parts, strict=True):
        # Inference mode ends before the yield. Otherwise, the caller's code would also run in it.
        with torch.inference_mode():
            pixels = run.preprocessing(images.to(context.device))
            predicted = head_ablation.ablate_heads(model, pixels, heads, means).argmax(1).cpu()
        yield (predicted == labels).numpy()
