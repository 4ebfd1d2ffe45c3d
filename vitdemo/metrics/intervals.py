"""How far chance could have moved a metric: 95% intervals.

A share of pictures (accuracy, precision, recall, top-k accuracy) has Wilson's (1927) interval,
which holds what it says for twenty pictures too, where drawing again holds 87% in place of 95; of
20 hits among 20 it says 84 to 100%. What is no share of pictures (F1, means over classes, areas)
has the bootstrap's (Efron 1979): draw N of the N test pictures with replacement, again and again,
and the interval (percentile method) holds the middle 95% of the draws. All that a confusion matrix
gives depends on how often each of its cells is drawn, so one multinomial draw of the cells stands
for N draws of pictures: exact, and a thousand times faster. It has no width where all are right.

All are intervals over test images: the variation between training seeds is not in them, except in
`least_seed_difference` and in a `mean_interval` of several seeds.

Letters: N pictures, C classes, R resamples. An interval's first axis is (low, high). Draws in which
a metric is not defined (its class was not drawn) are left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are imported where they are first used

from vitdemo.metrics import _ratio, _shares, _square
from vitdemo.metrics.curves import one_vs_rest

RESAMPLES = 1000
LEVEL = 0.95
Z = 1.959964  # of the normal distribution: 95% lie between -Z and Z
CELLS_AT_ONCE = 4_000_000  # numbers of one draw of resamples: 32 MB


@dataclass(frozen=True, eq=False)
class Intervals:
    """Of what a confusion matrix gives; NaN for a class without pictures, and of precision for one
    that is never predicted."""

    accuracy: np.ndarray  # (2,), Wilson's, as the two below
    precision: np.ndarray  # (2, C)
    recall: np.ndarray  # (2, C)
    f1: np.ndarray  # (2, C), the bootstrap's, as the means
    macro: dict[str, np.ndarray]  # each (2,), of precision, recall and f1
    weighted: dict[str, np.ndarray]


def bootstrap(
    matrix: np.ndarray, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Intervals:
    """Intervals from confusion counts (C, C), row = true class. The same seed, the same intervals.

    Raises ValueError where there is nothing to draw from or `level` is not inside 0..1.
    """
    matrix = _square(matrix)
    _check_draws(matrix.sum(), resamples, level)
    # hits, times predicted and support of every class in every resample, each (R, C)
    hits, predicted, support = _resampled(matrix, resamples, np.random.default_rng(seed))
    values, drawn = _shares(hits, predicted, support), support > 0
    n, right, there = matrix.sum(), matrix.diagonal(), matrix.sum(axis=1)
    called = np.where(there > 0, matrix.sum(axis=0), 0)
    return Intervals(
        accuracy=wilson(right.sum(), n, level),
        precision=wilson(right, called, level),
        recall=wilson(right, there, level),
        f1=_middle(values["f1"], level),
        macro={
            name: _middle(np.nansum(samples, axis=1) / drawn.sum(axis=1), level)
            for name, samples in values.items()
        },
        weighted={
            name: _middle(np.nansum(samples * support, axis=1) / n, level)
            for name, samples in values.items()
        },
    )


def _check_draws(n: int, resamples: int, level: float) -> None:
    if n < 1:
        raise ValueError("nothing to draw from: 0 pictures")
    if resamples < 1:
        raise ValueError(f"resamples must be 1 or more, not {resamples}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, not {level}")


def _resampled(
    matrix: np.ndarray, resamples: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hits, times predicted and support of every class in every resample, each (R, C) int64."""
    c = len(matrix)
    true, predicted = np.nonzero(matrix)  # (K,) cells: with 1,000 classes nearly all are empty
    counts = matrix[true, predicted]
    shares = counts / counts.sum()
    out = np.zeros((3, resamples, c), dtype=np.int64)
    step = max(1, CELLS_AT_ONCE // len(counts))
    for start in range(0, resamples, step):
        rows = slice(start, min(start + step, resamples))
        drawn = random.multinomial(counts.sum(), shares, size=rows.stop - rows.start)  # (r, K)
        right = true == predicted
        out[0, rows, true[right]] = drawn[:, right].T
        out[1, rows] = _sum_by(predicted, drawn, c)
        out[2, rows] = _sum_by(true, drawn, c)
    return out[0], out[1], out[2]


def _sum_by(group: np.ndarray, drawn: np.ndarray, c: int) -> np.ndarray:
    """Columns (r, K) added up by their group 0..C-1 -> (r, C)."""
    order = np.argsort(group, kind="stable")
    present, starts = np.unique(group[order], return_index=True)
    sums = np.zeros((len(drawn), c), dtype=np.int64)
    sums[:, present] = np.add.reduceat(drawn[:, order], starts, axis=1)
    return sums


def _middle(samples: np.ndarray, level: float) -> np.ndarray:
    """The interval (2, ...) of the middle `level` of (R, ...) samples, NaN ones left out."""
    tails = [100 * (1 - level) / 2, 100 * (1 + level) / 2]
    nowhere = np.isnan(samples).all(axis=0)
    # nanpercentile warns of columns without a number, and a warning cannot be muted for one thread.
    known = np.where(nowhere, 0.0, samples)
    return np.where(nowhere, np.nan, np.nanpercentile(known, tails, axis=0))


def wilson(hits: np.ndarray, n: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """Wilson's (1927) score interval (2, ...) of the shares `hits` / `n`, of numbers or arrays.

    NaN where `n` is 0. Raises ValueError where there are more hits than pictures, or fewer than 0.
    """
    hits, n = np.asarray(hits), np.asarray(n)
    if ((hits < 0) | (hits > n) & (n > 0)).any():
        raise ValueError(f"{hits} hits of {n} pictures are no share")

    def ends(hits: int, n: int) -> tuple[float, float]:
        if n < 1:
            return np.nan, np.nan
        return scipy.stats.binomtest(hits, n).proportion_ci(level, method="wilson")

    return np.array(np.vectorize(ends, otypes=[float, float])(hits, n))


def wilson_share(share: float, n: float, level: float = LEVEL) -> np.ndarray:
    """Return Wilson's score interval (2,) of a `share`, 0 to 1, of `n` independent images.

    Unlike `wilson` it takes an `n` that is not whole, such as an effective sample size. Raises
    ValueError for a share outside 0..1 or an `n` below 1.
    """
    if not 0 <= share <= 1 or n < 1:
        raise ValueError(f"{share} of {n} images is no share")
    z = scipy.special.ndtri((1 + level) / 2)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.clip([middle - reach, middle + reach], 0.0, 1.0)


def ranking_interval(
    probabilities: np.ndarray,
    labels: np.ndarray,
    c: int,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals (2,) of class `c`'s ROC AUC and of its average precision, against the rest.

    The first is NaN where all pictures are of `c`. Raises ValueError where none is.
    """
    truth, scores = one_vs_rest(probabilities, labels, c)
    _check_draws(len(truth), resamples, level)
    cells = _ranked_counts(truth, scores)  # (G, 2)
    random = np.random.default_rng(seed)
    areas, precisions = [], []
    step = max(1, CELLS_AT_ONCE // cells.size)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = random.multinomial(len(truth), cells.ravel() / len(truth), size=size)
        others, own = np.moveaxis(drawn.reshape(size, *cells.shape), 2, 0)  # each (r, G)
        areas.append(_areas(own, others))
        precisions.append(_average_precisions(own, others))
    return _middle(np.concatenate(areas), level), _middle(np.concatenate(precisions), level)


def _ranked_counts(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
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


def _areas(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """ROC AUC (r,) of counts (r, G): pairs in which the own picture ranks higher; a tie is half.

    NaN where one side has no pictures.
    """
    above = np.cumsum(own, axis=1) - own / 2  # own pictures ranked above each group's others
    pairs = own.sum(axis=1) * others.sum(axis=1)
    return _ratio((above * others).sum(axis=1), pairs, np.nan)


def _average_precisions(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Average precision (r,) of counts (r, G): precision at each group, weighted by its own.

    NaN where there are no own pictures.
    """
    found = np.cumsum(own, axis=1)
    precision = _ratio(found, found + np.cumsum(others, axis=1))
    return _ratio((precision * own).sum(axis=1), found[:, -1], np.nan)


def share_doubt(hits: int, n: int) -> float:
    """How far the share `hits` / `n` is known, as a share: half the width of `wilson`'s interval.

    Never 0: of 20 hits among 20 it says 0.08.
    """
    if n < 1:
        raise ValueError(f"{hits} hits of {n} pictures are no share")
    low, high = wilson(hits, n)
    return float(high - low) / 2


def difference_doubt(hits: int, n: int) -> float:
    """Return half the width of the 95% interval of a difference between two such shares.

    The two shares are independent and each about `hits` / `n`, as the recalls of two classes are:
    their variances add up, so the difference is known sqrt(2) times less well than one share. Two
    models on the same images have a paired interval of their own, `difference_interval`.
    """
    return math.sqrt(2) * share_doubt(hits, n)


def difference_interval(first_only: int, second_only: int, n: int) -> np.ndarray:
    """The 95% interval (2,) of the difference of two accuracies on the same `n` pictures.

    `first_only` of them are named rightly by the first model alone, `second_only` by the second
    alone. Paired like this the interval is narrower than those of the two accuracies suggest. It
    is not drawn but the adjusted Wald one (Agresti & Min 2005, section 2.3: half a picture is
    added to each of the four outcomes), which holds what it says for few pictures too and always
    has a width. Raises ValueError where the counts are not those of `n` pictures.
    """
    if n < 1:
        raise ValueError("nothing to compare: 0 pictures")
    if min(first_only, second_only) < 0 or first_only + second_only > n:
        raise ValueError(f"{first_only} and {second_only} pictures are not among {n}")
    ahead, apart = first_only - second_only, first_only + second_only
    middle = ahead / (n + 2)
    spread = math.sqrt(apart + 1 - ahead**2 / (n + 2)) / (n + 2)
    return np.clip([middle - Z * spread, middle + Z * spread], -1.0, 1.0)


def mean_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean of `values` (N,), and the ends of its 95% interval by Student's t.

    Of differences on the same images, or of runs with the same seeds, this is the paired interval.
    Raises ValueError for fewer than two.
    """
    if len(values) < 2:
        raise ValueError(f"{len(values)} values have no spread")
    mean, spread = float(np.mean(values)), float(scipy.stats.sem(values))
    reach = _t_quantile(len(values)) * spread
    return mean, mean - reach, mean + reach


def least_seed_difference(accuracies: Sequence[float]) -> float:
    """Return the difference of two single runs that seed-to-seed variation rarely reaches.

    `accuracies` are those of one recipe with n seeds, in any unit. The standard deviation of the
    difference of two runs is sqrt(2) times that of one, and it is estimated from n runs, so the
    two-sided 95% threshold is sqrt(2) times Student's t with n - 1 degrees of freedom times the
    sample standard deviation. It assumes that the compared recipe varies as much. Raises
    `ValueError` for fewer than two seeds.
    """
    if len(accuracies) < 2:
        raise ValueError(f"{len(accuracies)} seeds have no spread")
    return math.sqrt(2) * _t_quantile(len(accuracies)) * float(np.std(accuracies, ddof=1))


def _t_quantile(n: int) -> float:
    """Half the width of a 95% interval of `n` values, in standard errors."""
    return float(scipy.stats.t.ppf((1 + LEVEL) / 2, n - 1))
