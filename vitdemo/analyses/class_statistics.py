"""Number of images per class, example images, and colour statistics of the training images.

Letters: N images, S image side in pixels, C classes.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vitdemo import data
from vitdemo.context import AppContext

EXAMPLES_PER_CLASS = 10
MAX_EXAMPLE_CLASSES = 50
MAX_IMAGES_READ = 2_000  # maximum number of training images for the statistics
STATISTICS_SIDE = 64  # pixels; images of a folder are scaled to this side for the statistics


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Number of images per class in the training set and the test set, (C,) int64 each."""

    name: str
    classes: tuple[str, ...]
    train: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...] = ()  # warnings about ignored files and classes


@dataclass(frozen=True, eq=False)
class ClassExamples:
    """Example test images: `numbers[c]` of class c, in the order of `images` (N, S, S, 3) uint8."""

    classes: tuple[str, ...]
    numbers: list[list[int]]
    images: np.ndarray


@dataclass(frozen=True, eq=False)
class ColourStatistics:
    """Colour statistics of `images_read` out of `images_total` training images.

    `histograms` (3, 256) counts the pixels at each level of red, green and blue. `mean` and `std`
    (3) are per channel, for levels from 0 to 1. `mean_images` (C, S, S, 3) is uint8.
    """

    images_read: int
    images_total: int
    histograms: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    mean_images: np.ndarray


def count_classes(context: AppContext) -> ClassCounts:
    """Return the number of images per class, cached. Raises `DataError` without a dataset."""
    found = context.open_dataset()
    train, _ = context.cache.call(_load_training_images, found)
    return context.cache.call(_count_classes, found, train)


def sample_examples(context: AppContext) -> ClassExamples:
    """Return up to ten random test images per class, cached; every call returns the same images.

    Raises `DataError` without a dataset.
    """
    return context.cache.call(_sample_examples, context.open_dataset())


def _sample_examples(source: data.ImageDataset) -> ClassExamples:
    labels, random = source.load_labels("test").numpy(), np.random.default_rng(0)
    classes = source.classes[:MAX_EXAMPLE_CLASSES]
    chosen = [
        random.permutation(np.flatnonzero(labels == label))[:EXAMPLES_PER_CLASS]
        for label in range(len(classes))
    ]
    sample = source.load_subset("test", torch.from_numpy(np.concatenate(chosen)), STATISTICS_SIDE)
    images = sample.images.permute(0, 2, 3, 1).numpy()  # (N, S, S, 3)
    return ClassExamples(classes, [numbers.tolist() for numbers in chosen], images)


def compute_colour_statistics(context: AppContext) -> ColourStatistics:
    """Return the colour statistics of the training images, cached. Raises `DataError`."""
    found = context.open_dataset()
    training = context.cache.call(_load_training_images, found)
    return context.cache.call(_colour_statistics, found, *training)


def _count_classes(source: data.ImageDataset, train: np.ndarray) -> ClassCounts:
    count = partial(np.bincount, minlength=len(source.classes))
    test = count(source.load_labels("test").numpy())
    return ClassCounts(source.name, source.classes, count(train), test, tuple(source.list_notes()))


def _colour_statistics(
    source: data.ImageDataset, labels: np.ndarray, pictures: data.LabelledImages
) -> ColourStatistics:
    histograms = channel_histograms(pictures.images)
    mean, std = map(np.array, data.pixel_statistics(pictures.images))
    means = compute_mean_images(pictures, len(source.classes))
    return ColourStatistics(len(pictures), len(labels), histograms, mean, std, means)


def _load_training_images(source: data.ImageDataset) -> tuple[np.ndarray, data.LabelledImages]:
    """Return all training labels (N,), and up to `MAX_IMAGES_READ` training images with labels."""
    # Labels and images of CIFAR-10 are in the same file, which is read once.
    pictures = source.load("train") if source.is_cifar10 else None
    labels = source.load_labels("train") if pictures is None else pictures.labels
    chosen = torch.from_numpy(data.sample_stratified(labels.numpy(), MAX_IMAGES_READ))
    if pictures is None:
        return labels.numpy(), source.load_subset("train", chosen, STATISTICS_SIDE)
    return labels.numpy(), pictures.subset(chosen)


def channel_histograms(images: Tensor) -> np.ndarray:
    """Count the pixels per channel and level: (N, 3, S, S) uint8 -> (3, 256) int64."""
    counts = torch.zeros(3, 256, dtype=torch.int64)
    for part in images.split(1024):  # in small parts, because `bincount` copies its input as int64
        for channel in range(3):
            counts[channel] += torch.bincount(part[:, channel].flatten(), minlength=256)
    return counts.numpy()


def compute_mean_images(pictures: data.LabelledImages, classes: int) -> np.ndarray:
    """Return the mean image per class, (C, S, S, 3) uint8; grey for a class without images."""
    S = pictures.images.shape[-1]
    sums = torch.zeros(classes, 3, S, S)
    parts = pictures.images.split(1024), pictures.labels.split(1024)
    for images, labels in zip(*parts, strict=True):
        sums.index_add_(0, labels, images.float())
    counts = torch.bincount(pictures.labels, minlength=classes).view(-1, 1, 1, 1)  # (C, 1, 1, 1)
    means = torch.where(counts > 0, sums / counts.clamp_min(1), 127.0)
    return means.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()  # (C, S, S, 3)
