"""How one class's probability ranks the pictures: ROC and precision-recall curves, average
precision; top-k accuracy; and the means of a column over the classes.

Letters: N pictures, C classes, T thresholds. One-vs-rest: the pictures of class c against all
others, ranked by the probability of c. As everywhere in this package a class without pictures has
NaN, and a tie goes to the lower class. scikit-learn is imported late: it takes the better part of a
second, which neither training nor the page's start need wait for.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vitdemo.metrics.checks import check


@dataclass(frozen=True, eq=False)
class RankingCurve:
    """Points of a curve, each array (T,); `area` is what the curve is summed up by.

    ROC: `x` the share of other pictures that are called c (false positive rate), `y` the recall.
    Precision-recall: `x` the recall, falling, `y` the precision. Calling c all pictures with a
    probability of `thresholds[i]` or more gives point i.
    """

    x: np.ndarray
    y: np.ndarray
    thresholds: np.ndarray
    area: float


def roc(probabilities: np.ndarray, labels: np.ndarray, c: int) -> RankingCurve:
    """The ROC curve of class `c` against the rest, from (0, 0) to (1, 1), and its area.

    The first point belongs to no threshold: its `thresholds` entry is infinite. Points on a
    straight line between others are left out, but for the first with a threshold. Raises
    ValueError where `c` has no pictures or all.
    """
    from sklearn.metrics import auc, roc_curve

    truth, scores = one_vs_rest(probabilities, labels, c)
    if truth.all():
        raise ValueError(f"all pictures are of class {c}: there is no rest to tell it from")
    x, y, thresholds = roc_curve(truth, scores)
    return RankingCurve(x, y, thresholds, float(auc(x, y)))


def precision_recall(probabilities: np.ndarray, labels: np.ndarray, c: int) -> RankingCurve:
    """The precision-recall curve of class `c` against the rest, and its average precision.

    Average precision is the sum of precision times the step in recall, with no line drawn between
    two points (that would be optimistic). The last point, (0, 1), belongs to no threshold: its
    `thresholds` entry is infinite. Points between others of the same recall are left out. Raises
    ValueError where `c` has no pictures.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    truth, scores = one_vs_rest(probabilities, labels, c)
    precision, recall, thresholds = precision_recall_curve(truth, scores, drop_intermediate=True)
    area = float(average_precision_score(truth, scores))
    return RankingCurve(recall, precision, np.append(thresholds, np.inf), area)


def roc_areas(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Area under the ROC curve of each class, (C,); NaN for a class with no pictures or all."""
    from sklearn.metrics import auc, roc_curve

    def area(truth: np.ndarray, scores: np.ndarray) -> float:
        return np.nan if truth.all() else auc(*roc_curve(truth, scores)[:2])

    return _of_each_class(area, probabilities, labels)


def average_precision(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average precision of each class against the rest, (C,); NaN for a class without pictures."""
    from sklearn.metrics import average_precision_score

    return _of_each_class(average_precision_score, probabilities, labels)


def _of_each_class(
    score: Callable[[np.ndarray, np.ndarray], float],
    probabilities: np.ndarray,
    labels: np.ndarray,
) -> np.ndarray:
    """`score` of each class against the rest, (C,); NaN for a class without pictures."""
    check(probabilities, labels)
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    values = np.full(probabilities.shape[1], np.nan)
    for c in np.unique(labels):
        values[c] = score(labels == c, probabilities[:, c])
    return values


def one_vs_rest(
    probabilities: np.ndarray, labels: np.ndarray, c: int
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each picture is of class c (N,), and its probability of c (N,)."""
    check(probabilities, labels)
    classes = np.shape(probabilities)[1]
    if not 0 <= c < classes:
        raise ValueError(f"there is no class {c}: choose 0 to {classes - 1}")
    truth = np.asarray(labels) == c
    if not truth.any():
        raise ValueError(f"class {c} has no pictures: it cannot be ranked")
    return truth, np.asarray(probabilities)[:, c]


def top_k_accuracy(probabilities: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Share of pictures whose true class is among the k most probable, 0 to 1.

    One where k reaches the number of classes. Not scikit-learn's, which gives a tie to the higher
    class and refuses two classes.
    """
    check(probabilities, labels)
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    top = np.argsort(-np.asarray(probabilities, float), axis=1, kind="stable")[:, :k]  # (N, k)
    return float((top == np.asarray(labels)[:, None]).any(axis=1).mean())


def macro_mean(values: np.ndarray) -> float:
    """The plain mean of (C,) values over the classes that have one: small classes count fully."""
    return weighted_mean(values, np.ones(len(values)))


def weighted_mean(values: np.ndarray, support: np.ndarray) -> float:
    """The mean of (C,) values, each counted as often as its class has pictures (`support`)."""
    found = ~np.isnan(values)
    if not found.any():
        return float("nan")
    return float(np.average(values[found], weights=support[found]))


def precision_at(curve: RankingCurve, recall: float) -> float:
    """Precision of a `precision_recall` curve at the highest threshold that reaches `recall`."""
    if not 0 <= recall <= 1:
        raise ValueError(f"recall must be 0 to 1, not {recall}")
    reached = np.flatnonzero(curve.x >= recall)  # recall falls along the curve
    return float(curve.y[reached[-1]])
