"""How far a run's probabilities can be trusted, before and after a temperature.

    found = calibration(read_run("assets/runs/vit-scratch"))
    found.before.error, found.scaled  # None where the run has no validation answers

The temperature is fitted on the validation pictures that the run held out, never on the test set,
on which it is then judged.
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
    """The test set after the `temperature` that fits the validation images best.

    `chance` is expected of a perfectly calibrated model with the scaled probabilities.
    """

    temperature: float
    validation_pictures: int
    reliability: Reliability
    loss: float  # mean of -log(probability of the true class), in nats
    chance: Chance


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibration of one run on its test set.

    `chance` is expected of a perfectly calibrated model with the probabilities `before` scaling.

    `target` is the probability of the true class that training asked for, 1 without label
    smoothing.
    """

    run: str
    before: Reliability
    loss: float
    chance: Chance
    scaled: TemperatureScaled | None  # None where the run's files have no validation answers
    target: float = 1.0

    @property
    def mean_confidence(self) -> float:
        """What the model believes its accuracy to be, 0 to 1."""
        held = self.before.count > 0
        sums = self.before.confidence[held] * self.before.count[held]
        return float(sums.sum() / self.before.count.sum())

    @property
    def accuracy(self) -> float:
        return float(self.before.right.sum() / self.before.count.sum())


def calibration(run: Run) -> Calibration:
    """How far the `run` can be trusted. Raises `RunError` without a sound evaluation."""
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
    """The probability that a training asks for of the true class, 0 to 1.

    Label smoothing e leaves it 1 - e and a share of e, as all C (Szegedy 2016).
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
            f"The validation answers of '{run.name}' cannot be used: {error}."
        ) from error
    test = with_temperature(found.probabilities, temperature)
    return TemperatureScaled(
        temperature,
        len(found.validation_labels),
        reliability(test, found.labels),
        negative_log_likelihood(test, found.labels),
        chance(test),
    )
