"""Two ways to answer the same pictures: how much one is better, and how sure that is."""

import math
from dataclasses import dataclass

import numpy as np

Z = 1.959964  # of the normal distribution: 95 % lie between -Z and Z


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

    The interval is the adjusted Wald one for paired shares (Agresti & Min 2005, section 2.3: half a
    picture is added to each of the four outcomes): only pictures that change sides tell anything,
    so it is much narrower than two intervals side by side, and never of width 0.
    Raises `ValueError` where the two are not of the same pictures.
    """
    before, after = np.asarray(before, bool), np.asarray(after, bool)
    if before.shape != after.shape or before.ndim != 1 or not len(before):
        raise ValueError(f"right answers {before.shape} and {after.shape} are not of one (N,)")
    N = len(before)
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    middle = (won - lost) / (N + 2)
    spread = math.sqrt(won + lost + 1 - (won - lost) ** 2 / (N + 2)) / (N + 2)
    low, high = max(middle - Z * spread, -1.0), min(middle + Z * spread, 1.0)
    return Change(float(before.mean()), float(after.mean()), low, high, N)
