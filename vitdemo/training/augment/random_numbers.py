"""Random numbers from a given generator, on its device."""

import torch
from torch import Generator, Tensor


def draw_uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform random numbers from 0 to 1."""
    return torch.rand(shape, generator=generator, device=generator.device)


def draw_integers(top: int, shape: int | tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform random integers from 0 to `top` - 1."""
    shape = (shape,) if isinstance(shape, int) else shape
    return torch.randint(top, shape, generator=generator, device=generator.device)
