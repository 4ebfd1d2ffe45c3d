"""Prediction sets: the true class of 95% of images is in the set (split conformal prediction).

The score of an image is 1 - p, where p is the probability of its true class. The threshold is the
finite-sample quantile of the scores of calibration images, which were not used for training. A set
contains all classes with a score up to this quantile. If new images and calibration images come
from the same distribution, a set contains the true class with a probability of at least 95%
(Vovk et al. 2005; Angelopoulos & Bates 2021, https://arxiv.org/abs/2107.07511, section 1.1).

Among all sets with this coverage, those of the score 1 - p have the smallest mean size if the
probabilities are correct (Sadinle et al. 2019, https://arxiv.org/abs/1609.00451). Adaptive scores
(APS) suit the included models less, because many confident predictions have similar probabilities:
the sets of `vit-scratch` on its test set would have 2.8 classes and a coverage of 99.8%, instead of
1.0 classes and 95.5%. Unlike the original sets, a set always contains the predicted class, which
can only increase the coverage.

Letters: N images, C classes, n calibration images.

    threshold = fit_threshold(validation_probabilities, validation_labels)
    select_classes(test_probabilities, threshold)  # (N, C)
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.errors import RunError
from vitdemo.metrics.checks import check_predictions
from vitdemo.metrics.intervals import wilson_interval
from vitdemo.runs import Run

COVERAGE_PERCENT = 95


@dataclass(frozen=True)
class PredictionSetReport:
    """Prediction sets of a run on its test set.

    The `threshold` is a probability, fitted on `num_calibration` images. `coverage` is the fraction
    of test images whose set contains the true class, with a 95% `interval` over test images.
    """

    threshold: float
    num_calibration: int
    coverage: float
    interval: tuple[float, float]
    mean_size: float


def count_covered(n: int, percent: int = COVERAGE_PERCENT) -> int:
    """Return ceil((n + 1) * percent / 100), without rounding errors.

    So many of n calibration images must reach the threshold. The number is above n for few images.
    """
    return -(-(n + 1) * percent // 100)


def fit_threshold(
    probabilities: np.ndarray, labels: np.ndarray, percent: int = COVERAGE_PERCENT
) -> float | None:
    """Return the lowest probability of a class in a set, from probabilities (n, C) and labels (n,).

    The threshold is 1 minus the quantile of the scores: the ceil((n + 1) * percent / 100)-th
    largest probability of a true class. Returns None if there are too few images: 95% need 19.
    Raises `ValueError` for invalid predictions.
    """
    check_predictions(probabilities, labels)
    n = len(labels)
    if (k := count_covered(n, percent)) > n:
        return None
    return float(np.sort(np.asarray(probabilities)[np.arange(n), labels])[n - k])


def select_classes(probabilities: np.ndarray, threshold: float) -> np.ndarray:
    """Return a bool array (N, C): classes that reach the `threshold`, and the predicted class."""
    probabilities = np.asarray(probabilities)
    selected = probabilities >= threshold
    selected[np.arange(len(selected)), probabilities.argmax(1)] = True
    return selected


def read_threshold(run: Run) -> float | None:
    """Return the threshold of `run`, or None if it has no suitable predictions.

    The calibration images are the validation images. For custom classes, they are the user's
    images with cross-validated predictions, but only if no two of them are near-identical, because
    the images would not be exchangeable.
    """
    try:
        evaluation = run.evaluation
        if run.is_cross_validated:
            counts = run.config["own_classes"]
            if counts.get("groups") != counts.get("pictures"):
                return None
            return fit_threshold(evaluation.probabilities, evaluation.labels)
        if evaluation.validation_probabilities is None:
            return None
        return fit_threshold(evaluation.validation_probabilities, evaluation.validation_labels)
    except (RunError, ValueError):
        return None


def compute_set_report(run: Run) -> PredictionSetReport | None:
    """Measure the prediction sets of `run` on its test set.

    Returns None for a run without validation predictions, and for custom classes, which have no
    test set. Raises `RunError` if the evaluation is missing.
    """
    evaluation, threshold = run.evaluation, read_threshold(run)
    if run.is_cross_validated or threshold is None:
        return None
    labels = evaluation.labels
    selected = select_classes(evaluation.probabilities, threshold)
    hits = int(selected[np.arange(len(labels)), labels].sum())
    low, high = wilson_interval(hits, len(labels))
    return PredictionSetReport(
        threshold,
        len(evaluation.validation_labels),
        hits / len(labels),
        (float(low), float(high)),
        float(selected.sum(1).mean()),
    )
