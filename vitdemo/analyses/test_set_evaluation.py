"""Evaluation of models on a user's test set, compared with their own test set.

    tests = make_test_set(context, "Group 2", names, squares, labels)
    for step in evaluate_models(context, tests):
        print(step.run.name, step.done, step.total)
    compare_test_sets(context, tests)

Letters: N images, C classes.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.data.image_files import crop_and_resize, to_uint8
from vitdemo.data.image_folders import format_some_names, normalize_name
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.metrics.intervals import independent_difference_interval, wilson_interval
from vitdemo.metrics.paired import is_correct
from vitdemo.runs import Evaluation, Run
from vitdemo.runs.user_test_set import UserTestSet
from vitdemo.training import predict_logits

MAX_CLASSES = 200  # of a model: larger confusion matrices are neither fast nor readable
BATCH_SIZE = 32


@dataclass(frozen=True)
class EvaluationStep:
    """Progress of `evaluate_models`: `done` of `total` predictions; `run` is evaluated now."""

    run: Run
    done: int
    total: int


@dataclass(frozen=True)
class AccuracyComparison:
    """Accuracies (0 to 1) of one model on a user's test set and on its own test set.

    The last three fields are None if the model has no evaluation on its own test set.
    """

    run: Run
    accuracy: float
    interval: tuple[float, float]  # 95%
    own_accuracy: float | None = None
    own_interval: tuple[float, float] | None = None
    difference_interval: tuple[float, float] | None = None  # 95%, user's minus own test set


def make_test_set(
    context: AppContext,
    name: str,
    class_names: Sequence[str],
    squares: Sequence[Image.Image],
    labels: Sequence[int],
    preferred_model: str = "",
) -> UserTestSet:
    """Create a test set of N square images for the models whose classes contain `class_names`.

    If models with different lists of classes match, the list of `preferred_model` is used if
    possible, else the list that most models have. Upper and lower case are not distinguished.

    Args:
        labels: (N,) indices into `class_names`.

    Raises `DataError` if no model has all classes.
    """
    models = [run for run in context.trained_runs() if 0 < len(run.classes) <= MAX_CLASSES]
    matching = [run for run in models if _find_indices(run.classes, class_names) is not None]
    if not matching:
        raise DataError(_describe_unknown_classes(models, class_names))
    lists = [run.classes for run in matching]
    preferred = next((run.classes for run in matching if run.name == preferred_model), None)
    classes = preferred or max(lists, key=lists.count)
    indices = _find_indices(classes, class_names)
    return UserTestSet(name, classes, squares, [indices[label] for label in labels])


def _normalise(name: str) -> str:
    return " ".join(normalize_name(name).replace("_", " ").split()).casefold()


def _find_indices(classes: Sequence[str], names: Sequence[str]) -> list[int] | None:
    """Return the index of each name in `classes`, or None if a name is missing."""
    known = {_normalise(name): i for i, name in enumerate(classes)}
    found = [known.get(_normalise(name)) for name in names]
    return None if None in found else found


def _describe_unknown_classes(models: Sequence[Run], names: Sequence[str]) -> str:
    """Explain which classes no model has; the closest model is the one with most of the classes."""

    def missing(run: Run) -> list[str]:
        return [name for name in names if _find_indices(run.classes, [name]) is None]

    if not models:
        return f"No model with at most {MAX_CLASSES} classes has weights. Train a model first."
    closest = min(models, key=lambda run: len(missing(run)))
    return (
        f"No model has all classes of these folders. '{closest.name}' does not know "
        f"{format_some_names(missing(closest))}. Rename the folders to classes of a model: "
        f"{', '.join(closest.classes[:20])}{' …' if len(closest.classes) > 20 else ''}."
    )


def list_testable_runs(context: AppContext, tests: UserTestSet) -> list[Run]:
    """Return the models that have the classes of `tests`, in the same order."""
    return [run for run in context.trained_runs() if run.classes == tests.classes]


def list_pending_runs(context: AppContext, tests: UserTestSet) -> list[Run]:
    """Return the models that can be evaluated on `tests` and have not been evaluated yet."""
    runs = list_testable_runs(context, tests)
    return [run for run in runs if tests.find_evaluation(run) is None]


def evaluate_models(context: AppContext, tests: UserTestSet) -> Iterator[EvaluationStep]:
    """Evaluate all pending models on `tests`; yield the progress after each batch.

    The images are cropped as in Explore. A model that cannot be loaded is skipped: a later call
    tries it again. Raises the error of the last skipped model at the end.
    """
    runs = list_pending_runs(context, tests)
    total, problem = len(runs) * len(tests), None
    for number, run in enumerate(runs):
        done = number * len(tests)
        yield EvaluationStep(run, done, total)
        try:
            model = context.load_model(run)
            crop = run.preprocessing.size, run.preprocessing.crop
            probabilities, seconds = [], 0.0
            for start in range(0, len(tests), BATCH_SIZE):
                chosen = range(start, min(start + BATCH_SIZE, len(tests)))
                images = [to_uint8(crop_and_resize(tests[i].image, *crop)) for i in chosen]
                images = torch.from_numpy(np.stack(images))  # (B, 3, S, S)
                begun = time.perf_counter()
                with context.divide_cores():
                    logits = predict_logits(model, images, run.preprocessing)  # (B, C)
                seconds += time.perf_counter() - begun
                probabilities.append(logits.softmax(1).numpy()[:, : len(run.classes)])
                yield EvaluationStep(run, done + chosen.stop, total)
            tests.add_evaluation(run, np.concatenate(probabilities), seconds / len(tests))
        except VitdemoError as error:
            problem = error
    if problem is not None:
        raise problem


def compare_test_sets(context: AppContext, tests: UserTestSet) -> list[AccuracyComparison]:
    """Compare the accuracies of all evaluated models on both test sets, highest first.

    `context` is the context of the models' own test sets.
    """
    found = []
    for run in list_testable_runs(context, tests):
        if (evaluation := tests.find_evaluation(run)) is None:
            continue
        hits, n = counts = _count_correct(evaluation)
        compared = AccuracyComparison(run, hits / n, _as_pair(wilson_interval(*counts)))
        try:
            own_hits, own_n = own_counts = _count_correct(validated_evaluation(run))
        except RunError:  # there is no valid evaluation on its own test set
            pass
        else:
            compared = replace(
                compared,
                own_accuracy=own_hits / own_n,
                own_interval=_as_pair(wilson_interval(*own_counts)),
                difference_interval=_as_pair(independent_difference_interval(*counts, *own_counts)),
            )
        found.append(compared)
    return sorted(found, key=lambda each: -each.accuracy)


def _count_correct(evaluation: Evaluation) -> tuple[int, int]:
    """Return the number of correct predictions and of all predictions."""
    correct = is_correct(evaluation.probabilities, evaluation.labels)  # (N,)
    return int(correct.sum()), len(correct)


def _as_pair(interval: np.ndarray) -> tuple[float, float]:
    return float(interval[0]), float(interval[1])
