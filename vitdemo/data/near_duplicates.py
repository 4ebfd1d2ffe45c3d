"""Groups of near-identical images, folds that do not split groups, and copies in another set.

A burst of photos contains near-identical images. A model that was trained on one frame of a burst
classifies the other frames easily. Frames in different folds therefore bias the accuracy upwards.

Letters: N images, D feature dimension, G groups.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

# Thresholds measured on random crops, shifts, rotations and brightness changes of 24 photos, and on
# different images of the same class (log/2026-11-29-result-tables.md). The thresholds favour
# merging, because merging different images only makes the interval wider, but splitting a burst
# biases the accuracy.
MIN_COSINE = 0.8  # minimum cosine similarity of penultimate features
MIN_CORRELATION = 0.75  # minimum correlation of small images
SMALL_SIDE = 16  # side of the small images, in pixels
MAX_SHIFT = 2  # maximum shift between small images, in pixels
# Minimum correlation of an image with its copy. This threshold finds 298 of 300 copies of CIFAR-10
# images at JPEG quality 75, and marks 0.5% of the test images
# (benchmarks/log/2026-11-29-test-sets.md).
MIN_COPY_CORRELATION = 0.97


def group_images(
    images: Sequence[Image.Image], features: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Return the group (N,) of each image, 0 to G-1; a group contains near-identical images.

    Two images are near-identical if both their features (N, D) and their pixels are similar. The
    mean of the classes is subtracted first, so a background that all images share has no effect.
    Neither criterion is sufficient. Different images of a class that the model has learned have
    similar features, and different images of a sky have similar pixels. Groups are connected
    components, so the first and the last image of a burst may differ.
    """
    from scipy.sparse.csgraph import connected_components

    near_identical = pairwise_cosines(features, labels) >= MIN_COSINE
    near_identical &= pairwise_correlations(images, labels) >= MIN_CORRELATION
    _, groups = connected_components(near_identical, directed=False)
    return groups


def pairwise_cosines(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute the cosine similarity (N, N) of all pairs of centred `features` (N, D)."""
    normalised = _normalise(_subtract_class_mean(np.asarray(features, np.float64), labels))
    return normalised @ normalised.T


def _subtract_class_mean(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Subtract the mean of the class means, so that each class has the same weight."""
    return values - np.mean([values[labels == c].mean(axis=0) for c in np.unique(labels)], axis=0)


def pairwise_correlations(images: Sequence[Image.Image], labels: np.ndarray) -> np.ndarray:
    """Compute the highest correlation (N, N) over small shifts of all pairs of centred images."""
    small = _subtract_class_mean(_shrink(images), labels)  # (N, s, s, 3)
    inner = slice(MAX_SHIFT, SMALL_SIDE - MAX_SHIFT)
    centre, width = _normalise_windows(small[:, inner, inner]), SMALL_SIDE - 2 * MAX_SHIFT
    highest = np.full((len(small), len(small)), -1.0)
    for top in range(2 * MAX_SHIFT + 1):
        for left in range(2 * MAX_SHIFT + 1):
            shifted = _normalise_windows(small[:, top : top + width, left : left + width])
            np.maximum(highest, centre @ shifted.T, out=highest)
    return np.maximum(highest, highest.T)


def find_copies(images: Sequence[Image.Image], others: Tensor) -> np.ndarray:
    """Return a mask (N,) of the `images` that have a copy in `others` (M, 3, S, S).

    An image and its copy have almost the same pixels, perhaps after resizing or compression.
    """
    own = _normalise_small(torch.from_numpy(_shrink(images)).permute(0, 3, 1, 2))  # (N, K)
    small = F.adaptive_avg_pool2d(others.float(), SMALL_SIDE)  # (M, 3, s, s)
    return ((own @ _normalise_small(small).T) >= MIN_COPY_CORRELATION).any(1).numpy()


def _normalise_small(images: Tensor) -> Tensor:
    """Return small images (N, 3, s, s) as vectors (N, K) with mean 0 and norm 1."""
    vectors = images.float().flatten(1)
    return F.normalize(vectors - vectors.mean(1, keepdim=True), dim=1)


def _shrink(images: Sequence[Image.Image]) -> np.ndarray:
    """Return small images (N, s, s, 3)."""
    size = (SMALL_SIDE, SMALL_SIDE)
    return np.stack([np.asarray(each.resize(size, Image.Resampling.BOX), float) for each in images])


def _normalise_windows(windows: np.ndarray) -> np.ndarray:
    """Convert windows (N, w, w, 3) to rows with mean 0 and norm 1; uniform windows become 0."""
    rows = windows.reshape(len(windows), -1)
    return _normalise(rows - rows.mean(axis=1, keepdims=True))


def _normalise(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def count_groups(labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Count the groups of each class, (C,); a mixed group counts for its most frequent class."""
    return np.bincount(_main_classes(labels, groups), minlength=labels.max() + 1)


def assign_folds(labels: np.ndarray, groups: np.ndarray, folds: int) -> np.ndarray:
    """Assign images to folds (N,), so that no group is divided and every fold has every class.

    The largest groups are assigned first, each to the fold with the fewest images of its class.
    Raises `ValueError` if a class has fewer groups than `folds`.
    """
    if count_groups(labels, groups).min() < folds:
        raise ValueError(f"a class has fewer than {folds} groups")
    classes, sizes = _main_classes(labels, groups), np.bincount(groups)  # each (G,)
    order = np.random.default_rng(0).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_counts, group_folds = np.zeros((labels.max() + 1, folds), int), np.empty(len(sizes), int)
    for group in order:
        counts = fold_counts[classes[group]]
        # Ties are broken by the total number of images in the fold.
        group_folds[group] = np.lexsort((fold_counts.sum(axis=0), counts))[0]
        fold_counts[classes[group], group_folds[group]] += sizes[group]
    return group_folds[groups]


def _main_classes(labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    counts = np.zeros((groups.max() + 1, labels.max() + 1), int)
    np.add.at(counts, (groups, labels), 1)
    return counts.argmax(axis=1)


def effective_sample_size(groups: np.ndarray) -> float:
    """Compute the effective sample size of grouped images (Kish 1965).

    The size is (sum of m)^2 / sum of m^2 for groups of m images, if all images of a group have the
    same outcome. The size is N without near-identical images, and G for groups of equal size.
    """
    sizes = np.bincount(groups).astype(float)
    return float(sizes.sum() ** 2 / (sizes**2).sum())
