"""A training that is asked to end after a step, and one that is held meanwhile."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# What asks train.py to finish its step, keep and test what there is; None: this system has none.
KEEP = getattr(signal, "SIGUSR1", None)
LOOK = 1.0  # seconds between two looks at the clock
HELD = 5.0  # seconds without a look, though it looks: the process was held


def never() -> bool:
    return False


class Clock:
    """The seconds that a training has worked: what passes while it is held (SIGSTOP) is left out.

    Nobody tells a process that it was held: it is seen by a thread that could not look at the time.
    """

    def __init__(self):
        self.held, self.last = 0.0, time.perf_counter()
        self.looks = False
        self.lock = threading.Lock()

    def seconds(self) -> float:
        with self.lock:
            now = time.perf_counter()
            if self.looks and now - self.last > HELD:
                self.held += now - self.last
            self.last = now
            return now - self.held

    @contextmanager
    def looking(self) -> Iterator[None]:
        """It sees, meanwhile, that the process is held."""
        left = threading.Event()

        def keep_looking():
            while not left.wait(LOOK):
                self.seconds()

        self.seconds()
        self.looks = True
        threading.Thread(target=keep_looking, name="clock", daemon=True).start()
        try:
            yield
        finally:
            self.looks = False
            left.set()


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
