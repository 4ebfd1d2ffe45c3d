"""Paired significance tests of two models on the same test images.

McNemar's test (1947) uses the images on which exactly one of the two models is correct. If both
models are equally good, the first model is correct on such an image with probability 0.5. The
counts are then binomial, and p is the probability of counts that differ at least as much (exact,
two-sided). Images on which both are correct or both are incorrect do not affect the test.

Among many tests of equal models, one in twenty is significant by chance. `holm` therefore corrects
for all tests that are shown together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from vitdemo.metrics import CIFAR10_NOUNS, check_predictions
from vitdemo.metrics.intervals import difference_interval

SIGNIFICANCE_THRESHOLD = 0.05


@dataclass(frozen=True)
class McNemarResult:
    """Result of McNemar's test: numbers of images that both models or only one classify correctly.

    `n` is the number of all images. `p` is NaN if `n` is 0.
    """

    both: int
    first_only: int
    second_only: int
    n: int
    p: float

    @property
    def first_accuracy(self) -> float:
        """Accuracy of the first model, 0 to 1; NaN without images."""
        return self._fraction(self.both + self.first_only)

    @property
    def second_accuracy(self) -> float:
        return self._fraction(self.both + self.second_only)

    @property
    def difference(self) -> float:
        """Accuracy of the first model minus accuracy of the second, -1 to 1; NaN without images."""
        return self._fraction(self.first_only - self.second_only)

    @property
    def interval(self) -> np.ndarray:
        """95% confidence interval (2,) of the difference; NaN without images."""
        return difference_interval(self.first_only, self.second_only, self.n)

    def _fraction(self, count: int) -> float:
        return count / self.n if self.n else float("nan")


def is_correct(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return a mask (N,) of the images whose most probable class is the true class."""
    check_predictions(probabilities, labels)
    return np.argmax(probabilities, axis=1) == labels


def mcnemar(first: np.ndarray, second: np.ndarray) -> McNemarResult:
    """Test two models on the same images: each array (N,) bool is True for a correct prediction."""
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype != bool or second.dtype != bool or first.shape != second.shape:
        raise ValueError(
            f"both must be bool arrays of the same length, not {first.dtype} {first.shape} and "
            f"{second.dtype} {second.shape}"
        )
    both, b, c = (int(mask.sum()) for mask in (first & second, first & ~second, second & ~first))
    # `binomtest` takes eight times as long, because it supports probabilities other than 0.5.
    p = min(2 * float(scipy.stats.binom.cdf(min(b, c), b + c, 0.5)), 1.0)
    return McNemarResult(both, b, c, len(first), p if len(first) else float("nan"))


def holm(p: Sequence[float]) -> np.ndarray:
    """Return Holm's (1979) adjusted p-values; NaN remains NaN and is not counted as a test.

    The smallest of n values is multiplied by n, the next by n - 1, and so on. Adjusted values never
    decrease in this order, and are at most 1. Rejecting below 0.05 limits the probability of a
    false alarm to 0.05.
    """
    p = np.asarray(p, dtype=np.float64)
    tests = np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p[tests], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted


def describe_mcnemar(
    test: McNemarResult, first: str, second: str, name: str | None = None, p: float | None = None
) -> str:
    """Describe the result of McNemar's test in a sentence.

    "Only vit-a is correct on 312 cats, and only vit-b is correct on 120. The difference is
    significant (p < 0.001)." `name` is the class of the images (None: all); `p` is the corrected
    p-value (default: the test's p-value). Names come from folders, so escape the sentence before
    using it in HTML.
    """
    p = test.p if p is None else p
    if test.n == 0:
        return f"There are no {name_images(name, 0)}, so there is nothing to compare."
    if test.first_only + test.second_only == 0:
        return (
            f"{first} and {second} are correct on the same {name_images(name, 2)}, so there is no "
            "difference."
        )
    verdict = "significant" if p < SIGNIFICANCE_THRESHOLD else "not significant"
    relation = "" if p < 0.001 else "= "
    subject = f"{test.first_only:,} {name_images(name, test.first_only)}"
    return (
        f"Only {first} is correct on {subject}, and only {second} is correct on "
        f"{test.second_only:,}. The difference is {verdict} (p {relation}{format_p_value(p)})."
    )


def name_images(name: str | None, count: int) -> str:
    """Return a noun for `count` images of a class: "cats", "cat", 'images of "n0144"', "images"."""
    if name in CIFAR10_NOUNS:
        singular, plural = CIFAR10_NOUNS[name]
        return singular.split(" ", 1)[1] if count == 1 else plural
    images = "image" if count == 1 else "images"
    return images if name is None else f'{images} of "{name}"'


def format_p_value(p: float) -> str:
    """Format a p-value with two or three decimals: "0.31", "0.012", "< 0.001"."""
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
