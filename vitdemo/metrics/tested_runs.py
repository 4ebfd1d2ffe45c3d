"""Every metric of a run by class, with its interval; its curves; and two runs beside each other.

    table = class_table(read_run("assets/runs/vit-scratch"))
    table.columns["f1"], table.intervals["f1"]  # (C,), (2, C)
    paired_test(one_run, another).sentence()

All of it is worked out from `evaluation.npz`. Letters: N pictures, C classes.
"""

import math
from dataclasses import dataclass

import numpy as np

from vitdemo.errors import RunError
from vitdemo.metrics import (
    DASH,
    accuracy,
    check,
    confusion,
    curves,
    intervals,
    paired,
    per_class,
)
from vitdemo.metrics.curves import RankingCurve
from vitdemo.metrics.paired import McNemar
from vitdemo.runs import Evaluation, Run

TOP = (1, 2, 3, 5)  # the k of top-k accuracy, where there are more classes than that
TITLES = {
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
    "average_precision": "Average precision",
    "roc_auc": "ROC-AUC",
}
COLUMNS = tuple(TITLES)


@dataclass(frozen=True)
class TopK:
    """`share` (0 to 1) of the pictures have their true class among the `k` most probable."""

    k: int
    share: float
    interval: np.ndarray  # (2,)


@dataclass(frozen=True, eq=False)
class ClassTable:
    """One run on its test set. `columns` and the means have the names of `COLUMNS`.

    Intervals are there for precision, recall and F1; those of the ranking metrics take longer and
    come with `ranking`, class by class.
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
    top: tuple[TopK, ...]

    def interval(self, column: str, c: int) -> np.ndarray | None:
        """(2,) of class `c`, or None where `column` has no intervals here."""
        return self.intervals[column][:, c] if column in self.intervals else None

    @property
    def worst_first(self) -> list[int]:
        """Classes by F1, from the worst; those without pictures come last."""
        return [int(c) for c in np.argsort(self.columns["f1"], kind="stable")]  # NaN sorts last


@dataclass(frozen=True, eq=False)
class Ranking:
    """How one run's probability of the class `name` ranks the test pictures.

    `roc` is None where all pictures are of the class.
    """

    run: str
    name: str
    roc: RankingCurve | None
    precision_recall: RankingCurve
    area_interval: np.ndarray  # (2,) of the ROC AUC
    precision_interval: np.ndarray  # (2,) of the average precision


@dataclass(frozen=True, eq=False)
class PairedTest:
    """Two runs on the same test pictures: over all, and over the pictures of each class.

    `adjusted_overall` and `adjusted` (C,) are the p-values of `overall` and `by_class` after Holm's
    correction for all of them together, which stand beside each other.
    """

    first: str
    second: str
    classes: tuple[str, ...]
    overall: McNemar
    by_class: tuple[McNemar, ...]
    adjusted_overall: float
    adjusted: np.ndarray

    @property
    def comparisons(self) -> int:
        """How many tests were corrected for: all pictures, and each class that has some."""
        return 1 + int((~np.isnan(self.adjusted)).sum())

    def sentence(self, c: int | None = None) -> str:
        """McNemar's test in words, with its corrected p: of class `c`, or of all pictures."""
        if c is None:
            p = self.adjusted_overall
            return paired.mcnemar_sentence(self.overall, self.first, self.second, p=p)
        name, p = self.classes[c], float(self.adjusted[c])
        return paired.mcnemar_sentence(self.by_class[c], self.first, self.second, name, p)


def sound_evaluation(run: Run) -> Evaluation:
    """The run's evaluation, checked. Raises `RunError` saying what is wrong with it."""
    found = run.evaluation
    try:
        check(found.probabilities, found.labels)
    except ValueError as error:
        raise RunError(f"The evaluation of '{run.name}' cannot be used: {error}.") from error
    return found


def three_decimals(value: float) -> str:
    """Three decimals, or a dash; nearly 1 is not rounded to 1."""
    if math.isnan(value):
        return DASH
    return "> 0.999" if 0.9995 <= value < 1 else f"{value:.3f}"


def class_table(run: Run) -> ClassTable:
    """All metrics of the `run`. Raises `RunError` without a sound evaluation."""
    found = sound_evaluation(run)
    probabilities, labels = found.probabilities, found.labels
    metrics = per_class(probabilities, labels)
    spread = intervals.bootstrap(confusion(probabilities, labels))
    columns = {name: getattr(metrics, name) for name in COLUMNS if name != "average_precision"}
    columns["average_precision"] = curves.average_precision(probabilities, labels)
    return ClassTable(
        run=run.name,
        classes=run.classes,
        support=metrics.support,
        columns=columns,
        intervals={name: getattr(spread, name) for name in ("precision", "recall", "f1")},
        macro={name: curves.macro_mean(column) for name, column in columns.items()},
        weighted={
            name: curves.weighted_mean(column, metrics.support) for name, column in columns.items()
        },
        macro_intervals=spread.macro,
        weighted_intervals=spread.weighted,
        accuracy=accuracy(probabilities, labels),
        accuracy_interval=spread.accuracy,
        top=tuple(top_k(found, k) for k in TOP if k < max(len(run.classes), 2)),
    )


def top_k(found: Evaluation, k: int) -> TopK:
    share = curves.top_k_accuracy(found.probabilities, found.labels, k)
    n = len(found.labels)
    return TopK(k, share, intervals.wilson(round(share * n), n))


def ranking(run: Run, class_name: str) -> Ranking:
    """Curves of one class of the `run`, with the intervals of their areas.

    Raises `RunError` where the run does not know the class or was tested on no picture of it.
    """
    if class_name not in run.classes:
        known = ", ".join(run.classes)
        raise RunError(f"'{run.name}' knows no class '{class_name}': it has {known}.")
    c = run.classes.index(class_name)
    found = sound_evaluation(run)
    probabilities, labels = found.probabilities, found.labels
    if not (labels == c).any():
        raise RunError(f"'{run.name}' was tested on no picture of '{run.classes[c]}': no curve.")
    everything = bool((labels == c).all())
    return Ranking(
        run.name,
        run.classes[c],
        None if everything else curves.roc(probabilities, labels, c),
        curves.precision_recall(probabilities, labels, c),
        *intervals.ranking_interval(probabilities, labels, c),
    )


def paired_test(first: Run, second: Run) -> PairedTest:
    """McNemar's test of two runs. Raises `RunError` where their test pictures are not the same."""
    one, two = sound_evaluation(first), sound_evaluation(second)
    same = one.fingerprint == two.fingerprint and np.array_equal(one.labels, two.labels)
    if not same or first.classes != second.classes:
        raise RunError(
            f"'{first.name}' and '{second.name}' were tested on different pictures: they cannot be "
            "compared picture by picture."
        )
    right = (
        paired.is_right(one.probabilities, one.labels),
        paired.is_right(two.probabilities, two.labels),
    )
    tests = paired.mcnemar_by_class(*right, one.labels, len(first.classes))
    overall = paired.mcnemar(*right)
    whole, *adjusted = paired.holm([overall.p, *(test.p for test in tests)])
    return PairedTest(
        first.name,
        second.name,
        first.classes,
        overall,
        tuple(tests),
        float(whole),
        np.array(adjusted),
    )
