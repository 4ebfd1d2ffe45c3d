"""Section "Classes": number of images, colour statistics and mean image of each class.

Letters: N images, S their side in pixels, C classes.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vitdemo import data, figures
from vitdemo.errors import DataError
from vitdemo.figures.dataset import channel_plot
from vitdemo.page.components.article import Article, Figure, Folded, Heading, Piece, Plots, Text
from vitdemo.page.components.pictures import Item, Pictures, strip
from vitdemo.page.components.table import Cell, Table
from vitdemo.page.look.tab import Look
from vitdemo.page.sections import Sections
from vitdemo.workbench import Workbench

SHOWN = 200  # maximum number of mean images; more would make the page too long
READ = 2_000  # training images that the statistics are computed from
SIDE = 64  # side in pixels to which images of a folder are scaled for the statistics
LEVELS = (
    "Levels range from 0 (black) to 1. The model input is normalised: the channel's mean is "
    "subtracted, and the result is divided by the standard deviation."
)
MEANS = (
    "The pixel-wise mean of all images of a class shows their common position and colour. The "
    "class with the nearest mean image is correct for 28% of CIFAR-10's test images."
)


@dataclass(frozen=True, eq=False)
class Overview:
    """Number of images per class, (C,) int64, in the training set and the test set."""

    name: str
    classes: tuple[str, ...]
    train: np.ndarray
    test: np.ndarray
    notes: tuple[str, ...] = ()  # on files and classes that are left out


@dataclass(frozen=True, eq=False)
class Statistics:
    """Colour statistics of `read` out of `total` training images.

    `histograms` (3, 256) counts the pixels at each level of red, green and blue. `mean` and `std`
    are per channel, from 0 to 1. `means` (C, S, S, 3) uint8 holds the mean image of each class.
    """

    read: int
    total: int
    histograms: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    means: np.ndarray


def build(sections: Sections, workbench: Workbench, look: Look) -> None:
    """Lay out the section, which is empty without a dataset; the tab shows the reason."""
    view = Article(elem_id="classes")

    def draw():
        try:
            workbench.source()
        except DataError:
            return []
        return workbench.cache.of(article, overview(workbench), statistics(workbench))

    sections.add("data-classes", draw, [], [view])


def article(found: Overview, pixels: Statistics) -> list[Piece]:
    of = f"{pixels.read:,} of {pixels.total:,}" if pixels.read < pixels.total else "all"
    label = "Histogram of the red, green and blue levels"
    plot = Figure("Histogram of pixel levels", label, figures.svg(channel_plot(pixels.histograms)))
    means = pixels.means[:SHOWN]
    items = [
        Item(f"Mean of the training images of class {name}", name)
        for name in found.classes[: len(means)]
    ]
    return [
        Heading(f"{found.name}: {len(found.classes)} classes"),
        Text(balance_words(found)),
        *map(Text, found.notes),
        counts_table(found),
        Heading(f"Colours of {of} training images"),
        Plots([plot]),
        channel_table(pixels),
        Text(LEVELS),
        Folded("Number of pixels per level", [level_table(pixels)]),
        Heading("Mean image of each class"),
        Text(MEANS),
        Pictures(items, strip(means), 110),
    ]


def counts_table(found: Overview) -> Table:
    """Return a table with the number of training and test images per class, as bars."""
    rows = [
        (name, *(bar(counts[i], counts) for counts in (found.train, found.test)))
        for i, name in enumerate(found.classes)
    ]
    sums = [("All", *(f"{counts.sum():,}" for counts in (found.train, found.test)))]
    columns = ("Class", "Training images", "Test images")
    return Table(columns, rows, sums, file="vitdemo-classes")


def bar(count: int, counts: np.ndarray) -> Cell:
    share = 100 * count / max(int(counts.sum()), 1)
    text = f"{count:,} ({share:.1f}%)"
    return Cell(text, value=int(count), bar=count / max(int(counts.max()), 1))


def channel_table(pixels: Statistics) -> Table:
    rows = [
        (name, f"{mean:.4f}", f"{std:.4f}")
        for name, mean, std in zip(("red", "green", "blue"), pixels.mean, pixels.std, strict=True)
    ]
    return Table(("Channel", "Mean", "Standard deviation"), rows)


def level_table(pixels: Statistics) -> Table:
    rows = [(str(level), *map(str, counts)) for level, counts in enumerate(pixels.histograms.T)]
    return Table(("level", "red", "green", "blue"), rows, file="vitdemo-colours", tall=True)


def balance_words(found: Overview) -> str:
    """Describe whether all classes have the same number of training images."""
    fewest, most = int(found.train.min()), int(found.train.max())
    if fewest == most:
        return f"Every class has {most:,} training images, so all classes have the same weight."
    large, small = (found.classes[int(i)] for i in (found.train.argmax(), found.train.argmin()))
    return (
        f"The classes are imbalanced: '{large}' has {most:,} training images, '{small}' has "
        f"{fewest:,}. Large classes dominate the accuracy, so also check the macro averages."
    )


def overview(workbench: Workbench) -> Overview:
    """Return the cached number of images per class, without reading them. Raises `DataError`."""
    found = workbench.source()
    train, _ = workbench.cache.of(_training, found)
    return workbench.cache.of(_overview, found, train)


def statistics(workbench: Workbench) -> Statistics:
    """Return the cached colour statistics of the training images. Raises `DataError`."""
    found = workbench.source()
    training = workbench.cache.of(_training, found)
    return workbench.cache.of(_statistics, found, *training)


def _overview(found: data.Source, train: np.ndarray) -> Overview:
    count = partial(np.bincount, minlength=len(found.classes))
    test = count(found.labels("test").numpy())
    return Overview(found.name, found.classes, count(train), test, tuple(found.notes()))


def _statistics(found: data.Source, labels: np.ndarray, pictures: data.Pictures) -> Statistics:
    histograms = channel_histograms(pictures.images)
    mean, std = data.pixel_statistics(pictures.images)
    means = class_means(pictures, len(found.classes))
    return Statistics(len(pictures), len(labels), histograms, np.array(mean), np.array(std), means)


def _training(found: data.Source) -> tuple[np.ndarray, data.Pictures]:
    """Return all labels (N,) of the training set, and up to `READ` of its images."""
    if found.is_cifar10:  # labels and images are in the same file
        pictures = found.load("train")
        labels = pictures.labels.numpy()
        return labels, pictures.subset(torch.from_numpy(data.stratified(labels, READ)))
    labels = found.labels("train").numpy()
    return labels, found.load_some("train", torch.from_numpy(data.stratified(labels, READ)), SIDE)


def channel_histograms(images: Tensor) -> np.ndarray:
    """Count the pixels at each level and channel: (N, 3, S, S) uint8 -> (3, 256) int64."""
    counts = torch.zeros(3, 256, dtype=torch.int64)
    for part in images.split(1024):  # bincount converts to int64, gigabytes for the whole set
        for channel in range(3):
            counts[channel] += torch.bincount(part[:, channel].flatten(), minlength=256)
    return counts.numpy()


def class_means(pictures: data.Pictures, classes: int) -> np.ndarray:
    """Return the mean image per class, (C, S, S, 3) uint8; grey for a class without images."""
    S = pictures.images.shape[-1]
    sums = torch.zeros(classes, 3, S, S)
    for images, labels in zip(pictures.images.split(1024), pictures.labels.split(1024),
                              strict=True):  # fmt: skip
        sums.index_add_(0, labels, images.float())
    counts = torch.bincount(pictures.labels, minlength=classes).view(-1, 1, 1, 1)  # (C, 1, 1, 1)
    means = torch.where(counts > 0, sums / counts.clamp_min(1), 127.0)
    return means.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()  # (C, S, S, 3)
