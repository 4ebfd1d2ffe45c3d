"""Two ways to answer the same pictures: how much one is better, and how sure that is."""

from dataclasses import dataclass

import numpy as np

from vitdemo.metrics.intervals import difference_interval


@dataclass(frozen=True)
class Change:
    """Accuracy (0 to 1) `before` and `after` on the same pictures.

    `low` to `high` is the 95 % interval of the change, after - before.
    """

    before: float
    after: float
    low: float
    high: float
    pictures: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out no change at all."""
        return not self.low <= 0 <= self.high


def accuracy_change(before: np.ndarray, after: np.ndarray) -> Change:
    """What is right `before` and `after`, (N,) bool each, picture by picture.

    Only pictures that change sides tell anything of the change, so its interval
    (`intervals.difference_interval`) is much narrower than two intervals side by side.
    Raises `ValueError` where the two are not of the same pictures.
    """
    before, after = np.asarray(before, bool), np.asarray(after, bool)
    if before.shape != after.shape or before.ndim != 1 or not len(before):
        raise ValueError(f"right answers {before.shape} and {after.shape} are not of one (N,)")
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    low, high = map(float, difference_interval(won, lost, len(before)))
    return Change(float(before.mean()), float(after.mean()), low, high, len(before))
