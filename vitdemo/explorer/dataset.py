"""The data set itself: how many pictures a class has, their colours, their mean, the download.

Letters: N pictures, S their side, C classes.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vitdemo import data
from vitdemo.data import stratified
from vitdemo.errors import DataError
from vitdemo.workbench import Workbench

READ = 2_000  # training pictures that the statistics are made of
SIDE = 64  # of a folder's pictures, for the statistics


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


def absence(workbench: Workbench) -> str:
    """Why there is no data set, in a sentence; empty where there is one."""
    try:
        workbench.source()
    except DataError as error:
        return str(error)
    return ""


def downloadable(workbench: Workbench) -> bool:
    """Whether CIFAR-10 can be downloaded to where the page looks for data."""
    return data.is_absent(workbench.data_root)


def overview(workbench: Workbench) -> Overview:
    """How many pictures there are; a folder's are counted, not read. Raises `DataError`."""
    found = workbench.source()
    count = partial(np.bincount, minlength=len(found.classes))
    train, _ = workbench.cache.of(_training, found)
    return Overview(found.name, found.classes, count(train), count(found.labels("test").numpy()))


def statistics(workbench: Workbench) -> Statistics:
    """Colours and means of the training pictures, computed once. Raises `DataError`."""
    found = workbench.source()
    training = workbench.cache.of(_training, found)
    return workbench.cache.of(_statistics, found, *training)


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
        return labels, pictures.subset(torch.from_numpy(stratified(labels, READ)))
    labels = found.labels("train").numpy()
    return labels, found.load_some("train", torch.from_numpy(stratified(labels, READ)), SIDE)


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


_downloading = threading.Lock()


def download(workbench: Workbench, open_source: Callable = data.open_source) -> Overview:
    """Fetch CIFAR-10 to where the page looks for data; torchvision's tqdm tells how far it is.

    One download at a time, whoever asks. Raises `DataError` where one is under way, where there
    is no network, or where the folder holds something else.
    """
    if not _downloading.acquire(blocking=False):
        raise DataError("The data set is being downloaded already: look again in a minute.")
    try:
        open_source(workbench.data_root, download=True)
    finally:
        _downloading.release()
    return overview(workbench)
