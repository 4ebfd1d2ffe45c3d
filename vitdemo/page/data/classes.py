"""Classes: how many pictures each has, which colours, and the mean picture of each.

Letters: N pictures, S their side, C classes.
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

SHOWN = 200  # classes with a mean picture; more would be a page of grey
READ = 2_000  # training pictures that the statistics are made of
SIDE = 64  # of a folder's pictures, for the statistics
LEVELS = (
    "Levels from 0 (black) to 1. A model sees each level less its channel's mean, divided by the "
    "standard deviation."
)
MEANS = (
    "The mean of all images of a class: what they share in place and colour. Choosing the "
    "class with the nearest mean image classifies 28 % of CIFAR-10's test images correctly."
)


@dataclass(frozen=True, eq=False)
class Overview:
    """Pictures of each class, (C,) int64, in training and test set."""

    name: str
    classes: tuple[str, ...]
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True, eq=False)
class Statistics:
    """Of `read` training pictures out of `total`.

    `histograms` (3, 256) counts the pixels at each level of red, green and blue, `mean` and `std`
    are theirs in 0..1, `means` (C, S, S, 3) uint8 is the mean picture of each class.
    """

    read: int
    total: int
    histograms: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    means: np.ndarray


def build(sections: Sections, workbench: Workbench, look: Look) -> None:
    """Lay out the section, empty where there is no data set: the tab says so."""
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
    plot = Figure(
        "How often each level occurs", label, figures.svg(channel_plot(pixels.histograms))
    )
    means = pixels.means[:SHOWN]
    items = [
        Item(f"Mean of the training pictures of {name}", name)
        for name in found.classes[: len(means)]
    ]
    return [
        Heading(f"{found.name}: {len(found.classes)} classes"),
        Text(balance_words(found)),
        counts_table(found),
        Heading(f"Colours of {of} training pictures"),
        Plots([plot]),
        channel_table(pixels),
        Text(LEVELS),
        Folded("Numbers: how many pixels have each level", [level_table(pixels)]),
        Heading("Mean picture of each class"),
        Text(MEANS),
        Pictures(items, strip(means), 110),
    ]


def counts_table(found: Overview) -> Table:
    """A bar a class for training and test pictures, on one scale each."""
    rows = [
        (name, *(bar(counts[i], counts) for counts in (found.train, found.test)))
        for i, name in enumerate(found.classes)
    ]
    sums = [("All", *(f"{counts.sum():,}" for counts in (found.train, found.test)))]
    columns = ("Class", "Training pictures", "Test pictures")
    return Table(columns, rows, sums, file="vitdemo-classes")


def bar(count: int, counts: np.ndarray) -> Cell:
    share = 100 * count / max(int(counts.sum()), 1)
    text = f"{count:,} ({share:.1f} %)"
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
    """Whether a class has more to learn from than another."""
    fewest, most = int(found.train.min()), int(found.train.max())
    if fewest == most:
        return f"Every class has {most:,} training pictures: accuracy counts all classes alike."
    large, small = (found.classes[int(i)] for i in (found.train.argmax(), found.train.argmin()))
    return (
        f"Classes are unequal: '{large}' has {most:,} training pictures, '{small}' {fewest:,}. "
        "Accuracy is dominated by the large ones: look at the macro means too."
    )


def overview(workbench: Workbench) -> Overview:
    """How many pictures there are, counted once; a folder's are not read. Raises `DataError`."""
    found = workbench.source()
    train, _ = workbench.cache.of(_training, found)
    return workbench.cache.of(_overview, found, train)


def statistics(workbench: Workbench) -> Statistics:
    """Colours and means of the training pictures, computed once. Raises `DataError`."""
    found = workbench.source()
    training = workbench.cache.of(_training, found)
    return workbench.cache.of(_statistics, found, *training)


def _overview(found: data.Source, train: np.ndarray) -> Overview:
    count = partial(np.bincount, minlength=len(found.classes))
    return Overview(found.name, found.classes, count(train), count(found.labels("test").numpy()))


def _statistics(found: data.Source, labels: np.ndarray, pictures: data.Pictures) -> Statistics:
    histograms = channel_histograms(pictures.images)
    mean, std = data.pixel_statistics(pictures.images)
    means = class_means(pictures, len(found.classes))
    return Statistics(len(pictures), len(labels), histograms, np.array(mean), np.array(std), means)


def _training(found: data.Source) -> tuple[np.ndarray, data.Pictures]:
    """All labels (N,) of the training set, and up to `READ` of its pictures."""
    if found.is_cifar10:  # one file holds both
        pictures = found.load("train")
        labels = pictures.labels.numpy()
        return labels, pictures.subset(torch.from_numpy(data.stratified(labels, READ)))
    labels = found.labels("train").numpy()
    return labels, found.load_some("train", torch.from_numpy(data.stratified(labels, READ)), SIDE)


def channel_histograms(images: Tensor) -> np.ndarray:
    """(N, 3, S, S) uint8 -> (3, 256) int64: how many pixels of each channel have each level."""
    counts = torch.zeros(3, 256, dtype=torch.int64)
    for part in images.split(1024):  # whole, the int64 that bincount makes would take gigabytes
        for channel in range(3):
            counts[channel] += torch.bincount(part[:, channel].flatten(), minlength=256)
    return counts.numpy()


def class_means(pictures: data.Pictures, classes: int) -> np.ndarray:
    """The mean picture of each class, (C, S, S, 3) uint8; grey where a class has no picture."""
    S = pictures.images.shape[-1]
    sums = torch.zeros(classes, 3, S, S)
    for images, labels in zip(pictures.images.split(1024), pictures.labels.split(1024),
                              strict=True):  # fmt: skip
        sums.index_add_(0, labels, images.float())
    counts = torch.bincount(pictures.labels, minlength=classes).view(-1, 1, 1, 1)  # (C, 1, 1, 1)
    means = torch.where(counts > 0, sums / counts.clamp_min(1), 127.0)
    return means.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()  # (C, S, S, 3)
