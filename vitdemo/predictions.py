"""From a number to its pictures, of the runs of a `Workbench`: what models predicted.

Models are compared on the same pictures in the same order alone: runs whose evaluations have other
fingerprints, classes or labels never meet in one table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vitdemo.errors import DataError, RunError, VitdemoError
from vitdemo.metrics import confusion
from vitdemo.metrics.errors import KINDS, Filters, select
from vitdemo.metrics.tested_runs import sound_evaluation
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

NAMED = 3  # runs that a sentence names; of others it says how many


@dataclass(frozen=True, eq=False)
class Predictions:
    """What models predicted for the same N test pictures: `probabilities` (M, N, C), `labels` (N,).

    `left_out` says in sentences which runs were evaluated and are not among the M `runs`.
    """

    runs: tuple[Run, ...]
    labels: np.ndarray
    left_out: tuple[str, ...]

    @cached_property
    def probabilities(self) -> np.ndarray:
        return np.stack([run.evaluation.probabilities for run in self.runs])

    @property
    def classes(self) -> tuple[str, ...]:
        return self.runs[0].classes

    @property
    def names(self) -> list[str]:
        return [run.name for run in self.runs]

    def confusion(self, name: str) -> np.ndarray:
        """Counts (C, C) of one of the runs."""
        return confusion(self.probabilities[self.names.index(name)], self.labels)


@dataclass(frozen=True)
class Query:
    """What a person wants to see: pictures that pass `filters` with the answers of `run`.

    With `other`, those that pass with the answers of that run follow behind.
    """

    run: str
    filters: Filters
    other: str | None = None


@dataclass(frozen=True, eq=False)
class Selection:
    """The `numbers` (n,) of the chosen pictures, in order, and how many each of the two gave.

    Without another run `others` and `shared` are 0.
    """

    query: Query
    predictions: Predictions
    numbers: np.ndarray
    own: int
    others: int = 0
    shared: int = 0


def predictions(workbench: Workbench, name: str) -> Predictions:
    """The run `name` with all that were tested on the same pictures, as `evaluated_runs` has them.

    Raises `RunError` where the evaluation of `name` itself is missing or not sound.
    """
    main = workbench.run(name)
    runs, left_out = workbench.cache.of(_comparable, main, workbench.evaluated_runs())
    return Predictions(runs, main.evaluation.labels, left_out)


def _comparable(main: Run, evaluated: Sequence[Run]) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Those tested on the same pictures as `main`, and sentences about those that were not."""
    sound_evaluation(main)
    runs, left_out = [], []
    for run in evaluated:
        try:
            if run.name != main.name:
                _check_same(main, run)
            runs.append(run)
        except VitdemoError as error:
            left_out.append(f"{run.name} is not compared with {main.name}: {error}")
    return tuple(runs), tuple(left_out)


def every_model(workbench: Workbench, *names: str) -> Predictions:
    """What `predictions` has of the runs `names` and of those whose weights are here.

    These are "every model" where pictures are chosen: an ablation's runs, of which the figures
    alone are here, have no say unless one of them is asked for. Where that would leave one run
    alone, all have a say.
    """
    group = predictions(workbench, names[0])
    heard = tuple(run for run in group.runs if run.has_weights or run.name in names)
    if len(heard) in (1, len(group.runs)):
        return group
    unheard = [run.name for run in group.runs if run not in heard]
    more = f" and {len(unheard) - NAMED} more" if len(unheard) > NAMED else ""
    named = ", ".join(unheard[:NAMED]) + more
    words = f"Not counted among the models, for their weights are not here: {named}."
    return replace(group, runs=heard, left_out=(*group.left_out, words))


def _check_same(main: Run, run: Run) -> None:
    """Raises `RunError` unless both runs were tested on the same pictures in the same order."""
    if run.classes != main.classes:
        raise RunError("it knows other classes.")
    first, second = main.evaluation, sound_evaluation(run)
    if first.fingerprint != second.fingerprint or not np.array_equal(first.labels, second.labels):
        raise RunError("it was tested on other pictures, in another order or at another size.")


def find(workbench: Workbench, query: Query) -> Selection:
    """The pictures that a person wants to see. Raises `RunError` naming what is not there."""
    group = every_model(workbench, *_named(query))
    own = _select(group, query.run, query.filters)
    if query.other is None:
        return Selection(query, group, own, len(own))
    others = _select(group, query.other, query.filters)
    only = others[~np.isin(others, own)]
    numbers = np.concatenate([own, only])
    return Selection(query, group, numbers, len(own), len(others), len(others) - len(only))


def _select(group: Predictions, name: str, filters: Filters) -> np.ndarray:
    if name not in group.names:
        raise RunError(f"'{name}' was not tested on the same pictures.")
    try:
        return select(group.probabilities, group.labels, group.names.index(name), filters)
    except ValueError as error:
        raise RunError(f"These pictures cannot be chosen: {error}.") from error


def counts(workbench: Workbench, query: Query) -> dict[str, int]:
    """How many pictures of each kind pass the other filters. Raises `RunError`."""
    group = every_model(workbench, *_named(query))
    return {kind: len(_select(group, query.run, _of_kind(query.filters, kind))) for kind in KINDS}


def _named(query: Query) -> list[str]:
    return [query.run, *([query.other] if query.other else [])]


def _of_kind(filters: Filters, kind: str) -> Filters:
    return Filters(
        kind, filters.true, filters.predicted, filters.either_way, filters.low, filters.high
    )


def pictures(workbench: Workbench, run: Run, numbers: Sequence[int]) -> np.ndarray:
    """The test pictures `numbers` as `run` was tested on them, (n, S, S, 3) uint8.

    Raises `DataError` with the way out where the data set is not here, or is another one than that
    of the run's evaluation.
    """
    tests = workbench.test_set()
    wanted = run.evaluation
    another = DataError(
        f"The data set here is not the one that '{run.name}' was tested on: pass --data the folder "
        "that is."
    )
    if tests.classes != run.classes or len(tests) != len(wanted.labels):
        raise another
    found, fingerprint = tests.squares(run.spec.image_size)
    if fingerprint != wanted.fingerprint:
        raise another
    chosen = found.images[np.asarray(numbers, dtype=np.int64)]  # (n, 3, S, S)
    return chosen.permute(0, 2, 3, 1).contiguous().numpy()
