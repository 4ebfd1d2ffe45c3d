"""Section "Classes": example images, number of images, mean images and colours of the classes."""

import numpy as np

from vitdemo import figures
from vitdemo.analyses.class_statistics import (
    ClassCounts,
    ColourStatistics,
    compute_colour_statistics,
    count_classes,
)
from vitdemo.context import AppContext
from vitdemo.documents import (
    Details,
    DocumentBlock,
    Figure,
    Heading,
    Plots,
    Text,
)
from vitdemo.documents.images import ImageItem, ImageRow, concatenate_images
from vitdemo.documents.table import Cell, Table
from vitdemo.figures.dataset import plot_channel_histograms
from vitdemo.page.bridge import add_view, document_payload
from vitdemo.page.data.classes import examples
from vitdemo.page.feature import Feature, PageSetup
from vitdemo.page.view_state import ViewState, needs

VIEW = "class_statistics"
MAX_MEAN_IMAGES = 200  # maximum number of mean images; more would make the page too long
COUNTS_TITLE = "Table of the classes"
LEVELS_HELP = (
    "Levels range from 0 (black) to 1. The model input is normalised: the channel's mean is "
    "subtracted, and the result is divided by the standard deviation."
)
MEAN_IMAGES_HELP = (
    "The pixel-wise mean of all images of a class shows their common position and colour. A "
    "classifier that predicts the class with the nearest mean image has 28% test accuracy on "
    "CIFAR-10."
)


def build(setup: PageSetup) -> None:
    add_view(examples.VIEW, elem_id="class-examples")
    add_view(VIEW, elem_id="classes")


@needs()
def payload(context: AppContext, state: ViewState) -> list:
    """Return the document of the dataset's classes. Raises `DataError` for an invalid image.

    Without a dataset, the document is empty, because the view of example images shows a message.
    """
    if context.is_dataset_missing():
        return []
    found = count_classes(context), compute_colour_statistics(context)
    return document_payload(context.cache.call(class_blocks, *found))


FEATURE = Feature({VIEW: payload})


def class_blocks(class_counts: ClassCounts, pixels: ColourStatistics) -> list[DocumentBlock]:
    of = "all"
    if pixels.images_read < pixels.images_total:
        of = f"{pixels.images_read:,} of {pixels.images_total:,}"
    label = "Histogram of the red, green and blue levels"
    svg = figures.figure_to_svg(plot_channel_histograms(pixels.histograms))
    plot = Figure("Histogram of pixel levels", label, svg)
    means = pixels.mean_images[:MAX_MEAN_IMAGES]
    items = [
        ImageItem(f"Mean of the training images of class {name}", name)
        for name in class_counts.classes[: len(means)]
    ]
    counts = counts_table(class_counts)
    return [
        Heading("Number of images"),
        Text(describe_balance(class_counts)),
        *map(Text, class_counts.notes),
        Details(COUNTS_TITLE, [counts]) if is_balanced(class_counts) else counts,
        Heading("Mean image of each class"),
        ImageRow(items, concatenate_images(means), 110),
        Heading(f"Colours of {of} training images"),
        Plots([plot]),
        channel_table(pixels),
        Details("Number of pixels per level", [level_table(pixels)]),
        Details("About", [Text(MEAN_IMAGES_HELP), Text(LEVELS_HELP)]),
    ]


def is_balanced(class_counts: ClassCounts) -> bool:
    return all(len(set(counts.tolist())) == 1 for counts in (class_counts.train, class_counts.test))


def counts_table(class_counts: ClassCounts) -> Table:
    parts = class_counts.train, class_counts.test
    rows = [
        (name, *(count_cell(counts[i], counts) for counts in parts))
        for i, name in enumerate(class_counts.classes)
    ]
    sums = [("All", *(f"{counts.sum():,}" for counts in parts))]
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


def describe_balance(counts: ClassCounts) -> str:
    fewest, most = int(counts.train.min()), int(counts.train.max())
    if fewest == most:
        tests = f" and {int(counts.test[0]):,} test images" if is_balanced(counts) else ""
        return f"Every class has {most:,} training images{tests}."
    large, small = (counts.classes[int(i)] for i in (counts.train.argmax(), counts.train.argmin()))
    return (
        f"The classes are imbalanced: '{large}' has {most:,} training images, and '{small}' has "
        f"{fewest:,} training images. Large classes dominate the accuracy, so also check the "
        "macro averages."
    )
