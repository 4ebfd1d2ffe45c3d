"""Difference in validation accuracy between two runs, with a 95% confidence interval."""

import math
from dataclasses import dataclass

import numpy as np

from vitdemo.errors import RunError
from vitdemo.metrics.intervals import NORMAL_QUANTILE
from vitdemo.metrics.paired import is_correct, mcnemar
from vitdemo.runs import Run


@dataclass(frozen=True)
class ValidationGain:
    """Gain in validation accuracy, in percentage points, with 95% interval `low` to `high`."""

    points: float
    low: float
    high: float
    paired: bool  # True if both runs have predictions for the same images


def measure_validation_gain(run: Run, baseline: Run) -> ValidationGain:
    """Return the gain of `run` over `baseline` on the validation set.

    The test set is not used, since the result may guide further choices. Raises `RunError` if a
    run has no validation predictions.
    """
    first, second = _correct_predictions(run), _correct_predictions(baseline)
    if _split_key(run) == _split_key(baseline) and len(first) == len(second):
        test = mcnemar(first, second)
        low, high = test.interval
        return ValidationGain(100 * test.difference, 100 * low, 100 * high, True)
    difference = first.mean() - second.mean()
    # Interval for two independent samples (Agresti & Caffo 2000: add one success and one failure).
    estimates = [((hits.sum() + 1) / (len(hits) + 2), len(hits) + 2) for hits in (first, second)]
    half_width = NORMAL_QUANTILE * math.sqrt(sum(p * (1 - p) / n for p, n in estimates))
    centre = estimates[0][0] - estimates[1][0]
    limits = (100 * (centre - half_width), 100 * (centre + half_width))
    return ValidationGain(100 * float(difference), *limits, False)


def _correct_predictions(run: Run) -> np.ndarray:
    """Return a mask (M,) of the correct validation predictions."""
    evaluation = run.evaluation
    if evaluation.validation_probabilities is None:
        raise RunError(
            f"'{run.name}' has no predictions for a validation set. Choose another baseline."
        )
    return is_correct(evaluation.validation_probabilities, evaluation.validation_labels)


def _split_key(run: Run) -> tuple:
    recipe = run.config["recipe"]
    fingerprint = run.config.get("data", {}).get("fingerprint")
    return fingerprint, recipe.get("seed"), recipe.get("validation_share")
