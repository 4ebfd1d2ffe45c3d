"""Selection of test images by the predictions of the runs in an `AppContext`.

Models are only compared on the same images in the same order: runs whose evaluations differ in
fingerprint, classes or labels are never compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vitdemo.context import AppContext
from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.metrics import confusion_matrix
from vitdemo.metrics.classification_report import validated_evaluation
from vitdemo.metrics.error_selection import IMAGE_FILTERS, Filters, select_images
from vitdemo.runs import Run

MAX_NAMED_RUNS = 3  # maximum number of runs listed in a sentence; others are counted


@dataclass(frozen=True, eq=False)
class ComparablePredictions:
    """Predictions of M runs for the same N test images: `probabilities` (M, N, C), `labels` (N,).

    `exclusion_messages` has a sentence for each evaluated run that is not among the `runs`.
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
        """Return the confusion matrix (C, C) of one of the runs."""
        return confusion_matrix(self.probabilities[self.names.index(name)], self.labels)


@dataclass(frozen=True)
class ImageQuery:
    """A query for images that pass `filters` with the predictions of `run`.

    With `other_run`, images that only pass with the predictions of that run are appended.
    """

    run: str
    filters: Filters
    other_run: str | None = None


@dataclass(frozen=True, eq=False)
class ImageSelection:
    """The `image_indices` (n,) of the selected images in order, and the number from each run.

    Without a second run, `other_count` and `shared_count` are 0.
    """

    query: ImageQuery
    predictions: ComparablePredictions
    image_indices: np.ndarray
    own_count: int
    other_count: int = 0
    shared_count: int = 0


def comparable_predictions(context: AppContext, name: str) -> ComparablePredictions:
    """Return the predictions of all runs tested on the same images as the run `name`.

    They are in the order of `evaluated_runs`. Raises `RunError` if the evaluation of `name` is
    missing or invalid.
    """
    reference = context.find_run(name)
    runs, messages = context.cache.call(_comparable_runs, reference, context.evaluated_runs())
    return ComparablePredictions(runs, reference.evaluation.labels, messages)


def _comparable_runs(
    reference: Run, evaluated: Sequence[Run]
) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Return the runs tested on the same images as `reference`, and sentences about the others."""
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

    These runs are "all models" when images are selected. Runs without weights, for example from
    an ablation, do not count unless they are in `names`. If only one run would remain, all count.
    """
    group = comparable_predictions(context, names[0])
    included = tuple(run for run in group.runs if run.has_weights or run.name in names)
    if len(included) in (1, len(group.runs)):
        return group
    excluded = [run.name for run in group.runs if run not in included]
    more = f" and {len(excluded) - MAX_NAMED_RUNS} more" if len(excluded) > MAX_NAMED_RUNS else ""
    names_text = ", ".join(excluded[:MAX_NAMED_RUNS]) + more
    message = f"Not included, because their weights are not available: {names_text}."
    return replace(group, runs=included, exclusion_messages=(*group.exclusion_messages, message))


def _check_same_images(reference: Run, run: Run) -> None:
    """Raise `RunError` unless both runs were tested on the same images in the same order."""
    if run.classes != reference.classes:
        raise RunError("it has different classes.")
    first, second = reference.evaluation, validated_evaluation(run)
    if first.fingerprint != second.fingerprint or not np.array_equal(first.labels, second.labels):
        raise RunError("it was tested on different images, or in a different order or size.")


def select_by_query(context: AppContext, query: ImageQuery) -> ImageSelection:
    """Select the images of a query. Raises `RunError` if a run was not tested on them."""
    group = available_predictions(context, *_query_runs(query))
    own = _select_for_run(group, query.run, query.filters)
    if query.other_run is None:
        return ImageSelection(query, group, own, len(own))
    others = _select_for_run(group, query.other_run, query.filters)
    rest = others[~np.isin(others, own)]
    indices = np.concatenate([own, rest])
    return ImageSelection(query, group, indices, len(own), len(others), len(others) - len(rest))


def _select_for_run(group: ComparablePredictions, name: str, filters: Filters) -> np.ndarray:
    if name not in group.names:
        raise RunError(f"'{name}' was not tested on the same images. Choose another model.")
    try:
        return select_images(group.probabilities, group.labels, group.names.index(name), filters)
    except ValueError as error:
        raise RunError(f"The filters are invalid: {error}.") from error


def count_kinds(context: AppContext, query: ImageQuery) -> dict[str, int]:
    """Count the images of each kind that pass the other filters. Raises `RunError`."""
    group = available_predictions(context, *_query_runs(query))
    return {
        kind: len(_select_for_run(group, query.run, _filters_of_kind(query.filters, kind)))
        for kind in IMAGE_FILTERS
    }


def _query_runs(query: ImageQuery) -> list[str]:
    return [query.run, *([query.other_run] if query.other_run else [])]


def _filters_of_kind(filters: Filters, kind: str) -> Filters:
    return Filters(
        kind, filters.true, filters.predicted, filters.either_way, filters.low, filters.high
    )


def load_test_images(context: AppContext, run: Run, image_indices: Sequence[int]) -> np.ndarray:
    """Return the test images `image_indices` at the size of `run`, (n, S, S, 3) uint8.

    Raises `DataError` if the dataset is not available, or is not the one of the run's evaluation.
    """
    tests = context.test_set()
    evaluation = run.evaluation
    mismatch = DataError(
        f"'{run.name}' was tested on a different dataset. Pass the folder of that dataset with "
        "--data."
    )
    if tests.classes != run.classes or len(tests) != len(evaluation.labels):
        raise mismatch
    samples, fingerprint = tests.load_squares(run.spec.image_size)
    if fingerprint != evaluation.fingerprint:
        raise mismatch
    images = samples.images[np.asarray(image_indices, dtype=np.int64)]  # (n, 3, S, S)
    return images.permute(0, 2, 3, 1).contiguous().numpy()
