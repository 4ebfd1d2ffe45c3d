"""Per-class metrics of a run with confidence intervals, ranking curves, and paired tests of runs.

    report = compute_classification_report(read_run("assets/runs/vit-scratch"))
    report.columns["f1"], report.intervals["f1"]  # (C,), (2, C)
    compare_runs(first, second).sentence()

All values are computed from `evaluation.npz`. Letters: N images, C classes.
"""

import math
from dataclasses import dataclass

import numpy as np

from vitdemo.errors import RunError
from vitdemo.metrics import (
    DASH,
    check_predictions,
    compute_accuracy,
    compute_class_metrics,
    confusion_matrix,
    intervals,
    paired,
    ranking_curves,
)
from vitdemo.metrics.paired import McNemarResult
from vitdemo.metrics.ranking_curves import RankingCurve
from vitdemo.runs import Evaluation, Run

TOP_K = (2, 3, 5)  # values of k for top-k accuracy, if there are more than k classes
METRIC_TITLES = {
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
    "average_precision": "Average precision",
    "roc_auc": "ROC-AUC",
}


@dataclass(frozen=True, eq=False)
class ClassificationReport:
    """Per-class metrics of a run on its test set; the keys of the dicts are in `METRIC_TITLES`.

    `intervals` contains only precision, recall and F1. The intervals of the ranking metrics take
    longer, so `compute_ranking_report` computes them for one class at a time.
    """

    run: str
    classes: tuple[str, ...]
    support: np.ndarray  # (C,)
    columns: dict[str, np.ndarray]  # each (C,)
    intervals: dict[str, np.ndarray]  # each (2, C)
    macro: dict[str, float]
    weighted: dict[str, float]
    macro_intervals: dict[str, np.ndarray]  # each (2,)
    weighted_intervals: dict[str, np.ndarray]
    accuracy: float
    accuracy_interval: np.ndarray  # (2,)
    top: dict[int, tuple[float, np.ndarray]]  # k -> top-k accuracy and its interval (2,)

    def interval(self, column: str, c: int) -> np.ndarray | None:
        """Return the interval (2,) of class `c`, or None if `column` has no intervals."""
        return self.intervals[column][:, c] if column in self.intervals else None

    @property
    def worst_first(self) -> list[int]:
        """Classes sorted by F1, lowest first; classes without images come last."""
        return [int(c) for c in np.argsort(self.columns["f1"], kind="stable")]  # NaN sorts last


@dataclass(frozen=True, eq=False)
class RankingReport:
    """Ranking curves of one run for the class `name`, over the test images.

    `roc` is None if all images belong to the class.
    """

    run: str
    name: str
    roc: RankingCurve | None
    precision_recall: RankingCurve
    area_interval: np.ndarray  # (2,), interval of the ROC AUC
    precision_interval: np.ndarray  # (2,), interval of the average precision


@dataclass(frozen=True, eq=False)
class PairedTest:
    """McNemar's tests of two runs on the same test images, for all images and for each class.

    `adjusted` (C,) are the p-values of `by_class` after Holm's correction for all classes. The test
    over all images is a single test, so its p-value is not corrected.
    """

    first: str
    second: str
    classes: tuple[str, ...]
    overall: McNemarResult
    by_class: tuple[McNemarResult, ...]
    adjusted: np.ndarray

    def sentence(self, c: int | None = None) -> str:
        """Describe McNemar's test for class `c` with corrected p, or for all images."""
        if c is None:
            return paired.describe_mcnemar(self.overall, self.first, self.second)
        name, p = self.classes[c], float(self.adjusted[c])
        return paired.describe_mcnemar(self.by_class[c], self.first, self.second, name, p)


def validated_evaluation(run: Run) -> Evaluation:
    """Return the run's evaluation; raises `RunError` if the evaluation is not valid."""
    evaluation = run.evaluation
    try:
        check_predictions(evaluation.probabilities, evaluation.labels)
    except ValueError as error:
        raise RunError(
            f"The evaluation of '{run.name}' cannot be used: {error}. Evaluate the run again."
        ) from error
    return evaluation


def format_three_decimals(value: float) -> str:
    """Format a value of at most 1 with three decimals, never rounded up to 1; NaN is a dash."""
    if math.isnan(value):
        return DASH
    return "> 0.999" if 0.9995 <= value < 1 else f"{value:.3f}"


def compute_classification_report(run: Run) -> ClassificationReport:
    """Compute the test metrics of `run`; raises `RunError` without a valid evaluation."""
    evaluation = validated_evaluation(run)
    probabilities, labels = evaluation.probabilities, evaluation.labels
    metrics = compute_class_metrics(probabilities, labels)
    bounds = intervals.compute_metric_intervals(confusion_matrix(probabilities, labels))
    columns = {name: getattr(metrics, name) for name in ("precision", "recall", "f1", "roc_auc")}
    columns["average_precision"] = ranking_curves.average_precision_by_class(probabilities, labels)
    return ClassificationReport(
        run=run.name,
        classes=run.classes,
        support=metrics.support,
        columns=columns,
        intervals={name: getattr(bounds, name) for name in ("precision", "recall", "f1")},
        macro={name: ranking_curves.macro_mean(column) for name, column in columns.items()},
        weighted={
            name: ranking_curves.weighted_mean(column, metrics.support)
            for name, column in columns.items()
        },
        macro_intervals=bounds.macro,
        weighted_intervals=bounds.weighted,
        accuracy=compute_accuracy(probabilities, labels),
        accuracy_interval=bounds.accuracy,
        top={k: _compute_top_k(evaluation, k) for k in TOP_K if k < len(run.classes)},
    )


def _compute_top_k(evaluation: Evaluation, k: int) -> tuple[float, np.ndarray]:
    accuracy = ranking_curves.top_k_accuracy(evaluation.probabilities, evaluation.labels, k)
    n = len(evaluation.labels)
    return accuracy, intervals.wilson_interval(round(accuracy * n), n)


def compute_ranking_report(run: Run, class_name: str) -> RankingReport:
    """Return the ranking curves of one class of the `run`, with intervals of their areas.

    Raises `RunError` if the class is unknown or has no test images.
    """
    if class_name not in run.classes:
        choices = ", ".join(run.classes)
        raise RunError(f"'{run.name}' has no class '{class_name}': choose one of {choices}.")
    c = run.classes.index(class_name)
    evaluation = validated_evaluation(run)
    probabilities, labels = evaluation.probabilities, evaluation.labels
    if not (labels == c).any():
        raise RunError(
            f"The test set of '{run.name}' has no images of '{class_name}': choose another class."
        )
    is_only_class = (labels == c).all()
    return RankingReport(
        run.name,
        class_name,
        None if is_only_class else ranking_curves.compute_roc_curve(probabilities, labels, c),
        ranking_curves.compute_precision_recall_curve(probabilities, labels, c),
        *intervals.ranking_interval(probabilities, labels, c),
    )


def compare_runs(first: Run, second: Run) -> PairedTest:
    """Return McNemar's tests of two runs; raises `RunError` if their test images differ."""
    a, b = validated_evaluation(first), validated_evaluation(second)
    same_images = a.fingerprint == b.fingerprint and np.array_equal(a.labels, b.labels)
    if not same_images or first.classes != second.classes:
        raise RunError(
            f"'{first.name}' and '{second.name}' were tested on different images and cannot be "
            "compared. Choose two runs with the same test set."
        )
    correct = [paired.is_correct(each.probabilities, each.labels) for each in (a, b)]
    overall = paired.mcnemar(*correct)
    tests = [
        paired.mcnemar(*(each[a.labels == c] for each in correct))
        for c in range(len(first.classes))
    ]
    adjusted = paired.holm([test.p for test in tests])
    return PairedTest(first.name, second.name, first.classes, overall, tuple(tests), adjusted)
