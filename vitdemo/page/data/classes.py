"""Section "Classes": number of images, colour statistics and mean image of each class.

Letters: N images, S their side in pixels, C classes.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vitdemo import data, figures
from vitdemo.context import AppContext
from vitdemo.errors import DataError
from vitdemo.figures.dataset import plot_channel_histograms
from vitdemo.page.components.article import (
    Details,
    Document,
    DocumentBlock,
    Figure,
    Heading,
    Plots,
    Text,
)
from vitdemo.page.components.pictures import ImageItem, ImageRow, concatenate_images
from vitdemo.page.components.table import Cell, Table
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.sections import LazySections

MAX_MEAN_IMAGES = 200  # maximum number of mean images; more would make the page too long
MAX_IMAGES_READ = 2_000  # maximum number of training images for the statistics
STATISTICS_SIDE = 64  # pixels; images of a folder are scaled to this side for the statistics
LEVELS_HELP = (
    "Levels range from 0 (black) to 1. The model input is normalised: the channel's mean is "
    "subtracted, and the result is divided by the standard deviation."
)
MEAN_IMAGES_HELP = (
    "The pixel-wise mean of all images of a class shows their common position and colour. A "
    "classifier that predicts the class with the nearest mean image has 28% test accuracy on "
    "CIFAR-10."
)


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Number of images per class in the training set and the test set, (C,) int64 each."""

    name: str
    classes: tuple[str, ...]
    train: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...] = ()  # warnings about files and classes that are left out


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


def build(sections: LazySections, context: AppContext, look: ExploreTab) -> None:
    """Lay out the section. Without a dataset, the section is empty and the tab shows a message."""
    view = Document(elem_id="classes")

    def draw():
        try:
            context.open_dataset()
        except DataError:
            return []
        return context.cache.call(class_blocks, count_classes(context), colour_statistics(context))

    sections.add("data-classes", draw, [], [view])


def class_blocks(found: ClassCounts, pixels: ColourStatistics) -> list[DocumentBlock]:
    of = (
        f"{pixels.images_read:,} of {pixels.images_total:,}"
        if pixels.images_read < pixels.images_total
        else "all"
    )
    label = "Histogram of the red, green and blue levels"
    plot = Figure(
        "Histogram of pixel levels",
        label,
        figures.figure_to_svg(plot_channel_histograms(pixels.histograms)),
    )
    means = pixels.mean_images[:MAX_MEAN_IMAGES]
    items = [
        ImageItem(f"Mean of the training images of class {name}", name)
        for name in found.classes[: len(means)]
    ]
    return [
        Heading(f"{found.name}: {len(found.classes)} classes"),
        Text(describe_balance(found)),
        *map(Text, found.notes),
        counts_table(found),
        Heading(f"Colours of {of} training images"),
        Plots([plot]),
        channel_table(pixels),
        Text(LEVELS_HELP),
        Details("Number of pixels per level", [level_table(pixels)]),
        Heading("Mean image of each class"),
        Text(MEAN_IMAGES_HELP),
        ImageRow(items, concatenate_images(means), 110),
    ]


def counts_table(found: ClassCounts) -> Table:
    """Return a table with the numbers of training and test images per class."""
    rows = [
        (name, *(count_cell(counts[i], counts) for counts in (found.train, found.test)))
        for i, name in enumerate(found.classes)
    ]
    sums = [("All", *(f"{counts.sum():,}" for counts in (found.train, found.test)))]
    columns = ("Class", "Training images", "Test images")
    return Table(columns, rows, sums, file="vitdemo-classes")


def count_cell(count: int, counts: np.ndarray) -> Cell:
    share = 100 * count / max(int(counts.sum()), 1)
    text = f"{count:,} ({share:.1f}%)"
    return Cell(text, value=int(count), bar=count / max(int(counts.max()), 1))


def channel_table(pixels: ColourStatistics) -> Table:
    rows = [
        (name, f"{mean:.4f}", f"{std:.4f}")
        for name, mean, std in zip(("red", "green", "blue"), pixels.mean, pixels.std, strict=True)
    ]
    return Table(("Channel", "Mean", "Standard deviation"), rows)


def level_table(pixels: ColourStatistics) -> Table:
    rows = [(str(level), *map(str, counts)) for level, counts in enumerate(pixels.histograms.T)]
    return Table(("level", "red", "green", "blue"), rows, file="vitdemo-colours", tall=True)


def describe_balance(found: ClassCounts) -> str:
    """Describe whether all classes have the same number of training images."""
    fewest, most = int(found.train.min()), int(found.train.max())
    if fewest == most:
        return f"Every class has {most:,} training images, so all classes have the same weight."
    large, small = (found.classes[int(i)] for i in (found.train.argmax(), found.train.argmin()))
    return (
        f"The classes are imbalanced: '{large}' has {most:,} training images, '{small}' has "
        f"{fewest:,}. Large classes dominate the accuracy, so also check the macro averages."
    )


def count_classes(context: AppContext) -> ClassCounts:
    """Return the number of images per class, cached. Raises `DataError` without a dataset."""
    found = context.open_dataset()
    train, _ = context.cache.call(_load_training_images, found)
    return context.cache.call(_count_classes, found, train)


def colour_statistics(context: AppContext) -> ColourStatistics:
    """Return the colour statistics of the training images, cached. Raises `DataError`."""
    found = context.open_dataset()
    training = context.cache.call(_load_training_images, found)
    return context.cache.call(_colour_statistics, found, *training)


def _count_classes(found: data.ImageDataset, train: np.ndarray) -> ClassCounts:
    count = partial(np.bincount, minlength=len(found.classes))
    test = count(found.load_labels("test").numpy())
    return ClassCounts(found.name, found.classes, count(train), test, tuple(found.list_notes()))


def _colour_statistics(
    found: data.ImageDataset, labels: np.ndarray, pictures: data.LabelledImages
) -> ColourStatistics:
    histograms = channel_histograms(pictures.images)
    mean, std = data.pixel_statistics(pictures.images)
    means = compute_mean_images(pictures, len(found.classes))
    return ColourStatistics(
        len(pictures), len(labels), histograms, np.array(mean), np.array(std), means
    )


def _load_training_images(found: data.ImageDataset) -> tuple[np.ndarray, data.LabelledImages]:
    """Return all training labels (N,), and up to `MAX_IMAGES_READ` training images with labels."""
    if found.is_cifar10:  # labels and images are in the same file
        pictures = found.load("train")
        labels = pictures.labels.numpy()
        return labels, pictures.subset(
            torch.from_numpy(data.sample_stratified(labels, MAX_IMAGES_READ))
        )
    labels = found.load_labels("train").numpy()
    return labels, found.load_subset(
        "train", torch.from_numpy(data.sample_stratified(labels, MAX_IMAGES_READ)), STATISTICS_SIDE
    )


def channel_histograms(images: Tensor) -> np.ndarray:
    """Count the pixels per channel and level: (N, 3, S, S) uint8 -> (3, 256) int64."""
    counts = torch.zeros(3, 256, dtype=torch.int64)
    for part in images.split(1024):  # `bincount` makes int64 copies, too large for all images
        for channel in range(3):
            counts[channel] += torch.bincount(part[:, channel].flatten(), minlength=256)
    return counts.numpy()


def compute_mean_images(pictures: data.LabelledImages, classes: int) -> np.ndarray:
    """Return the mean image per class, (C, S, S, 3) uint8; grey for a class without images."""
    S = pictures.images.shape[-1]
    sums = torch.zeros(classes, 3, S, S)
    for images, labels in zip(pictures.images.split(1024), pictures.labels.split(1024),
                              strict=True):  # fmt: skip
        sums.index_add_(0, labels, images.float())
    counts = torch.bincount(pictures.labels, minlength=classes).view(-1, 1, 1, 1)  # (C, 1, 1, 1)
    means = torch.where(counts > 0, sums / counts.clamp_min(1), 127.0)
    return means.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()  # (C, S, S, 3)
