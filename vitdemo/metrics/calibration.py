"""Calibration of class probabilities, and temperature scaling.

The confidence of a prediction is its largest probability. A model is calibrated if, among all
predictions with a confidence of 80%, 80% are correct. Letters: N images, C classes, B bins.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # scipy loads its submodules on first use

from vitdemo.metrics import _divide, check_predictions, percent_text
from vitdemo.metrics.paired import SIGNIFICANCE_THRESHOLD, holm

NUM_BINS = 15  # the same number as in Guo et al. 2017
NUM_RESAMPLES = 1000
TEMPERATURE_RANGE = (0.05, 20.0)  # range in which `fit_temperature` searches
# Smallest normal float32. A softmax may underflow to 0, whose logarithm does not exist.
MIN_PROBABILITY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class ReliabilityDiagram:
    """Predictions by confidence, in bins of equal width from 0 to 1.

    A bin includes its lower edge but not its upper edge. The last bin includes both edges.
    """

    edges: np.ndarray  # (B+1,)
    count: np.ndarray  # (B,) number of predictions
    correct: np.ndarray  # (B,) number of correct predictions
    confidence: np.ndarray  # (B,) mean confidence; NaN for an empty bin

    @property
    def incorrect(self) -> np.ndarray:
        return self.count - self.correct

    @property
    def accuracy(self) -> np.ndarray:
        """Fraction of correct predictions, (B,); NaN for an empty bin."""
        return _divide(self.correct, self.count, np.nan)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error, 0 to 1 (Guo et al. 2017, eq. 3).

        The error is the mean of the gaps |accuracy - confidence| over bins, weighted by count.
        """
        filled = self.count > 0
        gaps = np.abs(self.accuracy - self.confidence)[filled]
        return float(np.average(gaps, weights=self.count[filled]))


def compute_reliability(probabilities: np.ndarray, labels: np.ndarray) -> ReliabilityDiagram:
    """Return the reliability diagram of probabilities (N, C) and labels (N,)."""
    check_predictions(probabilities, labels)
    edges = np.linspace(0, 1, NUM_BINS + 1)
    confidence = np.max(probabilities, axis=1).astype(np.float64)  # (N, C) -> (N,)
    correct = np.argmax(probabilities, axis=1) == labels
    bin_indices = np.digitize(confidence, edges[1:-1])
    count = np.bincount(bin_indices, minlength=NUM_BINS)
    hits = np.bincount(bin_indices[correct], minlength=NUM_BINS)
    sums = np.bincount(bin_indices, weights=confidence, minlength=NUM_BINS)
    return ReliabilityDiagram(edges, count, hits, _divide(sums, count, np.nan))


@dataclass(frozen=True)
class ConfidenceRange:
    """Mean confidence and accuracy of `count` predictions with confidence `low` to `high`."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Accuracy minus confidence: below 0 for overconfident predictions."""
        return self.accuracy - self.confidence

    @property
    def is_significant(self) -> bool:
        """Whether the gap exceeds two standard errors of a calibrated model's accuracy."""
        standard_error = np.sqrt(self.confidence * (1 - self.confidence) / max(self.count, 1))
        return self.count > 0 and abs(self.gap) > 2 * standard_error


def _merge_bins(diagram: ReliabilityDiagram, start: int, stop: int) -> ConfidenceRange:
    """Merge the bins `start` to `stop` - 1 into one range."""
    count = int(diagram.count[start:stop].sum())
    sums = np.nan_to_num(diagram.confidence * diagram.count)[start:stop].sum()
    total = max(count, 1)
    limits = float(diagram.edges[start]), float(diagram.edges[stop])
    return ConfidenceRange(
        *limits, count, float(sums / total), float(diagram.correct[start:stop].sum() / total)
    )


def split_by_overconfidence(
    diagram: ReliabilityDiagram,
) -> tuple[ConfidenceRange, ConfidenceRange] | None:
    """Split predictions at one confidence into an overconfident and an underconfident range.

    The split is at the bin edge where the two sides differ most. Returns None unless at one edge
    both gaps are significant and have opposite signs.
    """
    splits = []
    for edge in range(1, NUM_BINS):
        lower, upper = _merge_bins(diagram, 0, edge), _merge_bins(diagram, edge, NUM_BINS)
        if lower.is_significant and upper.is_significant and lower.gap * upper.gap < 0:
            contrast = abs(lower.gap * lower.count - upper.gap * upper.count)
            splits.append((contrast, (lower, upper)))
    return max(splits, key=lambda split: split[0])[1] if splits else None


def find_worst_bin(diagram: ReliabilityDiagram) -> ConfidenceRange | None:
    """Return the bin with the largest excess or deficit of correct predictions.

    The accuracy of each bin is tested against its mean confidence (binomial test with Holm's
    correction). Returns None if no bin is significant.
    """
    bins = [_merge_bins(diagram, b, b + 1) for b in np.flatnonzero(diagram.count)]
    correct = diagram.correct[diagram.count > 0]
    tests = [
        scipy.stats.binomtest(int(hits), part.count, min(part.confidence, 1))
        for part, hits in zip(bins, correct, strict=True)
    ]
    significant = holm([test.pvalue for test in tests]) < SIGNIFICANCE_THRESHOLD
    candidates = [part for part, keep in zip(bins, significant, strict=True) if keep]
    return max(candidates, key=lambda part: abs(part.gap) * part.count, default=None)


def describe_worst_bin(diagram: ReliabilityDiagram) -> str:
    """Describe the worst bin after temperature scaling, or return "" if no bin is significant."""
    worst = find_worst_bin(diagram)
    if worst is None:
        return ""
    return (
        f"One temperature does not correct every bin. After scaling, the {worst.count:,} "
        f"predictions with {100 * worst.low:.0f} to {100 * worst.high:.0f}% confidence have an "
        f"accuracy of {percent_text(worst.accuracy)}%."
    )


def negative_log_likelihood(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean of -log(probability of the true class), in nats (cross-entropy).

    A probability of 0 is replaced by 1.2e-38, the smallest normal float32.
    """
    check_predictions(probabilities, labels)
    return _cross_entropy(_log_probabilities(probabilities), np.asarray(labels), 1.0)


def _log_probabilities(probabilities: np.ndarray) -> np.ndarray:
    probabilities = np.asarray(probabilities, dtype=np.float64)
    return np.log(np.maximum(probabilities, MIN_PROBABILITY))  # (N, C)


def _cross_entropy(logs: np.ndarray, labels: np.ndarray, temperature: float) -> float:
    """Return the cross-entropy of softmax(`logs` / `temperature`); `logs` has shape (N, C)."""
    log_softmax = scipy.special.log_softmax(logs / temperature, axis=1)
    return -float(log_softmax[np.arange(len(labels)), labels].mean())


def fit_temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the temperature T with which softmax(logits / T) has the lowest cross-entropy.

    The method is from Guo et al. 2017, section 4.2. Use the **validation** set: a temperature
    fitted on the test set makes the test results look better than results on new images. Log
    probabilities replace the logits, from which they differ only by a constant per row. T above 1
    means that the model was overconfident. If no temperature changes anything (uniform rows, one
    class), T is 1.
    """
    check_predictions(probabilities, labels)
    logs, labels = _log_probabilities(probabilities), np.asarray(labels)
    if np.ptp(logs, axis=1).max() < 1e-9:
        return 1.0
    # The loss is convex in 1 / T, so it has one minimum along log T.
    result = scipy.optimize.minimize_scalar(
        lambda t: _cross_entropy(logs, labels, np.exp(t)),
        bounds=np.log(TEMPERATURE_RANGE),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return float(np.exp(result.x))


def apply_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(log(probabilities) / temperature), (N, C) float64, with the same ranking.

    Raises ValueError for a temperature that is not above 0.
    """
    if not (np.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature must be above 0, not {temperature}")
    return scipy.special.softmax(_log_probabilities(probabilities) / temperature, axis=1)


@dataclass(frozen=True, eq=False)
class ChanceCalibration:
    """Calibration expected by chance: 95% range of a perfectly calibrated model."""

    band: np.ndarray  # (2, B) lowest and highest accuracy of each bin; NaN for an empty bin
    max_calibration_error: float  # 95th percentile of the calibration error


def compute_chance_calibration(probabilities: np.ndarray) -> ChanceCalibration:
    """Return the calibration expected by chance (consistency resampling, Bröcker & Smith 2007).

    In each of `NUM_RESAMPLES` draws, the probability that a prediction is correct equals its
    confidence. The result depends on `probabilities` (N, C), so temperature scaling changes it.
    """
    confidence = np.sort(np.max(probabilities, axis=1).astype(np.float64))  # (N,)
    bin_indices = np.digitize(confidence, np.linspace(0, 1, NUM_BINS + 1)[1:-1])
    filled, starts, counts = np.unique(bin_indices, return_index=True, return_counts=True)
    rng = np.random.default_rng(0)
    hits = np.empty((NUM_RESAMPLES, len(filled)))
    for row in hits:  # single rows need less memory and the same time
        row[:] = np.add.reduceat(rng.random(len(confidence)) < confidence, starts, dtype=int)
    gaps = np.abs(hits - np.add.reduceat(confidence, starts)).sum(axis=1) / len(confidence)
    band = np.full((2, NUM_BINS), np.nan)
    band[:, filled] = np.percentile(hits / counts, [2.5, 97.5], axis=0)
    return ChanceCalibration(band, float(np.percentile(gaps, 95)))
