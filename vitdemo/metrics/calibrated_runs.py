"""Calibration of a run on its test set, before and after temperature scaling.

    found = calibration(read_run("assets/runs/vit-scratch"))
    found.before.error, found.scaled  # None if the run has no validation predictions

The temperature is fitted on the run's validation set and evaluated on its test set.
"""

from dataclasses import dataclass

from vitdemo.errors import RunError
from vitdemo.metrics.calibration import (
    Chance,
    Reliability,
    chance,
    fit_temperature,
    negative_log_likelihood,
    reliability,
    with_temperature,
)
from vitdemo.metrics.learning import setting
from vitdemo.metrics.tested_runs import sound_evaluation
from vitdemo.runs import Run


@dataclass(frozen=True, eq=False)
class TemperatureScaled:
    """Calibration on the test set with the `temperature` that fits the validation set best.

    `chance` is the calibration of a perfectly calibrated model with the scaled probabilities.
    """

    temperature: float
    validation_pictures: int
    reliability: Reliability
    loss: float  # mean of -log(probability of the true class), in nats
    chance: Chance


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibration of one run on its test set.

    `chance` is the calibration of a perfectly calibrated model with the unscaled probabilities.
    `target` is the training target of the true class; it is 1 without label smoothing.
    """

    run: str
    before: Reliability
    loss: float
    chance: Chance
    scaled: TemperatureScaled | None  # None if the run's files have no validation predictions
    target: float = 1.0

    @property
    def mean_confidence(self) -> float:
        """Mean confidence of all predictions, 0 to 1."""
        held = self.before.count > 0
        sums = self.before.confidence[held] * self.before.count[held]
        return float(sums.sum() / self.before.count.sum())

    @property
    def accuracy(self) -> float:
        return float(self.before.right.sum() / self.before.count.sum())


def calibration(run: Run) -> Calibration:
    """Compute the calibration of `run`. Raises `RunError` if it has no valid evaluation."""
    found = sound_evaluation(run)
    probabilities, labels = found.probabilities, found.labels
    return Calibration(
        run.name,
        reliability(probabilities, labels),
        negative_log_likelihood(probabilities, labels),
        chance(probabilities),
        _scaled(run),
        highest_target(run),
    )


def highest_target(run: Run) -> float:
    """Return the training target of the true class, 0 to 1.

    With label smoothing e, it is 1 - e + e / C for C classes (Szegedy et al. 2016).
    """
    smoothing = float(setting(run, "label_smoothing"))
    return 1 - smoothing * (1 - 1 / len(run.classes))


def _scaled(run: Run) -> TemperatureScaled | None:
    found = run.evaluation
    if found.validation_probabilities is None or found.validation_labels is None:
        return None
    try:
        temperature = fit_temperature(found.validation_probabilities, found.validation_labels)
    except ValueError as error:
        raise RunError(
            f"The validation predictions of '{run.name}' are invalid: {error}."
        ) from error
    test = with_temperature(found.probabilities, temperature)
    return TemperatureScaled(
        temperature,
        len(found.validation_labels),
        reliability(test, found.labels),
        negative_log_likelihood(test, found.labels),
        chance(test),
    )
