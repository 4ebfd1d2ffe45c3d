"""A training that is asked to end after a step, and one that is held meanwhile."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

# What asks train.py to finish its step, keep and test what there is; None: this system has none.
KEEP = getattr(signal, "SIGUSR1", None)
HELD = 5.0  # seconds of a step, beside ten times the longest before it: the process was held


def never() -> bool:
    return False


class Clock:
    """The seconds that a training has worked: what passes while it is held (SIGSTOP) is left out.

    Nobody tells a process that it was held: it is seen by a step that takes far too long.
    """

    def __init__(self):
        self.held = 0.0
        self.begin()

    def begin(self) -> None:
        """The steps of an epoch begin."""
        self.last, self.longest = time.perf_counter(), 0.0

    def seconds(self) -> float:
        return time.perf_counter() - self.held

    def after_step(self) -> float:
        """`seconds`, after each step."""
        now = time.perf_counter()
        took = now - self.last
        if self.longest and took > HELD + 10 * self.longest:
            self.held += took - self.longest
        else:
            self.longest = max(self.longest, took)
        self.last = now
        return now - self.held


class Stopper:
    """`Trainer.stop`: whether the signal `KEEP` came, or `minutes` (0: no end) of work are over."""

    def __init__(self, minutes: float = 0.0):
        self.asked = False
        self.minutes = minutes
        self.by(Clock())

    def by(self, clock: Clock) -> None:
        """The minutes begin now, on the trainer's clock."""
        self.clock, self.begun = clock, clock.seconds()

    def __call__(self) -> bool:
        worked = (self.clock.seconds() - self.begun) / 60
        return self.asked or 0 < self.minutes < worked

    def ask(self, number: int = 0, frame: object = None) -> None:
        self.asked = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The signal asks, meanwhile."""
        if KEEP is None:
            yield
            return
        before = signal.signal(KEEP, self.ask)
        try:
            yield
        finally:
            signal.signal(KEEP, before)
