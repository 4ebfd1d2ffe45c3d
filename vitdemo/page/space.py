"""Support for Hugging Face Spaces on ZeroGPU, where a GPU is borrowed for single function calls."""

from collections.abc import Callable

import torch
from torch import nn

from vitdemo.analyses.latency import LATENCY_BATCH_SIZES, Latency, time_forward_passes

GPU_SECONDS = 10  # seconds per model; a user has two minutes of GPU time per day


def gpu_function(function: Callable, seconds: int) -> Callable:
    """Wrap `function` to run in a separate process that has a GPU for at most `seconds`.

    Arguments and result are pickled. The call raises an error if the user's GPU time is used up.
    """
    import spaces  # installed only on Spaces

    return spaces.GPU(duration=seconds)(function)


def measure_on_gpu(model: nn.Module, side: int) -> list[Latency]:
    """Measure the latency for each size in `LATENCY_BATCH_SIZES` on the GPU of this process."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return [
        time_forward_passes(model.to(device), side, batch, device) for batch in LATENCY_BATCH_SIZES
    ]
