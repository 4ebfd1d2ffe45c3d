"""Summaries of all runs, read from their files.

for row in model_rows(context):
print(row.name, row.evaluation.accuracy if row.evaluation else "not evaluated")
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.metrics import DASH, ClassMetrics, compute_accuracy, compute_class_metrics
from vitdemo.metrics.calibration import compute_reliability
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.metrics.intervals import wilson_interval
from vitdemo.metrics.ranking_curves import macro_mean
from vitdemo.metrics.recipe_ablation import is_at_chance
from vitdemo.metrics.training_progress import format_epoch_count
from vitdemo.runs import WEIGHTS_FILE, Run
from vitdemo.training.recipes import resolve_recipe_name


@dataclass(frozen=True, eq=False)
class EvaluationSummary:
    """Test results of a run, as fractions from 0 to 1.

    The other metrics take longer, so they are computed at their first use: the scatter plot of all
    runs shows only accuracies.
    """

    run: Run
    accuracy: float
    accuracy_interval: tuple[float, float]  # 95%

    @cached_property
    def class_metrics(self) -> ClassMetrics:
        found = self.run.evaluation
        return compute_class_metrics(found.probabilities, found.labels)

    @property
    def macro_f1(self) -> float:
        return macro_mean(self.class_metrics.f1)

    @property
    def macro_roc_auc(self) -> float:
        """Macro-averaged ROC AUC; NaN if all test images have the same class."""
        return macro_mean(self.class_metrics.roc_auc)

    @property
    def worst_class(self) -> str:
        """Class with the lowest F1."""
        return self.run.classes[int(np.nanargmin(self.class_metrics.f1))]

    @property
    def worst_f1(self) -> float:
        return float(np.nanmin(self.class_metrics.f1))

    @cached_property
    def calibration_error(self) -> float:
        found = self.run.evaluation
        return compute_reliability(found.probabilities, found.labels).calibration_error


@dataclass(frozen=True)
class ModelRow:
    """Row of the model table, read from a run's files; missing values are None.

    `problem` is the reason why the evaluation is unusable, or "".
    """

    name: str
    recipe: str
    parameters: int | None
    macs: int | None  # multiply-add operations per image
    file_bytes: int | None
    evaluation: EvaluationSummary | None
    dataset_name: str | None
    num_training_images: int | None
    epochs: str  # see `format_epoch_count`
    train_seconds: float
    device: str | None  # training device
    problem: str = ""
    is_at_chance: bool = False  # the accuracy is close to chance


def model_rows(context: AppContext) -> list[ModelRow]:
    """Return a row per readable run, highest test accuracy first, then untested runs by name.

    Runs with an accuracy close to chance come last, for example after training on shuffled labels.
    """
    rows = [context.cache.call(make_model_row, run) for run in context.list_runs()[0]]
    return sorted(
        rows,
        key=lambda row: (row.is_at_chance, -row.evaluation.accuracy if row.evaluation else 1.0),
    )


def list_trained_runs(context: AppContext) -> list[Run]:
    """Return the runs with weights, in the order of the model table."""
    names = [row.name for row in model_rows(context) if row.file_bytes is not None]
    return [context.find_run(name) for name in names]


def make_model_row(run: Run) -> ModelRow:
    tested, problem = None, ""
    if run.has_evaluation:
        try:
            found = validated_evaluation(run)
            n, accuracy = len(found.labels), compute_accuracy(found.probabilities, found.labels)
            low, high = map(float, wilson_interval(round(accuracy * n), n))
            tested = EvaluationSummary(run, accuracy, (low, high))
        except RunError as error:
            problem = str(error)
    path = run.path / WEIGHTS_FILE
    return ModelRow(
        name=run.name,
        recipe=resolve_recipe_name(str(run.config["recipe"].get("name", DASH))),
        parameters=run.config.get("parameters"),
        macs=run.config.get("macs"),
        file_bytes=path.stat().st_size if path.is_file() else None,
        evaluation=tested,
        dataset_name=run.dataset_name,
        num_training_images=run.config.get("split", {}).get("train_pictures"),
        epochs=format_epoch_count(run),
        train_seconds=run.train_seconds,
        device=run.device,
        problem=problem,
        is_at_chance=is_at_chance(run),
    )
