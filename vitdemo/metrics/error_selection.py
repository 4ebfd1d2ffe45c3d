"""Selection of test images by type of error, class and confidence; pairs of confused classes.

Letters: M models, N images, C classes. All models have predicted the same images in the same order:
`probabilities` (M, N, C), `labels` (N,). Functions return indices of images, 0 to N-1, in the order
of display. In a tie, the lower index comes first.

- confidence: probability of the predicted class;
- margin: probability of the first class minus probability of the second class;
- self-confidence: probability of the given label. A low value of all models may mean a wrong label.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.metrics import _divide, _largest_cells, check_predictions

# Type of images -> condition on the predictions of the chosen model and of the other models
IMAGE_FILTERS = {
    "errors": "the prediction is incorrect",
    "right": "the prediction is correct",
    "all": "all images",
    "only_right": "only this model's prediction is correct",
    "all_wrong": "the predictions of all models are incorrect",
    "label_errors": "possible label error: the mean prediction of all models contradicts the label",
}
# Order of images -> property of the first image
IMAGE_ORDERS = {
    "most_confident": "the highest confidence",
    "least_sure": "the smallest margin",
    "doubtful_label": "the lowest self-confidence, averaged over the models",
    "data_set": "the lowest index",
}


@dataclass(frozen=True)
class Filters:
    """Conditions on the images to show; an image must meet all of them.

    `true` and `predicted` are class indices, or None for any class. With `either_way`, the two
    classes may also be exchanged. `low` and `high` are the limits of the confidence, inclusive.
    """

    kind: str = "errors"
    true: int | None = None
    predicted: int | None = None
    either_way: bool = False
    low: float = 0.0
    high: float = 1.0
    order: str = "most_confident"


@dataclass(frozen=True)
class MutualConfusion:
    """Confusions between two classes, `first` < `second`.

    `first_as_second` counts the images of the first class that were predicted as the second.
    `second_as_first` counts the images in the other direction.
    """

    first: int
    second: int
    first_as_second: int
    second_as_first: int

    @property
    def count(self) -> int:
        return self.first_as_second + self.second_as_first


def check_model_predictions(probabilities: np.ndarray, labels: np.ndarray) -> None:
    """Raise ValueError if probabilities (M, N, C) or labels (N,) are not valid.

    The message contains the problem and the index of the model, counted from 0.
    """
    probabilities = np.asarray(probabilities)
    if probabilities.ndim != 3 or not len(probabilities):
        raise ValueError(f"probabilities must be (M, N, C), M 1 or more, not {probabilities.shape}")
    for number, model_probabilities in enumerate(probabilities):
        try:
            check_predictions(model_probabilities, labels)
        except ValueError as error:
            raise ValueError(f"model {number}: {error}") from error


def compute_margin(probabilities: np.ndarray) -> np.ndarray:
    """Return the margin (N,) of probabilities (N, C), or the only probability if C is 1."""
    top = np.sort(probabilities, axis=1)[:, -2:]  # (N, 2), or (N, 1)
    return top[:, -1] - top[:, 0] if top.shape[1] == 2 else top[:, 0]


def compute_self_confidence(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the probability of the given label, averaged over the models, (N,) float64."""
    confidence = probabilities[:, np.arange(len(labels)), labels]  # (M, N)
    return confidence.mean(axis=0, dtype=np.float64)


def find_label_errors(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the indices of possible label errors, lowest self-confidence first.

    The method is confident learning (Northcutt, Jiang & Chuang 2021, eq. 1 and 2) on the mean
    probabilities of the models. The threshold of a class is its mean probability on the images with
    this label. An image is a possible label error if, among the classes that reach their threshold,
    the most probable class is not the label. The models must not have been trained on these images.
    The label of such an image may still be correct.
    """
    mean = np.mean(probabilities, axis=0, dtype=np.float64)  # (M, N, C) -> (N, C)
    confidence = mean[np.arange(len(labels)), labels]  # (N,)
    c = mean.shape[1]
    support = np.bincount(labels, minlength=c)  # (C,)
    threshold = _divide(np.bincount(labels, weights=confidence, minlength=c), support)
    threshold[support == 0] = np.inf  # a class without images has no threshold
    candidates = np.where(mean >= threshold, mean, -1)  # (N, C)
    contradicts = (candidates.max(axis=1) >= 0) & (candidates.argmax(axis=1) != labels)
    indices = np.flatnonzero(contradicts)
    return indices[np.argsort(confidence[indices], kind="stable")]


def select_images(
    probabilities: np.ndarray, labels: np.ndarray, model: int, filters: Filters
) -> np.ndarray:
    """Return the indices of the images that pass the `filters` for one of the M models.

    Raises ValueError if the predictions, `model` or a value in `filters` are invalid.
    """
    check_model_predictions(probabilities, labels)
    if model not in range(len(probabilities)):
        raise ValueError(f"there is no model {model}: choose 0 to {len(probabilities) - 1}")
    _check_filters(filters, probabilities.shape[2])
    predicted = probabilities.argmax(axis=2)  # (M, N)
    confidence = probabilities[model].max(axis=1)  # (N,)
    passes = _kind_mask(filters.kind, probabilities, labels, predicted == labels, model)
    passes &= _class_mask(filters, labels, predicted[model])
    passes &= (confidence >= filters.low) & ((confidence <= filters.high) | (filters.high >= 1))
    indices = np.flatnonzero(passes)
    keys = _sort_keys(filters.order, probabilities, labels, model)
    return indices[np.argsort(keys[indices], kind="stable")]


def _check_filters(filters: Filters, c: int) -> None:
    for name, value, choices in (
        ("kind", filters.kind, IMAGE_FILTERS),
        ("order", filters.order, IMAGE_ORDERS),
    ):
        if value not in choices:
            raise ValueError(f"unknown {name} '{value}': choose {', '.join(choices)}")
    for name, value in (("true", filters.true), ("predicted", filters.predicted)):
        if value is not None and not 0 <= value < c:
            raise ValueError(f"there is no {name} class {value}: choose 0 to {c - 1}")
    if not 0 <= filters.low <= filters.high <= 1:
        raise ValueError(
            f"invalid confidence range {filters.low} to {filters.high}: it must be within 0 to 1"
        )


def _kind_mask(
    kind: str, probabilities: np.ndarray, labels: np.ndarray, correct: np.ndarray, model: int
) -> np.ndarray:
    """Return the mask (N,) of `IMAGE_FILTERS[kind]`; `correct` (M, N) marks correct predictions."""
    if kind == "label_errors":
        return np.isin(np.arange(len(labels)), find_label_errors(probabilities, labels))
    return {
        "errors": ~correct[model],
        "right": correct[model],
        "all": np.ones(len(labels), dtype=bool),
        "only_right": correct[model] & (correct.sum(axis=0) == 1),
        "all_wrong": ~correct.any(axis=0),
    }[kind]


def _class_mask(filters: Filters, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the mask (N,) of the images with the chosen true and predicted class."""

    def match(true: int | None, prediction: int | None) -> np.ndarray:
        is_true = (labels == true) | (true is None)
        return is_true & ((predicted == prediction) | (prediction is None))

    selected = match(filters.true, filters.predicted)
    return selected | match(filters.predicted, filters.true) if filters.either_way else selected


def _sort_keys(order: str, probabilities: np.ndarray, labels: np.ndarray, model: int) -> np.ndarray:
    """Return sort keys (N,); images with lower keys come first."""
    if order == "most_confident":
        return -probabilities[model].max(axis=1)
    if order == "least_sure":
        return compute_margin(probabilities[model])
    if order == "doubtful_label":
        return compute_self_confidence(probabilities, labels)
    return np.arange(len(labels))


def mutual_confusions(matrix: np.ndarray, limit: int) -> list[MutualConfusion]:
    """Return the `limit` pairs of classes with the most confusions in both directions.

    In a tie, the lower first class comes first, then the lower second class. Pairs without
    confusions are left out.
    """
    both = np.triu(matrix + matrix.T, k=1)  # (C, C)
    return [
        MutualConfusion(i, j, int(matrix[i, j]), int(matrix[j, i]))
        for i, j, _ in _largest_cells(both, limit)
    ]
