"""Ranking metrics: ROC and precision-recall curves, average precision, top-k accuracy, averages.

Letters: N images, C classes, T thresholds. One-vs-rest compares the images of class c with all
other images, ranked by the probability of c. As everywhere in this package, the metrics of a class
without images are NaN, and in a tie the lower class comes first. The import of scikit-learn takes
almost a second, which would delay training and the page. Functions therefore import scikit-learn
only when they need it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vitdemo.metrics.checks import check_predictions


@dataclass(frozen=True, eq=False)
class RankingCurve:
    """ROC or precision-recall curve of one class c: points (T,), and the area under the curve.

    In a ROC curve, `x` is the false positive rate and `y` is the recall. In a precision-recall
    curve, `x` is the recall (decreasing) and `y` is the precision. At point i, all images with a
    probability of at least `thresholds[i]` are predicted as c.
    """

    x: np.ndarray
    y: np.ndarray
    thresholds: np.ndarray
    area: float


def compute_roc_curve(probabilities: np.ndarray, labels: np.ndarray, c: int) -> RankingCurve:
    """Return the ROC curve of class `c` against the rest, from (0, 0) to (1, 1), and its area.

    The first point has no threshold, so its `thresholds` entry is infinite. Points on a straight
    line between other points are left out, except the first point with a threshold. Raises
    ValueError if no image or every image belongs to `c`.
    """
    from sklearn.metrics import auc, roc_curve

    truth, scores = one_vs_rest(probabilities, labels, c)
    if truth.all():
        raise ValueError(f"all images are of class {c}, so there is no ROC curve")
    x, y, thresholds = roc_curve(truth, scores)
    return RankingCurve(x, y, thresholds, float(auc(x, y)))


def compute_precision_recall_curve(
    probabilities: np.ndarray, labels: np.ndarray, c: int
) -> RankingCurve:
    """Return the precision-recall curve of class `c` against the rest, and its average precision.

    Average precision is the sum of precision times the step in recall. Linear interpolation between
    points would be too optimistic. The last point, (0, 1), has no threshold, so its `thresholds`
    entry is infinite. Points between two points of the same recall are left out. Raises ValueError
    if `c` has no images.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    truth, scores = one_vs_rest(probabilities, labels, c)
    precision, recall, thresholds = precision_recall_curve(truth, scores, drop_intermediate=True)
    area = float(average_precision_score(truth, scores))
    return RankingCurve(recall, precision, np.append(thresholds, np.inf), area)


def roc_auc_by_class(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the ROC AUC of each class (C,); NaN for a class without images or with all images."""
    from sklearn.metrics import auc, roc_curve

    def area(truth: np.ndarray, scores: np.ndarray) -> float:
        return np.nan if truth.all() else auc(*roc_curve(truth, scores)[:2])

    return _score_by_class(area, probabilities, labels)


def average_precision_by_class(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the average precision of each class (C,); NaN for a class without images."""
    from sklearn.metrics import average_precision_score

    return _score_by_class(average_precision_score, probabilities, labels)


def _score_by_class(
    score: Callable[[np.ndarray, np.ndarray], float], probabilities: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Compute `score` of each class against the rest (C,); NaN for a class without images."""
    check_predictions(probabilities, labels)
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    values = np.full(probabilities.shape[1], np.nan)
    for c in np.unique(labels):
        values[c] = score(labels == c, probabilities[:, c])
    return values


def one_vs_rest(
    probabilities: np.ndarray, labels: np.ndarray, c: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask (N,) of the images of class c, and each image's probability (N,) of c."""
    check_predictions(probabilities, labels)
    truth = np.asarray(labels) == c
    if not truth.any():
        raise ValueError(f"class {c} has no images, so it has no ranking metrics")
    return truth, np.asarray(probabilities)[:, c]


def top_k_accuracy(probabilities: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Return the fraction of images whose true class is among the k most probable classes.

    The result is 1 if k is at least the number of classes. This function replaces scikit-learn's,
    which resolves ties in favour of the higher class and does not support two classes.
    """
    check_predictions(probabilities, labels)
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    top = np.argsort(-np.asarray(probabilities, float), axis=1, kind="stable")[:, :k]  # (N, k)
    return float((top == np.asarray(labels)[:, None]).any(axis=1).mean())


def macro_mean(values: np.ndarray) -> float:
    """Return the unweighted mean of `values` (C,) over the classes; NaN values are left out."""
    return weighted_mean(values, np.ones(len(values)))


def weighted_mean(values: np.ndarray, support: np.ndarray) -> float:
    """Return the mean of `values` (C,) weighted by `support` (C,); NaN values are left out."""
    defined = ~np.isnan(values)
    if not defined.any():
        return float("nan")
    return float(np.average(values[defined], weights=support[defined]))


def precision_at(curve: RankingCurve, recall: float) -> float:
    """Return the precision of a curve at the highest threshold with at least this `recall`.

    Raises ValueError for a recall outside 0 to 1.
    """
    if not 0 <= recall <= 1:
        raise ValueError(f"recall must be 0 to 1, not {recall}")
    indices = np.flatnonzero(curve.x >= recall)  # recall decreases along the curve
    return float(curve.y[indices[-1]])
