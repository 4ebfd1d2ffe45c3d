"""95% confidence intervals of metrics.

A proportion of images (accuracy, precision, recall, top-k accuracy) has a Wilson (1927) interval.
For 20 images, the coverage of this interval is still close to 95%, but the bootstrap covers only
87%. For 20 hits among 20 images, the interval is 84 to 100%.

Other metrics (F1, means over classes, areas) have a bootstrap interval (Efron 1979, percentile
method). Many times, N of the N test images are drawn with replacement. The interval contains the
middle 95% of the results. Metrics of a confusion matrix depend only on the counts of its cells, so
one multinomial draw of the cells replaces N draws of images. The single draw is exact and a
thousand times faster than N draws. The bootstrap interval has width 0 without errors.

All these intervals cover only the variation between test images. Only `seed_difference_threshold`
and a `mean_interval` over several seeds include the variation between training seeds.

Letters: N images, C classes, R resamples. The first axis of an interval is (low, high). Draws in
which a metric is not defined (its class was not drawn) are ignored.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # scipy loads its submodules on first use

from vitdemo.metrics import _divide, _precision_recall_f1
from vitdemo.metrics.ranking_curves import one_vs_rest

NUM_RESAMPLES = 1000
NORMAL_QUANTILE = 1.959963984540054  # 95% of a standard normal distribution is within ± this value
MAX_CELLS_AT_ONCE = 4_000_000  # maximum number of resampled counts in memory (32 MB)


@dataclass(frozen=True, eq=False)
class MetricIntervals:
    """95% intervals of accuracy, precision, recall and F1.

    An interval is NaN for a class without images. Precision is also NaN without predictions.
    """

    accuracy: np.ndarray  # (2,) Wilson
    precision: np.ndarray  # (2, C) Wilson
    recall: np.ndarray  # (2, C) Wilson
    f1: np.ndarray  # (2, C) bootstrap
    macro: dict[str, np.ndarray]  # (2,) bootstrap, for "precision", "recall" and "f1"
    weighted: dict[str, np.ndarray]  # means weighted by support, otherwise as `macro`


def compute_metric_intervals(matrix: np.ndarray) -> MetricIntervals:
    """Compute the metrics' 95% intervals from a confusion matrix (C, C) with at least one image."""
    # Correct predictions, predictions and support, per resample and class: each (R, C).
    hits, predicted, support = _resample_counts(matrix)
    values, has_images = _precision_recall_f1(hits, predicted, support), support > 0
    n, correct, true_counts = matrix.sum(), matrix.diagonal(), matrix.sum(axis=1)
    predicted_counts = np.where(true_counts > 0, matrix.sum(axis=0), 0)
    return MetricIntervals(
        accuracy=wilson_interval(correct.sum(), n),
        precision=wilson_interval(correct, predicted_counts),
        recall=wilson_interval(correct, true_counts),
        f1=_percentile_interval(values["f1"]),
        macro={
            name: _percentile_interval(np.nansum(samples, axis=1) / has_images.sum(axis=1))
            for name, samples in values.items()
        },
        weighted={
            name: _percentile_interval(np.nansum(samples * support, axis=1) / n)
            for name, samples in values.items()
        },
    )


def _resample(counts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield resampled `counts` (K,) of images in batches (r, K), R in total."""
    rng, n = np.random.default_rng(0), counts.sum()
    step = max(1, MAX_CELLS_AT_ONCE // len(counts))
    for start in range(0, NUM_RESAMPLES, step):
        yield rng.multinomial(n, counts / n, size=min(step, NUM_RESAMPLES - start))


def _resample_counts(matrix: np.ndarray) -> np.ndarray:
    """Return correct predictions, predictions and support of each class, (3, R, C)."""
    c = len(matrix)
    true, predicted = np.nonzero(matrix)  # (K,) cells; most cells are empty with 1,000 classes
    right = true == predicted
    batches = [
        [
            _sum_by_class(true[right], samples[:, right], c),
            _sum_by_class(predicted, samples, c),
            _sum_by_class(true, samples, c),
        ]
        for samples in _resample(matrix[true, predicted])
    ]
    return np.concatenate(batches, axis=1)


def _sum_by_class(group: np.ndarray, samples: np.ndarray, c: int) -> np.ndarray:
    """Sum the columns of `samples` (r, K) that `group` (K,) assigns to each class: (r, C)."""
    cells = np.arange(len(samples))[:, None] * c + group  # (r, K)
    sums = np.bincount(cells.ravel(), samples.ravel(), minlength=len(samples) * c)
    return sums.reshape(-1, c)


def _percentile_interval(samples: np.ndarray) -> np.ndarray:
    """Return the interval (2, ...) of the middle 95% of `samples` (R, ...) that are not NaN."""
    undefined = np.isnan(samples).all(axis=0)
    # nanpercentile warns about all-NaN columns, and warnings cannot be silenced for one thread.
    filled = np.where(undefined, 0.0, samples)
    return np.where(undefined, np.nan, np.nanpercentile(filled, [2.5, 97.5], axis=0))


def wilson_interval(hits: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return Wilson's (1927) score interval (2, ...) of the proportions `hits` / `n`.

    `hits` and `n` may be fractional, such as an effective sample size. The interval is NaN where
    `n` is 0. Raises ValueError if `hits` is negative or larger than `n`.
    """
    hits, n = np.asarray(hits, float), np.asarray(n, float)
    if ((hits < 0) | (hits > n)).any():
        raise ValueError(f"hits must be from 0 to the number of images ({n}), not {hits}")
    z = NORMAL_QUANTILE
    half_width = z * np.sqrt(_divide(hits * (n - hits), n, np.nan) + z**2 / 4)
    bounds = np.array([hits + z**2 / 2 - half_width, hits + z**2 / 2 + half_width]) / (n + z**2)
    return np.clip(bounds, 0.0, 1.0)


def ranking_interval(
    probabilities: np.ndarray, labels: np.ndarray, c: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals (2,) of the ROC AUC and the average precision of class `c` against the rest.

    The first interval is NaN if all images are of class `c`. Raises ValueError if `c` has no
    images.
    """
    cells = _ranked_counts(*one_vs_rest(probabilities, labels, c))  # (G, 2)
    areas, precisions = [], []
    for samples in _resample(cells.ravel()):
        negatives, positives = np.moveaxis(samples.reshape(-1, *cells.shape), 2, 0)  # each (r, G)
        areas.append(_roc_aucs(positives, negatives))
        precisions.append(_average_precisions(positives, negatives))
    return _percentile_interval(np.concatenate(areas)), _percentile_interval(
        np.concatenate(precisions)
    )


def _ranked_counts(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Sort images (N,) by score, highest first, into G groups -> counts (G, 2): rest, class.

    Images with equal scores are in one group. Consecutive images of other classes are also merged,
    because their order affects neither metric. This saves time: 90% of CIFAR-10's images are of
    other classes.
    """
    order = np.argsort(-scores, kind="stable")
    truth, scores = truth[order], scores[order]
    tie = np.cumsum(np.append(True, scores[1:] != scores[:-1])) - 1  # (N,)
    has_positives = np.bincount(tie, weights=truth) > 0
    starts = np.append(True, has_positives[1:] | has_positives[:-1])
    group = (np.cumsum(starts) - 1)[tie]
    return np.bincount(2 * group + truth, minlength=2 * (group[-1] + 1)).reshape(-1, 2)


def _roc_aucs(positives: np.ndarray, negatives: np.ndarray) -> np.ndarray:
    """Return the ROC AUC (r,) of counts (r, G): a tie counts as half; NaN if one side is empty."""
    # Number of positives that are ranked above the negatives of each group
    above = np.cumsum(positives, axis=1) - positives / 2
    pairs = positives.sum(axis=1) * negatives.sum(axis=1)
    return _divide((above * negatives).sum(axis=1), pairs, np.nan)


def _average_precisions(positives: np.ndarray, negatives: np.ndarray) -> np.ndarray:
    """Return the average precision (r,) of counts (r, G); NaN without images of the class."""
    true_positives = np.cumsum(positives, axis=1)
    precision = _divide(true_positives, true_positives + np.cumsum(negatives, axis=1))
    return _divide((precision * positives).sum(axis=1), true_positives[:, -1], np.nan)


def margin_of_error(hits: int, n: int) -> float:
    """Return half the width of Wilson's 95% interval of the proportion `hits` / `n`.

    The result is above 0 and at most 1: for 20 hits among 20 images, it is 0.08. NaN without
    images.
    """
    low, high = wilson_interval(hits, n)
    return float(high - low) / 2


def difference_margin_of_error(hits: int, n: int) -> float:
    """Return half the width of the 95% interval of a difference between two proportions.

    The proportions are independent and each about `hits` / `n`, such as the recalls of two classes.
    The variances add up, so the interval is sqrt(2) times as wide as for one proportion. For two
    models on the same images, use the paired interval, `difference_interval`.
    """
    return math.sqrt(2) * margin_of_error(hits, n)


def independent_difference_interval(
    first_hits: int, first_n: int, second_hits: int, second_n: int
) -> np.ndarray:
    """Return the 95% interval (2,) of the difference (first - second) of independent proportions.

    Use this interval for the accuracies of one model on two test sets. The method is the hybrid
    score interval of Newcombe (1998, method 10), which combines two Wilson intervals. The interval
    is NaN without images.
    """
    if not first_n or not second_n:
        return np.full(2, np.nan)
    p, q = first_hits / first_n, second_hits / second_n
    low, high = wilson_interval(first_hits, first_n)
    other_low, other_high = wilson_interval(second_hits, second_n)
    below = math.hypot(p - low, other_high - q)
    above = math.hypot(high - p, q - other_low)
    return np.array([p - q - below, p - q + above])


def difference_interval(first_only: int, second_only: int, n: int) -> np.ndarray:
    """Return the 95% interval (2,) of the difference of two accuracies on the same `n` images.

    `first_only` counts the images that only the first model classifies correctly. `second_only`
    counts the images that only the second model classifies correctly. The paired interval is
    narrower than the intervals of the two accuracies suggest. The method is the adjusted Wald
    interval (Agresti & Min 2005, section 2.3), which adds half an image to each of the four
    outcomes. The interval is also valid for few images and never has width 0. It is NaN without
    images. Raises ValueError if the counts do not fit `n` images.
    """
    if min(first_only, second_only) < 0 or first_only + second_only > n:
        counts = f"first_only ({first_only}) and second_only ({second_only})"
        raise ValueError(f"{counts} must be 0 or more and add up to at most {n} images")
    if not n:
        return np.full(2, np.nan)
    difference, discordant = first_only - second_only, first_only + second_only
    centre = difference / (n + 2)
    error = math.sqrt(discordant + 1 - difference**2 / (n + 2)) / (n + 2)
    return np.clip([centre - NORMAL_QUANTILE * error, centre + NORMAL_QUANTILE * error], -1.0, 1.0)


def mean_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of `values` (N,) and the ends of its 95% Student's t interval.

    For differences on the same images, or of runs with the same seeds, this is a paired interval.
    Raises ValueError for fewer than two values.
    """
    quantile, mean = _t_quantile(len(values)), float(np.mean(values))
    half_width = quantile * float(scipy.stats.sem(values))
    return mean, mean - half_width, mean + half_width


def seed_difference_threshold(accuracies: Sequence[float]) -> float:
    """Return the threshold that 5% of the accuracy differences between two seeds exceed.

    `accuracies` are results of one recipe with n seeds, in any unit. The two-sided threshold is
    sqrt(2) times the sample standard deviation times Student's t with n - 1 degrees of freedom. The
    factor sqrt(2) is needed because the difference of two runs varies more than one run. A second
    recipe is assumed to vary as much as this recipe. Raises ValueError for fewer than two seeds.
    """
    return math.sqrt(2) * _t_quantile(len(accuracies)) * float(np.std(accuracies, ddof=1))


def _t_quantile(n: int) -> float:
    """Return half the width of the 95% interval of a mean of `n` values, in standard errors."""
    if n < 2:
        raise ValueError(f"at least 2 values are needed, not {n}")
    return float(scipy.stats.t.ppf(0.975, n - 1))
