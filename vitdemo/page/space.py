"""A Hugging Face Space on ZeroGPU: the page on the CPU, and a GPU by the second for what pays."""

from collections.abc import Callable

import torch
from torch import nn

from vitdemo.page.compare.models import BATCHES, Latency, timed

SECONDS = 10  # at most, of a visitor's two minutes a day, for one model


def gpu_function(function: Callable, seconds: int) -> Callable:
    """`function` in a process of its own that has a GPU for at most so many seconds. Arguments and
    value are pickled. An error in place of an answer where the visitor's time is over."""
    import spaces  # of a Space alone

    return spaces.GPU(duration=seconds)(function)


def times_on_gpu(model: nn.Module, side: int) -> list[Latency]:
    """Of each of `BATCHES`, on the GPU that is lent to this process."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return [timed(model.to(device), side, batch, device) for batch in BATCHES]
