"""Mean attention distance of each head of a Vision Transformer.

Letters: L layers, H heads, P patches.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import nn

from vitdemo.context import AppContext
from vitdemo.data import LabelledImages
from vitdemo.errors import DataError
from vitdemo.explain import forward_pass, statistics
from vitdemo.explain.checks import to_numpy
from vitdemo.runs import Run

NUM_DISTANCE_IMAGES = 32
DISTANCE_BATCH_SIZE = 50  # images per forward pass, to limit the memory for attention


@dataclass(frozen=True, eq=False)
class AttentionDistances:
    """Attention distances of one model, as fractions of the image side, averaged over images.

    `heads` (L, H) are the distances of the heads, averaged over `num_images` images. `uniform` is
    the distance of a head with uniform attention.
    """

    run: Run
    heads: np.ndarray
    uniform: float
    num_images: int


def compute_distances(context: AppContext, run: Run, image: Image.Image) -> AttentionDistances:
    """Return the attention distances of `run`'s Vision Transformer. Raises `VitdemoError`.

    The mean is over `NUM_DISTANCE_IMAGES` test images. Without the run's dataset, only `image` is
    used.
    """
    model = context.load_model(run)
    grid = tuple(model.patch_embed.grid_size)
    P = grid[0] * grid[1]
    even = statistics.mean_attention_distance(torch.full((1, 1, P, P), 1 / P), grid, 0).item()
    try:
        sample = context.sample_test_images(run, NUM_DISTANCE_IMAGES)
    except DataError:  # no test set has these classes, so only `image` is used
        heads, num_images = context.trace_image(run, image).distances, 1  # (L, H)
    else:
        key = (_sample_distances, run, context.open_dataset(), NUM_DISTANCE_IMAGES)
        compute = partial(_sample_distances, model, run, sample)
        heads, num_images = context.cache.get_or_compute(key, compute), len(sample)
    return AttentionDistances(run, heads / max(grid), even / max(grid), num_images)


@torch.inference_mode()
def _sample_distances(model: nn.Module, run: Run, sample: LabelledImages) -> np.ndarray:
    """Compute the attention distance (L, H) of each head in patches, averaged over `sample`."""
    device, total = next(model.parameters()).device, 0
    layout = model.patch_embed.grid_size, model.num_prefix_tokens
    for images in sample.images.split(DISTANCE_BATCH_SIZE):
        traced = forward_pass.trace(model, run.preprocessing(images.to(device)))
        far = statistics.mean_attention_distance(traced.attention, *layout)
        total = total + far.sum(dim=1)  # (L, B, H) -> (L, H)
    return to_numpy(total / len(sample))
