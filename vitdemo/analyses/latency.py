"""Latency of forward passes on this machine.

measure_run_latency(context, context.find_run("vit-scratch"), batch=32).milliseconds
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from vitdemo.context import AppContext
from vitdemo.runs import Run
from vitdemo.runs.provenance import device_name

LATENCY_BATCH_SIZES = (1, 32)
WARM_UP_PASSES = 3  # untimed passes: the first passes load code and fill caches


@dataclass(frozen=True)
class Latency:
    """Median and quartiles of a forward pass of `batch` images on `device`, in milliseconds."""

    batch: int
    milliseconds: float
    low: float
    high: float
    passes: int
    device: str


def record_latencies(context: AppContext, run: Run, latencies: Sequence[Latency]) -> None:
    """Cache the latencies of `run`, one per batch size; they replace earlier measurements."""
    context.cache.put((record_latencies, run), tuple(latencies))


def find_latencies(context: AppContext, runs: Sequence[Run]) -> dict[str, tuple[Latency, ...]]:
    """Return the cached latencies of `runs` by name, without the runs that were not measured."""
    found = {run.name: context.cache.get((record_latencies, run)) for run in runs}
    return {name: latencies for name, latencies in found.items() if latencies}


def measure_run_latency(context: AppContext, run: Run, batch: int, seconds: float = 1.0) -> Latency:
    """Measure the latency of a run on the page's device.

    Other requests may use the device at the same time, which increases the latency. Raises
    `RunError` if the run has no weights.
    """
    model = context.load_model(run)
    with context.divide_cores():
        return time_forward_passes(model, run.preprocessing.size, batch, context.device, seconds)


@torch.inference_mode()
def time_forward_passes(
    model: nn.Module, side: int, batch: int, device: torch.device, seconds: float = 1.0
) -> Latency:
    """Measure the time of forward passes of `batch` random images after a warm-up.

    At least 5 passes are measured, for at least `seconds`. The time of preprocessing is not
    included. `model` must be on `device`.
    """
    pixels, times = torch.randn(batch, 3, side, side, device=device), []
    for _ in range(WARM_UP_PASSES):
        model(pixels)
    while len(times) < 5 or sum(times) < seconds:
        _synchronize(device)
        started = time.perf_counter()
        model(pixels)
        _synchronize(device)
        times.append(time.perf_counter() - started)
    low, median, high = (float(1000 * t) for t in np.percentile(times, [25, 50, 75]))
    return Latency(batch, median, low, high, len(times), device_name(device))


def _synchronize(device: torch.device) -> None:
    """Wait until all GPU operations have finished, since GPU calls return immediately."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
