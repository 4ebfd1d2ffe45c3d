"""Signals and time limits that end a training run after a step."""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

# Signal after which train.py stops, saves and evaluates the model; None if it does not exist.
FINISH_SIGNAL = getattr(signal, "SIGUSR1", None)
FINISH_SIGNALS = (FINISH_SIGNAL,) if FINISH_SIGNAL else ()
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
PAUSE_MESSAGE = "Stopping after this step. Press Ctrl-C again to stop immediately."


def never_stop() -> bool:
    return False


class Stopper:
    """Requests for `Trainer.stop` and `Trainer.pause`, from signals and a time limit in minutes.

    With `minutes` 0, there is no time limit. The time starts with `start_timer`.
    """

    def __init__(self, minutes: float = 0.0):
        self.minutes = minutes
        self.is_stop_requested = self.is_pause_requested = False
        self.start_timer()

    def start_timer(self) -> None:
        self.started = time.perf_counter()

    def should_stop(self) -> bool:
        elapsed = (time.perf_counter() - self.started) / 60
        return self.is_stop_requested or 0 < self.minutes < elapsed

    def should_pause(self) -> bool:
        return self.is_pause_requested

    def request_stop(self, number: int = 0, frame: object = None) -> None:
        self.is_stop_requested = True

    def request_pause(self, number: int = 0, frame: object = None) -> None:
        """Request a pause; raises KeyboardInterrupt if a pause was requested before."""
        if self.is_pause_requested:
            raise KeyboardInterrupt
        self.is_pause_requested = True
        print(PAUSE_MESSAGE, file=sys.stderr)


@contextmanager
def handle_signals(numbers: Iterable[int], handler: Callable | int) -> Iterator[None]:
    """Call `handler` when one of the signals `numbers` arrives within this context."""
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
