"""From a number to its pictures: which test pictures stand behind a cell, a filter, a pair.

Letters: M models, N pictures, C classes. The models have answered the same pictures in the same
order: `probabilities` (M, N, C), `labels` (N,). What comes back are numbers of pictures, 0 to N-1,
in the order in which to show them; where two are equal, the lower number comes first.

- confidence: the probability of the predicted class;
- margin: the lead of its first class over its second. The least sure answer has the smallest;
- self-confidence: the probability of the given label. Low in every model, the label may be wrong.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.metrics import _ratio, _square, check

# what to show -> what it means, of one model among all
KINDS = {
    "errors": "the model is wrong",
    "right": "the model is right",
    "all": "every picture",
    "only_right": "this model is right, and every other one is wrong",
    "all_wrong": "every model is wrong",
    "label_errors": "the given label is doubtful: the models together contradict it",
}
# order -> what comes first
ORDERS = {
    "most_confident": "the highest confidence",
    "least_sure": "the smallest margin",
    "doubtful_label": "the lowest self-confidence, averaged over the models",
    "data_set": "the lowest number",
}
NORMALISATIONS = {"count": None, "true": 1, "predicted": 0}  # by -> the axis that adds up to 1


@dataclass(frozen=True)
class Filters:
    """Which pictures to show, of one model's answers; all of it must hold at once.

    `true` and `predicted` are classes, None for any. With `either_way` a picture also counts where
    the two are exchanged. `low` and `high` bound the confidence, both included.
    """

    kind: str = "errors"
    true: int | None = None
    predicted: int | None = None
    either_way: bool = False
    low: float = 0.0
    high: float = 1.0
    order: str = "most_confident"


@dataclass(frozen=True)
class Mutual:
    """Two classes, `first` < `second`, taken for each other: `there` first as second, `back` the
    other way round."""

    first: int
    second: int
    there: int
    back: int

    @property
    def count(self) -> int:
        return self.there + self.back


def check_models(probabilities: np.ndarray, labels: np.ndarray) -> None:
    """Raise ValueError unless (M, N, C) probabilities and (N,) labels are sound.

    It names the fault, and the model (counted from 0) where there are several.
    """
    probabilities = np.asarray(probabilities)
    if probabilities.ndim != 3 or not len(probabilities):
        raise ValueError(f"probabilities must be (M, N, C), M 1 or more, not {probabilities.shape}")
    for number, one in enumerate(probabilities):
        try:
            check(one, labels)
        except ValueError as error:
            raise ValueError(f"model {number}: {error}") from error


def margin(probabilities: np.ndarray) -> np.ndarray:
    """Lead of the first class over the second, (N, C) -> (N,); the whole where C is 1."""
    top = np.sort(probabilities, axis=1)[:, -2:]  # (N, 2), or (N, 1)
    return top[:, -1] - top[:, 0] if top.shape[1] == 2 else top[:, 0]


def self_confidence(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Probability of the given label, averaged over the models, (M, N, C) -> (N,) float64."""
    check_models(probabilities, labels)
    given = np.asarray(probabilities)[:, np.arange(len(labels)), labels]  # (M, N)
    return given.mean(axis=0, dtype=np.float64)


def probable_label_errors(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The pictures whose label the models together contradict, (M, N, C) -> numbers, most so first.

    Confident learning (Northcutt, Jiang & Chuang 2021, eq. 1 and 2, ranked by self-confidence), on
    the mean of the models: a class is likely for a picture where its probability reaches the mean
    that it has on the pictures labelled so; a picture whose likeliest such class is another than
    its label is off the diagonal of the confident joint. It needs models that were not trained on
    these pictures. A finding is a picture to look at, not a proof.
    """
    check_models(probabilities, labels)
    labels = np.asarray(labels)
    mean = np.mean(probabilities, axis=0, dtype=np.float64)  # (M, N, C) -> (N, C)
    given = mean[np.arange(len(labels)), labels]  # (N,)
    c = mean.shape[1]
    support = np.bincount(labels, minlength=c)  # (C,)
    threshold = _ratio(np.bincount(labels, weights=given, minlength=c), support)
    threshold[support == 0] = np.inf  # without a picture of it, no probability is usual
    likely = np.where(mean >= threshold, mean, -1)  # (N, C)
    elsewhere = (likely.max(axis=1) >= 0) & (likely.argmax(axis=1) != labels)
    found = np.flatnonzero(elsewhere)
    return found[np.argsort(given[found], kind="stable")]


def select(
    probabilities: np.ndarray, labels: np.ndarray, model: int, filters: Filters
) -> np.ndarray:
    """The pictures that pass `filters`, in their order, of (M, N, C) and one of the M models.

    Raises ValueError naming what `filters` or `model` has that does not exist.
    """
    check_models(probabilities, labels)
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    m, _, c = probabilities.shape
    if not 0 <= model < m:
        raise ValueError(f"there is no model {model}: choose 0 to {m - 1}")
    _check_filters(filters, c)
    predicted = probabilities.argmax(axis=2)  # (M, N)
    confidence = probabilities[model].max(axis=1)  # (N,)
    passes = _of_kind(filters.kind, probabilities, labels, predicted == labels, model)
    passes &= _of_classes(filters, labels, predicted[model])
    passes &= (confidence >= filters.low) & ((confidence <= filters.high) | (filters.high >= 1))
    numbers = np.flatnonzero(passes)
    first = _first(filters.order, probabilities, labels, model)
    return numbers[np.argsort(first[numbers], kind="stable")]


def _check_filters(filters: Filters, c: int) -> None:
    for name, value, choices in (
        ("kind", filters.kind, KINDS),
        ("order", filters.order, ORDERS),
    ):
        if value not in choices:
            raise ValueError(f"unknown {name} '{value}': choose {', '.join(choices)}")
    for name, value in (("true", filters.true), ("predicted", filters.predicted)):
        if value is not None and not 0 <= value < c:
            raise ValueError(f"there is no {name} class {value}: choose 0 to {c - 1}")
    if not 0 <= filters.low <= filters.high <= 1:
        raise ValueError(f"no confidence is between {filters.low} and {filters.high}")


def _of_kind(
    kind: str, probabilities: np.ndarray, labels: np.ndarray, right: np.ndarray, model: int
) -> np.ndarray:
    """Mask (N,) of the pictures of a kind; `right` (M, N) says which answers are."""
    if kind == "label_errors":
        found = np.zeros(len(labels), dtype=bool)
        found[probable_label_errors(probabilities, labels)] = True
        return found
    return {
        "errors": ~right[model],
        "right": right[model],
        "all": np.ones(len(labels), dtype=bool),
        "only_right": right[model] & (right.sum(axis=0) == 1),
        "all_wrong": ~right.any(axis=0),
    }[kind]


def _of_classes(filters: Filters, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Mask (N,) of the pictures of the true and predicted class, or the two exchanged."""

    def between(true: int | None, answer: int | None) -> np.ndarray:
        wanted = np.ones(len(labels), dtype=bool)
        if true is not None:
            wanted &= labels == true
        if answer is not None:
            wanted &= predicted == answer
        return wanted

    found = between(filters.true, filters.predicted)
    return found | between(filters.predicted, filters.true) if filters.either_way else found


def _first(order: str, probabilities: np.ndarray, labels: np.ndarray, model: int) -> np.ndarray:
    """A key (N,): pictures with a lower one come first."""
    if order == "most_confident":
        return -probabilities[model].max(axis=1)
    if order == "least_sure":
        return margin(probabilities[model])
    if order == "doubtful_label":
        return self_confidence(probabilities, labels)
    return np.arange(len(labels))


def cells(matrix: np.ndarray, by: str = "count") -> np.ndarray:
    """Confusion counts (C, C) as they are, or as shares of the "true" or the "predicted" class,
    float64; of a class without pictures, or never predicted, they are 0."""
    if by not in NORMALISATIONS:
        raise ValueError(f"unknown normalisation '{by}': choose {', '.join(NORMALISATIONS)}")
    matrix, axis = _square(matrix), NORMALISATIONS[by]
    return matrix if axis is None else _ratio(matrix, matrix.sum(axis=axis, keepdims=True))


def difference(first: np.ndarray, second: np.ndarray, by: str = "count") -> np.ndarray:
    """`cells` of the first model's counts (C, C) less those of the second's.

    Both must be of the same pictures, so their row sums are the same: ValueError where not. Rows
    of the result add to 0 by "count" and "true".
    """
    first, second = _square(first), _square(second)
    if first.shape != second.shape or (first.sum(axis=1) != second.sum(axis=1)).any():
        raise ValueError("two matrices of different pictures have no difference")
    return cells(first, by) - cells(second, by)


def mutual_pairs(matrix: np.ndarray, limit: int = 10) -> list[Mutual]:
    """The `limit` pairs of classes most often taken for each other, of (C, C) counts.

    On a tie the lower first class, then the lower second. Pairs without a picture are left out.
    """
    if limit < 0:
        raise ValueError(f"limit must be 0 or more, not {limit}")
    matrix = _square(matrix)
    both = np.triu(matrix + matrix.T, k=1)  # (C, C)
    first, second = np.nonzero(both)  # row-major order
    order = np.argsort(-both[first, second], kind="stable")[:limit]
    pairs = [(int(first[i]), int(second[i])) for i in order]
    return [Mutual(i, j, int(matrix[i, j]), int(matrix[j, i])) for i, j in pairs]
