"""Probabilities and labels of a test set -> accuracy, confusion, per-class metrics, calibration.

Letters: N pictures, C classes. The predicted class is the arg-max of its row, the lower index on
a tie. Every function that takes `probabilities` (N, C) and `labels` (N,) refuses bad ones: `check`.

Degenerate classes, by one rule each:
- a class without pictures was not measured: precision, recall, F1 and ROC AUC are NaN (the page
  shows a dash), and macro means leave it out;
- a class with pictures that was never predicted has precision 0, recall 0 and F1 0, as with
  scikit-learn's `zero_division=0`. NaN would drop it from the macro mean and flatter the model;
- a class that all pictures belong to has no "rest", so its one-vs-rest ROC AUC is NaN.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitdemo.metrics.checks import check, kind_of
from vitdemo.metrics.curves import roc_areas

DASH = "–"  # what was not measured, or is not defined
# CIFAR-10's words: singular with its article, plural. Any other class name is quoted instead.
WORDS = {
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


@dataclass(frozen=True, eq=False)  # == on arrays has no single truth value
class ClassMetrics:
    """One value a class, each (C,); NaN where the module's docstring says so."""

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    roc_auc: np.ndarray  # one-vs-rest
    support: np.ndarray  # pictures of the class, int64


@dataclass(frozen=True)
class ConfusedPair:
    """`count` pictures of class `true` were taken for `predicted`, a `share` (0 to 1) of it."""

    true: int
    predicted: int
    count: int
    share: float


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Share of pictures whose most probable class is the true one, 0 to 1."""
    check(probabilities, labels)
    return float(np.mean(np.argmax(probabilities, axis=1) == labels))


def confusion(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Counts (C, C) int64: row = true class, column = predicted class."""
    check(probabilities, labels)
    c = np.shape(probabilities)[1]
    predicted = np.argmax(probabilities, axis=1)  # (N, C) -> (N,)
    cell = np.asarray(labels, dtype=np.int64) * c + predicted  # uint8 labels would overflow
    # scikit-learn's confusion_matrix warns on a single class.
    return np.bincount(cell, minlength=c * c).reshape(c, c).astype(np.int64)  # (N,) -> (C, C)


def _square(matrix: np.ndarray) -> np.ndarray:
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a confusion matrix has shape (C, C), not {matrix.shape}")
    return matrix


def _ratio(part: np.ndarray, whole: np.ndarray, empty: float = 0.0) -> np.ndarray:
    """part / whole, and `empty` where whole is 0."""
    return np.divide(part, whole, out=np.full(part.shape, empty), where=whole > 0)


def per_class(probabilities: np.ndarray, labels: np.ndarray) -> ClassMetrics:
    """Precision, recall, F1, one-vs-rest ROC AUC and support of each class."""
    # By hand: scikit-learn 1.7 warns of too many classes when pictures are few (its #32309).
    matrix = confusion(probabilities, labels)
    hits, predicted, support = matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1)  # (C,)
    shares = _shares(hits, predicted, support)
    return ClassMetrics(**shares, roc_auc=roc_areas(probabilities, labels), support=support)


def _shares(hits: np.ndarray, predicted: np.ndarray, support: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 of counts (..., C); NaN where a class has no pictures."""
    there = support > 0
    return {
        "precision": np.where(there, _ratio(hits, predicted), np.nan),
        "recall": _ratio(hits, support, np.nan),
        "f1": np.where(there, _ratio(2 * hits, predicted + support), np.nan),
    }


def most_confused(matrix: np.ndarray, limit: int = 10) -> list[ConfusedPair]:
    """The `limit` largest off-diagonal cells of (C, C) counts; on a tie the lower true class, then
    the lower predicted one.

    Cells of zero are left out, so the list may be shorter.
    """
    if limit < 0:
        raise ValueError(f"limit must be 0 or more, not {limit}")
    matrix = _square(matrix)
    support = matrix.sum(axis=1)
    true, predicted = np.nonzero(matrix * ~np.eye(len(matrix), dtype=bool))  # row-major order
    order = np.argsort(-matrix[true, predicted], kind="stable")[:limit]
    pairs = [(int(true[i]), int(predicted[i]), int(matrix[true[i], predicted[i]])) for i in order]
    return [ConfusedPair(t, s, count, float(count / support[t])) for t, s, count in pairs]


def pair_sentence(pair: ConfusedPair, classes: Sequence[str]) -> str:
    """A pair in plain English: "146 cats were taken for dogs (14.6 % of all cats)."

    Names other than CIFAR-10's have unknown plurals and articles (a folder may be "n01440764",
    "Mouse" or "scissors"), so then both are quoted: '2 pictures of "Mouse" were taken for "cat"'.
    Names come from the user's folders: escape the sentence before it goes into HTML.
    """
    true, predicted, one = classes[pair.true], classes[pair.predicted], pair.count == 1
    if true in WORDS and predicted in WORDS:
        everything = WORDS[true][1]
        subject = true if one else everything
        target = WORDS[predicted][0 if one else 1]
    else:
        everything = f'pictures of "{true}"'
        subject = f'picture of "{true}"' if one else everything
        target = f'"{predicted}"'
    verb = "was" if one else "were"
    share = _share(pair.share)
    return f"{pair.count} {subject} {verb} taken for {target} ({share} of all {everything})."


def _share(share: float) -> str:
    """One decimal; some is never rounded to none, nor nearly all to all."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    if 0.9995 <= share < 1:
        return "more than 99.9 %"
    return f"{100 * share:.1f} %"


def top_k(probabilities: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k most probable classes of one row (C,): indices (k,), values (k,), k at most C.

    Largest first; the lower index on a tie, as in every metric here.
    """
    row = np.asarray(probabilities)
    if row.ndim != 1 or not np.isfinite(row).all():
        raise ValueError(f"top_k needs one row (C,) of finite probabilities, not {kind_of(row)}")
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    indices = np.argsort(-row, kind="stable")[:k]  # (C,) -> (k,)
    return indices, row[indices]


def percent(share: float) -> str:
    """97.3 of 0.973, or the dash."""
    return DASH if math.isnan(share) else f"{100 * share:.1f}"


def counted(count: float, noun: str) -> str:
    """ "1 epoch", "2.5 epochs"."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"


def signed(points: float, decimals: int = 1) -> str:
    """ "+1.3", "−0.4", "0.0": a minus as wide as the plus; or the dash."""
    if math.isnan(points):
        return DASH
    text = f"{abs(points):.{decimals}f}"
    return text if not float(text) else ("+" if points > 0 else "−") + text
