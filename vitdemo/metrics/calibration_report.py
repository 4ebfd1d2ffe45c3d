"""Calibration of a run on its test set, before and after temperature scaling.

    report = compute_calibration_report(read_run("assets/runs/vit-scratch"))
    report.scaled  # None if the run has no validation predictions

The temperature is fitted on the run's validation set and evaluated on its test set.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.errors import RunError
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.metrics.calibration import (
    ChanceCalibration,
    ReliabilityDiagram,
    apply_temperature,
    compute_chance_calibration,
    compute_reliability,
    fit_temperature,
    negative_log_likelihood,
)
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.metrics.prediction_sets import PredictionSetReport, compute_set_report
from vitdemo.metrics.training_progress import recipe_field
from vitdemo.runs import Run


@dataclass(frozen=True, eq=False)
class ScaledCalibration:
    """Calibration on the test set with the `temperature` that fits the validation set best.

    `chance` is the calibration of a perfectly calibrated model with the scaled probabilities.
    """

    temperature: float
    num_validation_images: int
    reliability: ReliabilityDiagram
    loss: float  # mean of -log(probability of the true class), in nats
    chance: ChanceCalibration


@dataclass(frozen=True, eq=False)
class CalibrationReport:
    """Calibration of one run on its test set.

    `chance` is the calibration of a perfectly calibrated model with the unscaled probabilities.
    `true_class_target` is the training target of the true class; it is 1 without label smoothing.
    """

    run: str
    reliability: ReliabilityDiagram
    loss: float
    chance: ChanceCalibration
    scaled: ScaledCalibration | None  # None if the run's files have no validation predictions
    true_class_target: float = 1.0
    sets: PredictionSetReport | None = None  # None without validation predictions

    @property
    def mean_confidence(self) -> float:
        """Mean confidence of all predictions, 0 to 1."""
        sums = self.reliability.confidence * self.reliability.count  # NaN in empty bins
        return float(np.nansum(sums) / self.reliability.count.sum())

    @property
    def accuracy(self) -> float:
        return float(self.reliability.correct.sum() / self.reliability.count.sum())


def compute_calibration_report(run: Run) -> CalibrationReport:
    """Compute the calibration of `run`. Raises `RunError` if it has no valid evaluation."""
    evaluation = validated_evaluation(run)
    probabilities, labels = evaluation.probabilities, evaluation.labels
    return CalibrationReport(
        run.name,
        compute_reliability(probabilities, labels),
        negative_log_likelihood(probabilities, labels),
        compute_chance_calibration(probabilities),
        _compute_scaled_calibration(run),
        get_true_class_target(run),
        compute_set_report(run),
    )


def get_true_class_target(run: Run) -> float:
    """Return the training target of the true class, 0 to 1.

    With label smoothing e, the target is 1 - e + e / C for C classes (Szegedy et al. 2016).
    """
    smoothing = float(recipe_field(run, "label_smoothing"))
    return 1 - smoothing * (1 - 1 / len(run.classes))


def _compute_scaled_calibration(run: Run) -> ScaledCalibration | None:
    saved = run.evaluation
    if saved.validation_probabilities is None:
        return None
    try:
        temperature = fit_temperature(saved.validation_probabilities, saved.validation_labels)
    except ValueError as error:
        raise RunError(
            f"The validation predictions of '{run.name}' are invalid: {error}. Evaluate the run "
            f"again: {TRAIN_COMMAND} evaluate RUN."
        ) from error
    scaled = apply_temperature(saved.probabilities, temperature)
    return ScaledCalibration(
        temperature,
        len(saved.validation_labels),
        compute_reliability(scaled, saved.labels),
        negative_log_likelihood(scaled, saved.labels),
        compute_chance_calibration(scaled),
    )
