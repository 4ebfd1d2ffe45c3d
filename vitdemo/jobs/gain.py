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
    """Gain in percentage points with interval `low` to `high`; `paired`: on the same images."""

    points: float
    low: float
    high: float
    paired: bool


def measure_validation_gain(run: Run, beside: Run) -> ValidationGain:
    """Return the gain of `run` over `beside` on the validation set.

    The test set is not used, since the result may guide further choices. Raises `RunError` if a
    run has no validation predictions.
    """
    new, old = _correct_predictions(run), _correct_predictions(beside)
    if _split_key(run) == _split_key(beside) and len(new) == len(old):
        test = mcnemar(new, old)
        low, high = test.interval
        return ValidationGain(100 * test.difference, 100 * low, 100 * high, True)
    difference = new.mean() - old.mean()
    # Interval for two independent samples (Agresti & Caffo 2000: add one success and one failure).
    shares = [((each.sum() + 1) / (len(each) + 2), len(each) + 2) for each in (new, old)]
    spread = NORMAL_QUANTILE * math.sqrt(sum(p * (1 - p) / n for p, n in shares))
    middle = shares[0][0] - shares[1][0]
    ends = (100 * (middle - spread), 100 * (middle + spread))
    return ValidationGain(100 * float(difference), *ends, False)


def _correct_predictions(run: Run) -> np.ndarray:
    """Return which validation predictions are correct, (M,) bool."""
    found = run.evaluation
    if found.validation_probabilities is None:
        raise RunError(
            f"'{run.name}' has no predictions for a validation set. Choose another baseline."
        )
    return is_correct(found.validation_probabilities, found.validation_labels)


def _split_key(run: Run) -> tuple:
    """Return the settings that determine the validation split."""
    recipe = run.config["recipe"]
    print_ = run.config.get("data", {}).get("fingerprint")
    return print_, recipe.get("seed"), recipe.get("validation_share")
