"""Stratified splits and samples of images, by their labels."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from vitdemo.data.image_folders import (
    format_some_names,
)
from vitdemo.errors import DataError


def stratified_split(
    labels: Tensor, held_out: float | int, seed: int, classes: Sequence[str] = ()
) -> tuple[Tensor, Tensor]:
    """Split N images into sorted (kept, held out) indices, stratified by class.

    Both parts contain every class. If this requires more or fewer held-out images than `held_out`,
    their number is adjusted.

    Args:
        labels: (N,) int64.
        held_out: fraction (float) or number (int) of images to hold out.
        seed: the same seed gives the same split on every machine.
        classes: the class names, for error messages.

    Raises `DataError` for a class with a single image, because the image cannot be in both parts.
    """
    values = labels.numpy()
    found, counts = np.unique(values, return_counts=True)
    single = [str(classes[label] if classes else label) for label in found[counts == 1]]
    if single:
        raise DataError(
            "Every class needs at least two training images, because one is used for validation. "
            f"Add images to the classes with a single image: {format_some_names(single)}."
        )
    C, N = len(found), len(values)
    wanted = math.ceil(held_out * N) if isinstance(held_out, float) else held_out
    split = _scikit_learn_split(values, held_out, seed)
    if split is not None:
        missing = [C - len(np.unique(values[part])) for part in split]  # missing classes
        if not any(missing):
            return torch.from_numpy(split[0]), torch.from_numpy(split[1])
        wanted += missing[1] - missing[0]
    place = _move_one_per_class_first(values, seed, move_one_last=True)
    order = np.argsort(place, kind="stable")
    held = min(max(wanted, C), N - C)
    kept, held = np.sort(order[held:]), np.sort(order[:held])
    return torch.from_numpy(kept), torch.from_numpy(held)


def stratified_subset(labels: Tensor, count: int, seed: int) -> Tensor:
    """Draw `count` of N images, stratified, with at least one per class; return sorted indices.

    Raises `DataError` if there are more than `count` classes.
    """
    values = labels.numpy()
    C = len(np.unique(values))
    if count < C:
        raise DataError(
            f"--train-images is {count}, fewer than the {C} classes. Choose --train-images {C} or "
            "more, or 0 for all."
        )
    split = _scikit_learn_split(values, len(values) - count, seed)
    if split is not None and len(np.unique(values[split[0]])) == C:
        return torch.from_numpy(split[0])
    place = _move_one_per_class_first(values, seed)
    return torch.from_numpy(np.sort(np.argsort(place, kind="stable")[:count]))


def _scikit_learn_split(
    labels: np.ndarray, held_out: float | int, seed: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return scikit-learn's split (kept, held out), or None if it raises an error.

    Existing runs use scikit-learn's splits. scikit-learn rejects a part that is smaller than the
    number of classes. In its splits, the smaller part can lack small classes.
    """
    from sklearn.model_selection import train_test_split  # the import takes 1.5 s

    try:
        parts = train_test_split(
            np.arange(len(labels)), test_size=held_out, stratify=labels, random_state=seed
        )
    except ValueError:
        return None
    return np.sort(parts[0]), np.sort(parts[1])


def _move_one_per_class_first(
    labels: np.ndarray, seed: int, *, move_one_last: bool = False
) -> np.ndarray:
    """Rank images within classes; one image per class gets -1 and, if asked, another one gets 2."""
    place = _rank_within_classes(labels, seed)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        first, last = members[place[members].argmin()], members[place[members].argmax()]
        place[first] = -1
        if move_one_last:
            place[last] = 2
    return place


def sample_stratified(labels: np.ndarray, count: int) -> np.ndarray:
    """Draw up to `count` of the `labels` (N,), stratified by class; return sorted indices.

    The proportion of each class is exact within one image. Unlike scikit-learn's split, this
    function accepts classes of any size.
    """
    return np.sort(np.argsort(_rank_within_classes(labels, seed=0), kind="stable")[:count])


def _rank_within_classes(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return the relative rank (N,), 0 to 1, of each image in a random order of its class."""
    random = np.random.default_rng(seed)
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return place
