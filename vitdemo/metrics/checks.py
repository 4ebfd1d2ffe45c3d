"""Validation of probabilities and labels before metrics are computed."""

import numpy as np

SUM_TOLERANCE = 1e-3  # rounding to float16 changes the sum of a row by up to 5e-4


def check_predictions(probabilities: np.ndarray, labels: np.ndarray) -> None:
    """Raise ValueError if probabilities (N, C) or labels (N,) are not valid."""
    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    if probabilities.ndim != 2 or probabilities.dtype.kind not in "fiu":
        raise ValueError(
            f"probabilities must be numbers (N, C), not {describe_array(probabilities)}"
        )
    n, c = probabilities.shape
    if n == 0 or c == 0:
        raise ValueError(f"nothing to evaluate: {n} images and {c} classes")
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers of shape ({n},), not {describe_array(labels)}")
    _raise_if_any(~np.isfinite(probabilities).all(axis=1), "NaN or infinite probabilities")
    _raise_if_any((probabilities < 0).any(axis=1), "negative probabilities")
    wrong_sums = np.abs(probabilities.sum(axis=1, dtype=np.float64) - 1) > SUM_TOLERANCE
    _raise_if_any(wrong_sums, f"probabilities that do not sum to one within {SUM_TOLERANCE}")
    _raise_if_any((labels < 0) | (labels >= c), f"labels outside 0 to {c - 1}")


def describe_array(array: np.ndarray) -> str:
    """Describe the type and shape of an array for an error message."""
    return f"{array.dtype} of shape {array.shape}"


def _raise_if_any(invalid: np.ndarray, problem: str) -> None:
    """Raise ValueError with `problem` if the mask `invalid` (N,) is True for any row."""
    if invalid.any():
        location = f"the first is row {invalid.argmax()}, counted from 0"
        raise ValueError(f"{problem} in {invalid.sum()} of {len(invalid)} rows; {location}")
