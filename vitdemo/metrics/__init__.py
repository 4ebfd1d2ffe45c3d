"""Accuracy, confusion matrix and per-class metrics from probabilities and labels of a test set.

Letters: N images, C classes. The predicted class has the highest probability; in a tie, the class
with the lower index is predicted. Every function with `probabilities` (N, C) and `labels` (N,)
validates them, see `check_predictions`.

Special cases:
- A class without images has NaN for precision, recall, F1 and ROC AUC. The page shows a dash, and
  macro averages leave the class out.
- A class that has images but is never predicted has a precision, recall and F1 of 0, as with
  scikit-learn's `zero_division=0`. With NaN, macro averages would leave out the worst classes.
- A class that contains all images has no "rest", so its one-vs-rest ROC AUC is NaN.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitdemo.metrics.checks import check_predictions, describe_array
from vitdemo.metrics.ranking_curves import roc_auc_by_class

DASH = "–"  # shown if a value was not measured or is not defined
# CIFAR-10 classes in sentences: singular with article, plural. Other class names are quoted.
CIFAR10_NOUNS = {
    "airplane": ("an airplane", "airplanes"),
    "automobile": ("an automobile", "automobiles"),
    "bird": ("a bird", "birds"),
    "cat": ("a cat", "cats"),
    "deer": ("a deer", "deer"),
    "dog": ("a dog", "dogs"),
    "frog": ("a frog", "frogs"),
    "horse": ("a horse", "horses"),
    "ship": ("a ship", "ships"),
    "truck": ("a truck", "trucks"),
}


@dataclass(frozen=True, eq=False)  # because == of arrays returns an array
class ClassMetrics:
    """Per-class metrics, each (C,); the module docstring explains NaN values."""

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    roc_auc: np.ndarray  # one-vs-rest
    support: np.ndarray  # number of images of the class, int64


@dataclass(frozen=True)
class ConfusedPair:
    """Pair of confused classes: `count` images of class `true` were predicted as `predicted`."""

    true: int
    predicted: int
    count: int
    fraction: float  # `count` divided by the number of images of the true class


def compute_accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the fraction of images whose most probable class is the true class."""
    check_predictions(probabilities, labels)
    return float(np.mean(np.argmax(probabilities, axis=1) == labels))


def confusion_matrix(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the confusion matrix (C, C) int64: row = true class, column = predicted class."""
    check_predictions(probabilities, labels)
    c = np.shape(probabilities)[1]
    predicted = np.argmax(probabilities, axis=1)  # (N, C) -> (N,)
    cell = np.asarray(labels, dtype=np.int64) * c + predicted  # uint8 labels would overflow
    # Not scikit-learn's confusion_matrix, because that function warns if there is a single class.
    return np.bincount(cell, minlength=c * c).reshape(c, c).astype(np.int64)  # (N,) -> (C, C)


def _divide(part: np.ndarray, total: np.ndarray, empty: float = 0.0) -> np.ndarray:
    """Divide `part` by `total`; the result is `empty` where `total` is 0."""
    return np.divide(part, total, out=np.full(part.shape, empty), where=total > 0)


def compute_class_metrics(probabilities: np.ndarray, labels: np.ndarray) -> ClassMetrics:
    """Return precision, recall, F1, one-vs-rest ROC AUC and support of each class."""
    # scikit-learn 1.7 would warn about too many classes for few images (scikit-learn#32309).
    matrix = confusion_matrix(probabilities, labels)
    hits, predicted, support = matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1)  # (C,)
    metrics = _precision_recall_f1(hits, predicted, support)
    return ClassMetrics(**metrics, roc_auc=roc_auc_by_class(probabilities, labels), support=support)


def _precision_recall_f1(
    hits: np.ndarray, predicted: np.ndarray, support: np.ndarray
) -> dict[str, np.ndarray]:
    """Return precision, recall and F1 from counts (..., C); NaN for a class without images."""
    has_images = support > 0
    return {
        "precision": np.where(has_images, _divide(hits, predicted), np.nan),
        "recall": _divide(hits, support, np.nan),
        "f1": np.where(has_images, _divide(2 * hits, predicted + support), np.nan),
    }


def most_confused_pairs(matrix: np.ndarray, limit: int) -> list[ConfusedPair]:
    """Return the `limit` largest off-diagonal cells of a confusion matrix (C, C).

    In a tie, the lower true class comes first, then the lower predicted class. Cells with 0 are
    left out, so the list may be shorter.
    """
    errors = matrix * ~np.eye(len(matrix), dtype=bool)
    support = matrix.sum(axis=1)
    return [
        ConfusedPair(true, predicted, count, float(count / support[true]))
        for true, predicted, count in _largest_cells(errors, limit)
    ]


def _largest_cells(matrix: np.ndarray, limit: int) -> list[tuple[int, int, int]]:
    """Return (row, column, value) of the `limit` largest cells above 0; ties in row-major order."""
    cells = [(int(i), int(j), int(matrix[i, j])) for i, j in np.argwhere(matrix)]
    return sorted(cells, key=lambda cell: -cell[2])[:limit]


def describe_pair(pair: ConfusedPair, classes: Sequence[str]) -> str:
    """Describe a confused pair, as in "146 cats were predicted as dogs (14.6% of all cats)".

    Names of other classes than CIFAR-10's, such as "scissors", have unknown plurals and articles.
    Such names are quoted: '2 images of "Mouse" were predicted as "cat"'. Names come from the user's
    folders, so escape the sentence before using it in HTML.
    """
    true, predicted, is_single = classes[pair.true], classes[pair.predicted], pair.count == 1
    if true in CIFAR10_NOUNS and predicted in CIFAR10_NOUNS:
        plural = CIFAR10_NOUNS[true][1]
        subject = true if is_single else plural
        target = CIFAR10_NOUNS[predicted][0 if is_single else 1]
    else:
        plural = f'images of "{true}"'
        subject = f'image of "{true}"' if is_single else plural
        target = f'"{predicted}"'
    verb = "was" if is_single else "were"
    percentage = _format_fraction(pair.fraction)
    return f"{pair.count} {subject} {verb} predicted as {target} ({percentage} of all {plural})."


def _format_fraction(fraction: float) -> str:
    """Format a percentage with one decimal, without rounding to 0% or 100%."""
    if 0 < fraction < 0.0005:
        return "less than 0.1%"
    if 0.9995 <= fraction < 1:
        return "more than 99.9%"
    return f"{100 * fraction:.1f}%"


def top_k_classes(probabilities: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k most probable classes of one row (C,): indices (k,) and probabilities (k,).

    The most probable class comes first; in a tie, the lower index comes first. If k exceeds C, all
    C classes are returned. Raises ValueError for a `k` below 1, and for probabilities that are not
    finite.
    """
    row = np.asarray(probabilities)
    if row.ndim != 1 or not np.isfinite(row).all():
        raise ValueError(
            f"top_k needs one row (C,) of finite probabilities, not {describe_array(row)}"
        )
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    indices = np.argsort(-row, kind="stable")[:k]  # (C,) -> (k,)
    return indices, row[indices]


def percent_text(fraction: float) -> str:
    """Format 0.973 as "97.3", and NaN as a dash."""
    return DASH if math.isnan(fraction) else f"{100 * fraction:.1f}"


def format_with_noun(count: float, noun: str) -> str:
    """Format a count with its noun: "1 epoch", "2.5 epochs"."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"


def format_time(seconds: float) -> str:
    """Format a duration: "40 s", "3 min"."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min"


def format_signed(points: float, decimals: int = 1) -> str:
    """Format a number with its sign: "+1.3", "−0.4", "0.0"; NaN is a dash."""
    if math.isnan(points):
        return DASH
    text = f"{abs(points):.{decimals}f}"
    return text if not float(text) else ("+" if points > 0 else "−") + text


def format_signed_range(low: float, high: float) -> str:
    """Format the ends of an interval with their signs: "−0.4 to +1.3"."""
    return f"{format_signed(low)} to {format_signed(high)}"
