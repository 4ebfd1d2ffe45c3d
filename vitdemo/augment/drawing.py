"""Random numbers from a generator of one's own, on its device."""

import torch
from torch import Generator, Tensor


def uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device)


def integers(top: int, shape: int | tuple[int, ...], generator: Generator) -> Tensor:
    shape = (shape,) if isinstance(shape, int) else shape
    return torch.randint(top, shape, generator=generator, device=generator.device)
