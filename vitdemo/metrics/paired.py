"""Two models on the same test pictures: is the one better, or was it luck?

McNemar's test (1947) looks at the pictures on which exactly one of the two is right. If neither
model is better, each such picture falls to either side like a coin, so the count of one side is
binomial with a half: p is the chance of a split at least as uneven (exact, two-sided). Pictures
that both get right or both get wrong say nothing of the difference.

With many tests beside each other, one in twenty calls chance a difference: `holm` corrects for all
that are shown together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from vitdemo.metrics import WORDS, check
from vitdemo.metrics.intervals import difference_interval

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class McNemar:
    """Of `n` pictures, those that both models, only the first or only the second predict rightly.

    `p` is NaN where there are no pictures.
    """

    both: int
    first_only: int
    second_only: int
    n: int
    p: float

    @property
    def first_accuracy(self) -> float:
        """0 to 1, as the second's; NaN without pictures."""
        return self._share(self.both + self.first_only)

    @property
    def second_accuracy(self) -> float:
        return self._share(self.both + self.second_only)

    @property
    def difference(self) -> float:
        """Accuracy of the first less that of the second, -1 to 1; NaN without pictures."""
        return self._share(self.first_only - self.second_only)

    @property
    def interval(self) -> np.ndarray:
        """The 95% interval (2,) of the difference; NaN without pictures."""
        if not self.n:
            return np.full(2, np.nan)
        return difference_interval(self.first_only, self.second_only, self.n)

    def _share(self, pictures: int) -> float:
        return pictures / self.n if self.n else float("nan")


def is_right(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether the most probable class is the true one, (N,) bool."""
    check(probabilities, labels)
    return np.argmax(probabilities, axis=1) == labels


def mcnemar(first: np.ndarray, second: np.ndarray) -> McNemar:
    """The test on two models' answers to the same pictures, each (N,) bool: right or not."""
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype != bool or second.dtype != bool or first.shape != second.shape:
        raise ValueError(
            f"answers must be two bool arrays of one length, not {first.dtype} {first.shape} and "
            f"{second.dtype} {second.shape}"
        )
    both, one, two = (
        int(each.sum()) for each in (first & second, first & ~second, second & ~first)
    )
    p = scipy.stats.binomtest(one, one + two).pvalue if one + two else 1.0
    return McNemar(both, one, two, len(first), float(p) if len(first) else float("nan"))


def mcnemar_by_class(
    first: np.ndarray, second: np.ndarray, labels: np.ndarray, classes: int
) -> list[McNemar]:
    """One test on the pictures of each class 0..`classes` - 1; `p` is not yet corrected."""
    labels = np.asarray(labels)
    return [mcnemar(first[labels == c], second[labels == c]) for c in range(classes)]


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's (1979) adjusted p-values; NaN stays NaN and counts as no test.

    Sorted, the smallest p times their number, the next times one less, and so on, never falling and
    at most 1: below 0.05 all of them together, the chance of any false alarm is below 0.05.
    """
    p = np.asarray(p, dtype=np.float64)
    tests = np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p[tests], kind="stable")]
    raised = p[order] * np.arange(len(order), 0, -1)
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1)
    return adjusted


def mcnemar_sentence(
    test: McNemar, first: str, second: str, name: str | None = None, p: float | None = None
) -> str:
    """The test in words: "vit-a is right on 312 cats that vit-b gets wrong, 120 the other way
    round: more than chance explains (p < 0.001)."

    `name` is the class of the pictures (None: all), `p` the corrected value in place of the test's
    own. Names come from folders: escape the sentence before it goes into HTML.
    """
    p = test.p if p is None else p
    if test.n == 0:
        return f"There are no {_pictures(name, 0)}: nothing to compare."
    if test.first_only + test.second_only == 0:
        return f"{first} and {second} are right on the same {_pictures(name, 2)}: no difference."
    verdict = "more than chance explains" if p < SIGNIFICANT else "could be chance"
    subject = f"{test.first_only:,} {_pictures(name, test.first_only)}"
    return (
        f"{first} is right on {subject} that {second} gets wrong, {test.second_only:,} the other "
        f"way round: {verdict} ({p_words(p)})."
    )


def _pictures(name: str | None, count: int) -> str:
    """ "cats", "cat", 'pictures of "n0144"' or "pictures", as `count` asks."""
    if name in WORDS:
        article_and_one, many = WORDS[name]
        return article_and_one.split(" ", 1)[1] if count == 1 else many
    pictures = "picture" if count == 1 else "pictures"
    return pictures if name is None else f'{pictures} of "{name}"'


def p_words(p: float) -> str:
    """A p-value to two digits that carry something: "p = 0.31", "p < 0.001"."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
