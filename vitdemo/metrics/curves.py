"""How one class's probability ranks the pictures: ROC and precision-recall curves, average
precision; top-k accuracy; and the means of a column over the classes.

Letters: N pictures, C classes, T thresholds, G groups of pictures with equal scores, r draws of
pictures (see `intervals`). By hand, because scikit-learn takes seconds to import; the tests hold
both against each other. One-vs-rest: the pictures of class c against all
others, ranked by the probability of c. As everywhere in this package a class without pictures has
NaN, and a tie goes to the lower class.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.metrics import check


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
    straight line between others are left out. Raises ValueError where `c` has no pictures or all.
    """
    truth, scores = one_vs_rest(probabilities, labels, c)
    if truth.all():
        raise ValueError(f"all pictures are of class {c}: there is no rest to tell it from")
    thresholds, own, others = _found_and_taken(truth, scores)
    bends = np.append(True, (np.diff(own, 2) != 0) | (np.diff(others, 2) != 0))
    kept = np.append(bends, True)  # (T,), both ends among them
    x, y = others[kept] / others[-1], own[kept] / own[-1]
    return RankingCurve(x, y, thresholds[kept], _area(truth, scores))


def precision_recall(probabilities: np.ndarray, labels: np.ndarray, c: int) -> RankingCurve:
    """The precision-recall curve of class `c` against the rest, and its average precision.

    Average precision is the sum of precision times the step in recall, with no line drawn between
    two points (that would be optimistic). The last point, (0, 1), belongs to no threshold: its
    `thresholds` entry is infinite. Points between others of the same recall are left out. Raises
    ValueError where `c` has no pictures.
    """
    truth, scores = one_vs_rest(probabilities, labels, c)
    thresholds, own, others = _found_and_taken(truth, scores)
    same = np.diff(own) == 0  # as the point before
    kept = np.append(True, ~(same & np.append(same[1:], False)))
    recall = own[kept] / own[-1]
    precision = np.append(1.0, own[kept][1:] / (own + others)[kept][1:])
    area = _average_precision(truth, scores)
    return RankingCurve(recall[::-1], precision[::-1], thresholds[kept][::-1], area)


def _found_and_taken(
    truth: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds, falling from infinity, and how many own and other pictures reach each; (T,)."""
    thresholds, which = np.unique(scores, return_inverse=True)  # rising
    own = np.bincount(which[truth], minlength=len(thresholds))[::-1]
    others = np.bincount(which[~truth], minlength=len(thresholds))[::-1]
    reached = (np.append(0, np.cumsum(counts)) for counts in (own, others))
    return np.append(np.inf, thresholds[::-1]), *reached


def average_precision(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average precision of each class against the rest, (C,); NaN for a class without pictures."""
    check(probabilities, labels)
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    values = np.full(probabilities.shape[1], np.nan)
    for c in np.unique(labels):
        values[c] = _average_precision(labels == c, probabilities[:, c])
    return values


def roc_areas(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Area under the ROC curve of each class, (C,); NaN for a class with no pictures or all."""
    check(probabilities, labels)
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    values = np.full(probabilities.shape[1], np.nan)
    for c in np.unique(labels):
        values[c] = _area(labels == c, probabilities[:, c])
    return values


def _area(truth: np.ndarray, scores: np.ndarray) -> float:
    others, own = ranked_counts(truth, scores).T[:, None]  # each (1, G)
    return float(areas_of(own, others)[0])


def _average_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    others, own = ranked_counts(truth, scores).T[:, None]
    return float(average_precisions_of(own, others)[0])


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


def ranked_counts(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Pictures (N,) by score, highest first, in G groups -> counts (G, 2): others, own.

    Equal scores are one group. So are other pictures with no own one between them: their order
    among themselves moves neither metric, and 9,000 of 10,000 pictures are others.
    """
    order = np.argsort(-scores, kind="stable")
    truth, scores = truth[order], scores[order]
    tie = np.cumsum(np.append(True, scores[1:] != scores[:-1])) - 1  # (N,)
    has_own = np.bincount(tie, weights=truth) > 0
    starts = np.append(True, has_own[1:] | has_own[:-1])
    group = (np.cumsum(starts) - 1)[tie]
    return np.bincount(2 * group + truth, minlength=2 * (group[-1] + 1)).reshape(-1, 2)


def areas_of(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """ROC AUC (r,) of counts (r, G): pairs in which the own picture ranks higher; a tie is half.

    NaN where one side has no pictures.
    """
    above = np.cumsum(own, axis=1) - own / 2  # own pictures ranked above each group's others
    pairs = own.sum(axis=1) * others.sum(axis=1)
    wins = (above * others).sum(axis=1)
    return np.divide(wins, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def average_precisions_of(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Average precision (r,) of counts (r, G): precision at each group, weighted by its own.

    NaN where there are no own pictures.
    """
    found = np.cumsum(own, axis=1)
    taken = found + np.cumsum(others, axis=1)
    precision = np.divide(found, taken, out=np.zeros(found.shape), where=taken > 0)
    sums, total = (precision * own).sum(axis=1), found[:, -1]
    return np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)


def rank_of_truth(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How many classes each picture's model puts before the true one, (N,): 0 is right."""
    check(probabilities, labels)
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    own = probabilities[np.arange(len(labels)), labels][:, None]  # (N, 1)
    lower = np.arange(probabilities.shape[1]) < labels[:, None]  # (N, C)
    return ((probabilities > own) | ((probabilities == own) & lower)).sum(axis=1)


def top_k_accuracy(probabilities: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Share of pictures whose true class is among the k most probable, 0 to 1.

    One where k reaches the number of classes.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    return float(np.mean(rank_of_truth(probabilities, labels) < k))


def macro_mean(values: np.ndarray) -> float:
    """The plain mean of (C,) values over the classes that have one: small classes count fully."""
    found = values[~np.isnan(values)]
    return float(found.mean()) if len(found) else float("nan")


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
