"""Groups of near-identical images, such as frames of a burst, and folds of whole groups.

A frame that a model was fitted on answers for the next frame of the same burst. Cross-validation
that separates the two therefore reports a memory as accuracy.

Letters: N images, D width of a feature, G groups.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image

# Measured on frames of 24 photos, cropped, shifted, turned and brightened at random, and on
# different images of the same class: see docs/own-classes.md. Splitting a burst makes an accuracy
# too high, merging two images makes its interval wider, so the limits are on the side of merging.
MIN_COSINE = 0.8  # of penultimate features
MIN_CORRELATION = 0.75  # of small images
SIDE = 16  # of these, in pixels
MAX_SHIFT = 2  # pixels of these that an image may be shifted by, an eighth of its side


def group_images(
    images: Sequence[Image.Image], features: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Return the group (N,) of each image: 0 to G-1, in the order of their first images.

    Two images are near-identical where both their features (N, D) and their pixels are similar,
    after subtracting the mean of the classes: a background that all images share, or features that
    the model gives to all of them, do not make them near-identical. Neither test is enough: the
    features of a class that the model knows are alike for different images, and so are the pixels
    of a sky. Groups are connected components, so the first and the last frame of a burst may
    differ.
    """
    from scipy.sparse.csgraph import connected_components

    alike = cosines(features, labels) >= MIN_COSINE
    alike &= correlations(images, labels) >= MIN_CORRELATION
    _, found = connected_components(alike, directed=False)
    return found


def cosines(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cosine of every two rows of the centred `features` (N, D), as (N, N)."""
    unit = _normalise(_without_mean(np.asarray(features, np.float64), labels))
    return unit @ unit.T


def _without_mean(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Subtract the mean of the class means, in which a class with a long burst counts once."""
    return values - np.mean([values[labels == c].mean(axis=0) for c in np.unique(labels)], axis=0)


def correlations(images: Sequence[Image.Image], labels: np.ndarray) -> np.ndarray:
    """Return the highest correlation of every two centred RGB images over small shifts, (N, N)."""
    size = (SIDE, SIDE)
    small = np.stack(
        [np.asarray(each.resize(size, Image.Resampling.BOX), float) for each in images]
    )  # (N, S, S, 3)
    small = _without_mean(small, labels)
    inner = slice(MAX_SHIFT, SIDE - MAX_SHIFT)
    middle, width = _centred(small[:, inner, inner]), SIDE - 2 * MAX_SHIFT
    best = np.full((len(small), len(small)), -1.0)
    for top in range(2 * MAX_SHIFT + 1):
        for left in range(2 * MAX_SHIFT + 1):
            moved = _centred(small[:, top : top + width, left : left + width])
            np.maximum(best, middle @ moved.T, out=best)
    return np.maximum(best, best.T)


def _centred(windows: np.ndarray) -> np.ndarray:
    """Windows (N, w, w, 3) as rows (N, w * w * 3) with mean 0 and length 1; uniform ones stay 0."""
    rows = windows.reshape(len(windows), -1)
    return _normalise(rows - rows.mean(axis=1, keepdims=True))


def _normalise(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def count_groups(labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the number of groups of each class (C,); a mixed group counts for its main class."""
    return np.bincount(_main_classes(labels, groups), minlength=labels.max() + 1)


def deal_groups(labels: np.ndarray, groups: np.ndarray, folds: int, seed: int = 0) -> np.ndarray:
    """Return the fold (N,) of each image: whole groups, each class in every fold.

    Groups go, the largest first, to the fold that has the fewest images of their class. Raises
    `ValueError` where a class has fewer groups than there are folds.
    """
    if count_groups(labels, groups).min() < folds:
        raise ValueError(f"a class has fewer than {folds} groups")
    classes, sizes = _main_classes(labels, groups), np.bincount(groups)  # each (G,)
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    held, chosen = np.zeros((labels.max() + 1, folds), int), np.empty(len(sizes), int)
    for group in order:
        counts = held[classes[group]]
        # Of folds with equally few images of the class, the one with the fewest images of all.
        chosen[group] = np.lexsort((held.sum(axis=0), counts))[0]
        held[classes[group], chosen[group]] += sizes[group]
    return chosen[groups]


def _main_classes(labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The class that most images of each group have, (G,)."""
    counts = np.zeros((groups.max() + 1, labels.max() + 1), int)
    np.add.at(counts, (groups, labels), 1)
    return counts.argmax(axis=1)


def effective_size(groups: np.ndarray) -> float:
    """Return the number of independent images that grouped images are worth (Kish 1965).

    (sum of m)^2 / sum of m^2 for groups of m images, all of which are taken to have one outcome:
    N without near-identical images, G for G groups of equal size.
    """
    sizes = np.bincount(groups).astype(float)
    return float(sizes.sum() ** 2 / (sizes**2).sum())
