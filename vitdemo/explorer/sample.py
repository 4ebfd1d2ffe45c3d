"""A sample of the test set in memory, each class in proportion: for what takes too long on all.

Letters: N pictures of the sample, S their side.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vitdemo import data, inputs
from vitdemo.data import Pictures
from vitdemo.errors import DataError, ImageError
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

PICTURES = 1000


@dataclass(frozen=True)
class Sample:
    """`pictures.images` (N, 3, S, S) uint8, `pictures.labels` (N,) into `classes`; from `root`."""

    root: Path
    classes: tuple[str, ...]
    pictures: Pictures


def test_sample(workbench: Workbench, run: Run, count: int = PICTURES) -> Sample:
    """Up to `count` test pictures that `run` can be tested on, the same ones at every call.

    CIFAR-10's are 32 pixels wide; a folder's become squares of the run's own input size. Raises
    `DataError` where the data set is absent, holds a file that is no picture, or has classes that
    are not the run's.
    """
    root = workbench.data_root or data.default_root()
    found = _sample(workbench, root, count, run.preprocessing.size)
    if found.classes != run.classes:
        raise DataError(
            f"'{run.name}' was trained on other classes than those of '{root}': pass --data the "
            "data set that it knows."
        )
    return found


test_sample.__test__ = False  # no test, whatever pytest makes of its name


def _sample(workbench: Workbench, root: Path, count: int, size: int) -> Sample:
    """CIFAR-10's pictures keep their own size, so that one sample serves models of any."""
    source = data.open_source(root, download=False)
    return workbench.cache.of(_read_sample, source, count, 0 if source.is_cifar10 else size)


def _read_sample(source: data.Source, count: int, size: int) -> Sample:
    root = source.root
    if source.is_cifar10:
        pictures = source.load("test")
        chosen = stratified(pictures.labels.numpy(), count)
        return Sample(root, source.classes, pictures.subset(torch.from_numpy(chosen)))
    files = source.files("test")
    labels = np.array([label for _, label in files])
    chosen = stratified(labels, count)
    images = [_read_square(files[i][0], size) for i in chosen]
    stacked = torch.from_numpy(np.stack(images))  # (N, 3, size, size)
    return Sample(root, source.classes, Pictures(stacked, torch.from_numpy(labels[chosen])))


def _read_square(path: str, size: int) -> np.ndarray:
    try:
        return inputs.to_uint8(inputs.square_crop(inputs.load_image(path), size))
    except ImageError as error:
        raise DataError(f"A test picture cannot be used: {error}") from error


def stratified(labels: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Indices of `count` of the `labels` (of all where there are fewer), sorted.

    Each class has its share of all, within one picture; unlike scikit-learn's split this takes
    classes of any size.
    """
    random = np.random.default_rng(seed)
    place = np.empty(len(labels))  # within its class, 0 to 1
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.sort(np.argsort(place, kind="stable")[:count])
