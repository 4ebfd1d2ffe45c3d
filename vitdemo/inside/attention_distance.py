"""Attention distances of the heads of all Vision Transformers.

Letters: L layers, H heads, P patches.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import attention
from vitdemo.attention import statistics
from vitdemo.data import Pictures
from vitdemo.errors import DataError, VitdemoError
from vitdemo.inside import numpy
from vitdemo.models import is_vision_transformer
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

PICTURES = 32
BATCH = 50  # images whose attention is in memory at a time


@dataclass(frozen=True, eq=False)
class Distances:
    """Attention distance of each head of `run`, (L, H), as a fraction of the image's side.

    The mean is over `pictures` images. `even` is the distance of a head with uniform attention.
    """

    run: Run
    heads: np.ndarray
    even: float
    pictures: int


def distances(
    workbench: Workbench, image: Image.Image, count: int = PICTURES
) -> tuple[list[Distances], list[str]]:
    """Return the distances of all Vision Transformers, and a message for each failed run.

    The mean is over `count` test images, or over `image` only if a run's dataset is not available.
    """
    found, problems = [], []
    for run in workbench.explained_runs():
        try:
            if is_vision_transformer(workbench.model(run)):
                found.append(distances_of(workbench, run, image, count))
        except VitdemoError as error:
            problems.append(str(error))
    return found, problems


def distances_of(
    workbench: Workbench, run: Run, image: Image.Image, count: int = PICTURES
) -> Distances:
    """Return the distances of one Vision Transformer, see `distances`. Raises `VitdemoError`."""
    model = workbench.model(run)
    grid = tuple(model.patch_embed.grid_size)
    P = grid[0] * grid[1]
    even = statistics.distance(torch.full((1, 1, P, P), 1 / P), grid, 0).item()
    try:
        sample = workbench.sample(run, count)
    except DataError:  # no test set with these classes: use the chosen image
        look = workbench.look(run, image)
        heads = statistics.distance(look.attention, grid, look.num_prefix_tokens)  # (L, H)
        return Distances(run, numpy(heads) / max(grid), even / max(grid), 1)
    key = (_sample_distances, run, workbench.source(), count)
    heads = workbench.cache.get_or_make(key, lambda: numpy(_sample_distances(model, run, sample)))
    return Distances(run, heads / max(grid), even / max(grid), len(sample))


@torch.inference_mode()
def _sample_distances(model: nn.Module, run: Run, sample: Pictures) -> Tensor:
    """Return the mean over the sample of each head's distance in patches, (L, H)."""
    device, total = next(model.parameters()).device, 0
    for images in sample.images.split(BATCH):
        traced = attention.trace(model, run.preprocessing(images.to(device))).attention
        far = statistics.distance(traced, model.patch_embed.grid_size, model.num_prefix_tokens)
        total = total + far.sum(dim=1)  # (L, B, H) -> (L, H)
    return total / len(sample)
