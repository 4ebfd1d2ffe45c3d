"""Evaluation of models on a user's test set, compared with their own test set.

    tests = make_test_set(context, "Group 2", names, squares, labels)
    for step in evaluate_models(context, tests):
        print(step.text, step.done, step.total)
    compare_test_sets(context, tests)

Letters: N images, C classes.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import models
from vitdemo.context import AppContext
from vitdemo.data.image_folders import format_some_names, normalize_name
from vitdemo.data.near_duplicates import (
    SMALL_SIDE,
    effective_sample_size,
    find_copies,
    group_images,
)
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.metrics.intervals import independent_difference_interval, wilson_interval
from vitdemo.metrics.paired import is_correct
from vitdemo.runs import Evaluation, Run
from vitdemo.test_sets.user_test_set import UserTestSet

MAX_CLASSES = 200  # limit per model; larger confusion matrices are slow and hard to read
BATCH_SIZE = 32
SEARCH_BATCH_SIZE = 1_000  # number of training images in one comparison with the test images
SEARCH_TEXT = "Searching for copies of the dataset's images"
GROUPS_NOTE = (
    "{images} images form {groups} groups of near-identical images. So the intervals of the "
    "accuracies are for about {size:.0f} independent images. Intervals in other sections assume "
    "independent images, so they are too narrow."
)
COPIES_NOTE = (
    "{copies} of {images} images are also in the training or validation set of these models, so "
    "the accuracy is too high. Remove these images."
)
TEST_COPIES_NOTE = (
    "{copies} of {images} images are also in the original test set, so the two accuracies are not "
    "independent."
)
NOT_SEARCHED_NOTE = (
    "The training images are not available, so the test images were not compared with them."
)


@dataclass(frozen=True)
class EvaluationStep:
    """Progress of `evaluate_models`: `done` of `total` predictions; `text` is the current part."""

    text: str
    done: int
    total: int


@dataclass(frozen=True)
class AccuracyComparison:
    """Accuracies (0 to 1) of one model on a user's test set and on its own test set.

    The accuracy on the own test set is for the same classes in the same proportions. The last four
    fields are None if the model has no evaluation of these classes on its own test set.
    """

    run: Run
    count: int
    accuracy: float
    interval: tuple[float, float]  # 95%
    own_count: int | None = None
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
    """Explain which classes are missing in the closest model, which has most of the classes."""

    def missing(run: Run) -> list[str]:
        return [name for name in names if _find_indices(run.classes, [name]) is None]

    if not models:
        return f"No model with at most {MAX_CLASSES} classes has weights. Train a model first."
    closest = min(models, key=lambda run: len(missing(run)))
    return (
        f"No model has all classes of these folders. '{closest.name}' does not have "
        f"{format_some_names(missing(closest))}. Rename the folders to classes of a model: "
        f"{', '.join(closest.classes[:20])}{' …' if len(closest.classes) > 20 else ''}."
    )


def list_testable_runs(context: AppContext, tests: UserTestSet) -> list[Run]:
    """Return the models whose list of classes equals the list of `tests`."""
    return [run for run in context.trained_runs() if run.classes == tests.classes]


def list_pending_runs(context: AppContext, tests: UserTestSet) -> list[Run]:
    """Return the models that can be evaluated on `tests` and have not been evaluated yet."""
    runs = list_testable_runs(context, tests)
    return [run for run in runs if tests.find_evaluation(run) is None]


def evaluate_models(context: AppContext, tests: UserTestSet) -> Iterator[EvaluationStep]:
    """Evaluate all pending models on `tests`; yield the progress after each batch.

    The images are cropped as in Explore. The first call also searches for copies of the
    dataset's images, and groups near-identical images by the features of the first model. A model
    that cannot be loaded is skipped until the next call. At the end, raises the error of the last
    skipped model.
    """
    runs = list_pending_runs(context, tests)
    total, problem = len(runs) * len(tests), None
    if tests.training_copies is None:
        for _ in _search_copies(context, tests):
            yield EvaluationStep(SEARCH_TEXT, 0, total)
    for number, run in enumerate(runs):
        done = number * len(tests)
        yield EvaluationStep(run.name, done, total)
        try:
            model = context.load_model(run)
            probabilities, features, seconds = [], [], 0.0
            for start in range(0, len(tests), BATCH_SIZE):
                chosen = range(start, min(start + BATCH_SIZE, len(tests)))
                begun = time.perf_counter()
                found, logits = _predict(context, model, run, [tests[i].image for i in chosen])
                seconds += time.perf_counter() - begun
                features.append(found)
                probabilities.append(logits.softmax(1).numpy()[:, : len(run.classes)])
                yield EvaluationStep(run.name, done + chosen.stop, total)
            tests.add_evaluation(run, np.concatenate(probabilities), seconds / len(tests))
            if tests.groups is None:
                _group_images(tests, np.concatenate(features))
        except VitdemoError as error:
            problem = error
    if problem is not None:
        raise problem


@torch.inference_mode()
def _predict(
    context: AppContext, model: nn.Module, run: Run, images: Sequence[Image.Image]
) -> tuple[np.ndarray, Tensor]:
    """Return features (B, D) and logits (B, C) of RGB images."""
    seen = np.stack([run.preprocessing.crop_image(image) for image in images])  # (B, 3, S, S)
    with context.divide_cores():
        pixels = run.preprocessing(torch.from_numpy(seen).to(context.device))
        features, logits = models.features_and_logits(model, pixels)
        return features.float().cpu().numpy(), logits.float().cpu()


def _group_images(tests: UserTestSet, features: np.ndarray) -> None:
    squares = [tests[i].image for i in range(len(tests))]
    tests.groups = group_images(squares, features, tests.labels)


def _search_copies(context: AppContext, tests: UserTestSet) -> Iterator[None]:
    """Set the copies of `tests` if the dataset is available and has the same classes."""
    try:
        source = context.open_dataset()
        if source.classes != tests.classes:
            return
        squares = [tests[i].image for i in range(len(tests))]
        found = {part: np.zeros(len(tests), dtype=bool) for part in ("train", "test")}
        for part, copies in found.items():
            for batch in source.load_batches(part, SMALL_SIDE, SEARCH_BATCH_SIZE):
                copies |= find_copies(squares, batch.images)
                yield
        tests.training_copies, tests.test_copies = found.values()
    except DataError:  # the dataset is not available
        return


def describe_independence(tests: UserTestSet) -> list[str]:
    """Describe near-identical images and copies of dataset images; [] before an evaluation."""
    if tests.groups is None:
        return []
    found, size = [], effective_sample_size(tests.groups)
    if (count := tests.groups.max() + 1) < len(tests):
        found.append(GROUPS_NOTE.format(images=len(tests), groups=count, size=size))
    if tests.training_copies is None:
        found.append(NOT_SEARCHED_NOTE)
    elif copies := int(tests.training_copies.sum()):
        found.append(COPIES_NOTE.format(copies=copies, images=len(tests)))
    if tests.test_copies is not None and (copies := int(tests.test_copies.sum())):
        found.append(TEST_COPIES_NOTE.format(copies=copies, images=len(tests)))
    return found


def compare_test_sets(context: AppContext, tests: UserTestSet) -> list[AccuracyComparison]:
    """Compare the accuracies of all evaluated models on both test sets, highest first.

    `context` is the context of the models' own test sets.
    """
    evaluated = [(run, tests.find_evaluation(run)) for run in list_testable_runs(context, tests)]
    found = [compare_run(run, each, tests.groups) for run, each in evaluated if each]
    return sorted(found, key=lambda each: -each.accuracy)


def compare_run(
    run: Run, evaluation: Evaluation, groups: np.ndarray | None = None
) -> AccuracyComparison:
    """Compare the accuracy of a model in `evaluation` with the accuracy on its own test set.

    From the own test set, only images of the same classes are used. Each class has the same weight
    as in `evaluation`. The intervals are for the effective number of independent images, from the
    `groups` (N,) of near-identical images.
    """
    count = len(evaluation.labels)
    size = count if groups is None else effective_sample_size(groups)
    accuracy = float(is_correct(evaluation.probabilities, evaluation.labels).mean())
    interval = wilson_interval(accuracy * size, size)
    compared = AccuracyComparison(run, count, accuracy, _as_pair(interval))
    try:
        own = validated_evaluation(run)
        own_accuracy, own_size, own_count = _weighted_accuracy(own, evaluation.labels)
    except RunError:  # the model has no valid evaluation on its own test set, or a class is missing
        return compared
    counts = accuracy * size, size, own_accuracy * own_size, own_size
    return replace(
        compared,
        own_count=own_count,
        own_accuracy=own_accuracy,
        own_interval=_as_pair(wilson_interval(*counts[2:])),
        difference_interval=_as_pair(independent_difference_interval(*counts)),
    )


def _weighted_accuracy(evaluation: Evaluation, labels: np.ndarray) -> tuple[float, float, int]:
    """Compute the accuracy with the class proportions of `labels`.

    Also returns the effective sample size for these weights (Kish 1965), and the number of images.
    Raises `RunError` if a class has no images.
    """
    classes, counts = np.unique(labels, return_counts=True)  # each (K,)
    weights = counts / counts.sum()
    own = evaluation.labels[:, None] == classes  # (N, K)
    sizes = own.sum(0)
    if not sizes.all():
        raise RunError("The original test set does not have all classes.")
    correct = is_correct(evaluation.probabilities, evaluation.labels)
    recalls = (own & correct[:, None]).sum(0) / sizes
    # Rounding must not make the accuracy larger than 1.
    accuracy = min(float(weights @ recalls), 1.0)
    return accuracy, float(1 / (weights**2 / sizes).sum()), int(sizes.sum())


def _as_pair(interval: np.ndarray) -> tuple[float, float]:
    return float(interval[0]), float(interval[1])
