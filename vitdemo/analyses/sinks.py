"""Attention sinks of one image, and how much their content differs between the example photos.

    sinks = compute_sinks(context, run, image)
    sinks.weights, sinks.norm_ratios, sinks.similarities.sinks  # each (L, H)

Letters: L layers, H heads, N tokens.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo.context import AppContext
from vitdemo.data.photos import load_example_squares
from vitdemo.explain.checks import require_attention, to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.qkv import compute_layer_qkv
from vitdemo.explain.sinks import Sinks, compare_images, compute_mean_directions, find_sinks
from vitdemo.runs import Run


@dataclass(frozen=True)
class PhotoSimilarities:
    """Mean cosine similarity of value vectors between `count` photos, for each head.

    `sinks` (L, H) compares the most attended patches, and `patches` (L, H) all pairs of patches.
    Both are NaN if fewer than two photos are installed.
    """

    count: int
    sinks: np.ndarray
    patches: np.ndarray


@dataclass(frozen=True)
class SinkSummary:
    """The most attended patch of each head for one image: see `vitdemo.explain.sinks.Sinks`.

    `positions` (L, H, 2) are rows and columns, from 1. `weights` and `norm_ratios` are (L, H).
    """

    positions: np.ndarray
    weights: np.ndarray
    norm_ratios: np.ndarray
    similarities: PhotoSimilarities


def compute_sinks(context: AppContext, run: Run, image: Image.Image) -> SinkSummary:
    """Find the most attended patch of each head for `image`.

    Raises `RunError` for a model without attention, or with an unsupported attention.
    """
    similarities = compute_photo_similarities(context, run)
    trace = context.trace_image(run, image)
    layers, _ = _find_layer_sinks(context.load_model(run), trace)
    patches, weights, ratios = (np.stack([to_numpy(s[i]) for s in layers]) for i in range(3))
    positions = np.stack(np.unravel_index(patches.astype(int), trace.grid), axis=-1) + 1
    return SinkSummary(positions, weights, ratios, similarities)


def compute_photo_similarities(context: AppContext, run: Run) -> PhotoSimilarities:
    """Return the cached similarities between the example photos. Raises `RunError`."""
    key = (compute_photo_similarities, run)
    return context.cache.get_or_compute(key, partial(_compute_similarities, context, run))


def _compute_similarities(context: AppContext, run: Run) -> PhotoSimilarities:
    model, sinks, patches = context.load_model(run), [], []
    require_attention(run, model)
    photos = context.cache.call(load_example_squares)
    for photo in photos:
        own, means = _find_layer_sinks(model, context.trace_image(run, photo))
        sinks.append(torch.stack([each.directions for each in own]))  # (L, H, D/H)
        patches.append(torch.stack(means))
    if len(photos) < 2:
        unknown = np.full((len(model.blocks), model.blocks[0].attn.num_heads), np.nan)
        return PhotoSimilarities(len(photos), unknown, unknown)
    found = (to_numpy(compare_images(torch.stack(each))) for each in (sinks, patches))
    return PhotoSimilarities(len(photos), *found)


def _find_layer_sinks(model: nn.Module, trace: ImageTrace) -> tuple[list[Sinks], list[Tensor]]:
    """Return the sinks and the mean directions (H, D/H) of each of L layers."""
    sinks, means = [], []
    for layer, attention in enumerate(trace.attention, 1):
        values = compute_layer_qkv(model, trace.tokens, layer)[2]  # (H, N, D/H)
        sinks.append(find_sinks(attention, values, trace.num_prefix_tokens))
        means.append(compute_mean_directions(values, trace.num_prefix_tokens))
    return sinks, means
