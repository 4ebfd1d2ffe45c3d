"""Selection of test images by the predictions of the runs in an `AppContext`.

Models are compared only on the same images in the same order. The fingerprint, classes and labels
of their evaluations must therefore be equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vitdemo.context import AppContext
from vitdemo.data.image_folders import format_some_names
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.metrics import confusion_matrix
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.metrics.error_selection import IMAGE_FILTERS, Filters, select_images
from vitdemo.runs import Run


@dataclass(frozen=True, eq=False)
class ComparablePredictions:
    """Predictions of M runs for the same N test images: `probabilities` (M, N, C), `labels` (N,).

    `exclusion_messages` explain why other evaluated runs are not among the `runs`.
    """

    runs: tuple[Run, ...]
    labels: np.ndarray
    exclusion_messages: tuple[str, ...]

    @cached_property
    def probabilities(self) -> np.ndarray:
        return np.stack([run.evaluation.probabilities for run in self.runs])

    @property
    def classes(self) -> tuple[str, ...]:
        return self.runs[0].classes

    @property
    def names(self) -> list[str]:
        return [run.name for run in self.runs]

    def confusion_matrix(self, name: str) -> np.ndarray:
        """Return the confusion matrix (C, C) of the run `name`."""
        return confusion_matrix(self.probabilities[self.names.index(name)], self.labels)


@dataclass(frozen=True)
class ImageQuery:
    """A query for test images that pass `filters` with the predictions of `run`.

    Images that pass only with the predictions of `other_run` are appended to the result.
    """

    run: str
    filters: Filters
    other_run: str | None = None


@dataclass(frozen=True, eq=False)
class ImageSelection:
    """Result of an `ImageQuery`: the indices (n,) of the images."""

    query: ImageQuery
    predictions: ComparablePredictions
    image_indices: np.ndarray


def comparable_predictions(context: AppContext, name: str) -> ComparablePredictions:
    """Return the predictions of all runs tested on the same images as the run `name`.

    The runs are in the order of `evaluated_runs`. Raises `RunError` without a valid evaluation of
    `name`.
    """
    reference = context.find_run(name)
    runs, messages = context.cache.call(_comparable_runs, reference, context.evaluated_runs())
    return ComparablePredictions(runs, reference.evaluation.labels, messages)


def _comparable_runs(
    reference: Run, evaluated: Sequence[Run]
) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Return the runs tested on the same images as `reference`, and a message per other run."""
    validated_evaluation(reference)
    runs, messages = [], []
    for run in evaluated:
        try:
            if run.name != reference.name:
                _check_same_images(reference, run)
            runs.append(run)
        except VitdemoError as error:
            messages.append(f"{run.name} is not compared with {reference.name}: {error}")
    return tuple(runs), tuple(messages)


def available_predictions(context: AppContext, *names: str) -> ComparablePredictions:
    """Return the predictions of the runs `names` and of all runs with weights.

    Filters such as "all models" refer to these runs. A run without weights is left out unless it is
    in `names`. If only one run would remain, no run is left out.
    """
    group = comparable_predictions(context, names[0])
    included = tuple(run for run in group.runs if run.has_weights or run.name in names)
    if len(included) in (1, len(group.runs)):
        return group
    excluded = format_some_names(run.name for run in group.runs if run not in included)
    message = f"These models are not included, because their weights are not available: {excluded}."
    return replace(group, runs=included, exclusion_messages=(*group.exclusion_messages, message))


def _check_same_images(reference: Run, run: Run) -> None:
    """Raise `RunError` unless both runs were tested on the same images in the same order."""
    if run.classes != reference.classes:
        raise RunError("it has different classes.")
    first, second = reference.evaluation, validated_evaluation(run)
    if first.fingerprint != second.fingerprint or not np.array_equal(first.labels, second.labels):
        raise RunError("it was tested on different images, or in a different order or size.")


def select_by_query(context: AppContext, query: ImageQuery) -> ImageSelection:
    """Select the test images of `query`. Raises `RunError` if a run has other test images."""
    group = available_predictions(context, *_query_runs(query))
    indices = _select_for_run(group, query, query.run, query.filters)
    if query.other_run is not None:
        others = _select_for_run(group, query, query.other_run, query.filters)
        indices = np.concatenate([indices, others[~np.isin(others, indices)]])
    return ImageSelection(query, group, indices)


def _select_for_run(group: ComparablePredictions, query: ImageQuery, name: str, filters: Filters):
    if name not in group.names:
        same = f"'{name}' was not tested on the same images as '{query.run}'."
        raise RunError(f"{same} Choose another model.")
    try:
        return select_images(group.probabilities, group.labels, group.names.index(name), filters)
    except ValueError as error:
        raise RunError(f"The filters are invalid: {error}.") from error


def count_kinds(context: AppContext, query: ImageQuery) -> dict[str, int]:
    """Count the images of each kind that pass all other filters of `query`. Raises `RunError`."""
    group = available_predictions(context, *_query_runs(query))
    kinds = {kind: replace(query.filters, kind=kind) for kind in IMAGE_FILTERS}
    return {
        kind: len(_select_for_run(group, query, query.run, filters))
        for kind, filters in kinds.items()
    }


def _query_runs(query: ImageQuery) -> list[str]:
    return [query.run, *([query.other_run] if query.other_run else [])]


def load_test_images(context: AppContext, run: Run, image_indices: Sequence[int]) -> np.ndarray:
    """Return the test images `image_indices` at the input size of `run`, (n, S, S, 3) uint8.

    Raises `DataError` if the dataset is not available, or differs from the run's evaluation.
    """
    tests = context.test_set()
    evaluation = run.evaluation
    mismatch = DataError(
        f"'{run.name}' was tested on a different dataset. Restart with --data and the folder of "
        "its dataset."
    )
    if tests.classes != run.classes or len(tests) != len(evaluation.labels):
        raise mismatch
    samples, fingerprint = tests.load_crops(run.spec.image_size)
    if fingerprint != evaluation.fingerprint:
        raise mismatch
    images = samples.images[np.asarray(image_indices, dtype=np.int64)]  # (n, 3, S, S)
    return images.permute(0, 2, 3, 1).contiguous().numpy()
