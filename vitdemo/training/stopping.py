"""Ending a training run after a step, and a clock that excludes suspended time."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Signal after which train.py stops, saves and evaluates the model; None: not on this system.
KEEP = getattr(signal, "SIGUSR1", None)
LOOK = 1.0  # seconds between two readings of the clock
HELD = 5.0  # a longer gap in seconds between two readings means that the process was suspended


def never() -> bool:
    return False


class Clock:
    """Clock of a training run that excludes the time in which it is suspended (SIGSTOP).

    The system does not report a suspension to the process. A background thread reads the time
    regularly, and a long gap between two readings shows that the process was suspended.
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
        """Detect suspensions from a background thread within this context."""
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
    """Callable for `Trainer.stop`: True after the signal `KEEP` or after `minutes` (0: never)."""

    def __init__(self, minutes: float = 0.0):
        self.asked = False
        self.minutes = minutes
        self.by(Clock())

    def by(self, clock: Clock) -> None:
        """Start counting the minutes now, with the trainer's clock."""
        self.clock, self.begun = clock, clock.seconds()

    def __call__(self) -> bool:
        worked = (self.clock.seconds() - self.begun) / 60
        return self.asked or 0 < self.minutes < worked

    def ask(self, number: int = 0, frame: object = None) -> None:
        self.asked = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Stop at the signal `KEEP` within this context."""
        if KEEP is None:
            yield
            return
        before = signal.signal(KEEP, self.ask)
        try:
            yield
        finally:
            signal.signal(KEEP, before)
