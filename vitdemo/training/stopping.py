"""Ending a training run after a step, and a clock that excludes suspended time."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Signal after which train.py stops, saves and evaluates the model; None on a system without it.
FINISH_SIGNAL = getattr(signal, "SIGUSR1", None)
CLOCK_INTERVAL = 1.0  # seconds between two readings of the clock
# A longer gap in seconds between two readings means that the process was suspended.
SUSPENDED_AFTER = 5.0


def never_stop() -> bool:
    return False


class TrainingClock:
    """Clock of a training run that excludes the time in which it is suspended (SIGSTOP).

    The system does not report a suspension to the process. A background thread reads the time
    regularly, and a long gap between two readings shows that the process was suspended.
    """

    def __init__(self):
        self.suspended_seconds, self.last_reading = 0.0, time.perf_counter()
        self.is_watching = False
        self.lock = threading.Lock()

    def seconds(self) -> float:
        with self.lock:
            now = time.perf_counter()
            if self.is_watching and now - self.last_reading > SUSPENDED_AFTER:
                self.suspended_seconds += now - self.last_reading
            self.last_reading = now
            return now - self.suspended_seconds

    @contextmanager
    def detect_suspension(self) -> Iterator[None]:
        """Detect suspensions from a background thread within this context."""
        is_over = threading.Event()

        def read_clock():
            while not is_over.wait(CLOCK_INTERVAL):
                self.seconds()

        self.seconds()
        self.is_watching = True
        threading.Thread(target=read_clock, name="clock", daemon=True).start()
        try:
            yield
        finally:
            self.is_watching = False
            is_over.set()


class Stopper:
    """Callable for `Trainer.stop`: True after `FINISH_SIGNAL` or after `minutes` (0: never)."""

    def __init__(self, minutes: float = 0.0):
        self.is_stop_requested = False
        self.minutes = minutes
        self.attach_clock(TrainingClock())

    def attach_clock(self, clock: TrainingClock) -> None:
        """Use the trainer's `clock`, and count the minutes from now on."""
        self.clock, self.started = clock, clock.seconds()

    def __call__(self) -> bool:
        elapsed = (self.clock.seconds() - self.started) / 60
        return self.is_stop_requested or 0 < self.minutes < elapsed

    def request_stop(self, number: int = 0, frame: object = None) -> None:
        self.is_stop_requested = True

    @contextmanager
    def handle_signal(self) -> Iterator[None]:
        """Request a stop when `FINISH_SIGNAL` arrives within this context."""
        if FINISH_SIGNAL is None:
            yield
            return
        previous_handler = signal.signal(FINISH_SIGNAL, self.request_stop)
        try:
            yield
        finally:
            signal.signal(FINISH_SIGNAL, previous_handler)
