"""Predictions and attention of a model for one image after each saved epoch.

Letters: E saved epochs, L layers, P patches, C classes.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import runs
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain import attention, forward_pass
from vitdemo.explain.checks import to_numpy
from vitdemo.metrics.training_progress import get_weights_epoch
from vitdemo.models import get_family
from vitdemo.runs import Run

Snapshot = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Results of a run for one image after each saved epoch.

    `epochs` (E,) are the epochs with saved weights; the last one is the epoch of the final weights.
    `trained` (E,) are the completed epochs at these times: 1.25 if a stop ended epoch 2 early.
    `input_image` is (S, S, 3). `maps` (E, L, P) are the attention to each patch in each layer,
    averaged over the heads. The attention is from the class token or, without a class token, from
    the average patch. `probabilities` are (E, C). `grid` contains the rows and columns of the
    patches.
    """

    run: Run
    input_image: np.ndarray
    grid: tuple[int, int]
    epochs: tuple[int, ...]
    trained: tuple[float, ...]
    maps: np.ndarray
    probabilities: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """Index (E,) of the predicted class after each epoch."""
        return self.probabilities.argmax(1)


def runs_with_snapshots(context: AppContext) -> list[Run]:
    """Return the Vision Transformer runs with saved epochs, including unfinished runs."""
    vits = (run for run in context.list_runs()[0] if get_family(run.spec).has_attention)
    return [run for run in vits if runs.list_saved_epochs(run) or runs.list_saved_weights(run)]


def load_snapshots(context: AppContext, run: Run, image: Image.Image) -> Snapshots:
    """Compute predictions and maps for all saved epochs.

    Results are cached, so an unfinished run costs one forward pass per new epoch. Raises `RunError`
    if no epoch was saved or if weights cannot be loaded.
    """
    if not (saved := runs.list_saved_weights(run)):
        raise RunError(f"'{run.name}' has no saved weights yet. Wait for the first epoch.")
    input_image, pixels = context.prepare_input(run.preprocessing, image)
    epochs, frames = [weights.epoch for weights in saved], []
    trained = [_count_trained(weights.epoch, weights.record) for weights in saved]
    for weights in saved:
        modified = runs.weights_path(weights.run.path, weights.run_epoch).stat().st_mtime_ns
        key = (_compute_snapshot, weights.run.path, weights.run_epoch, modified, input_image)
        _, model_input = context.prepare_input(weights.run.preprocessing, image)
        compute = partial(_load_snapshot, weights, context.device, model_input)
        frames.append(context.cache.get_or_compute(key, compute))
    weights_epoch = get_weights_epoch(run)
    if run.has_weights and weights_epoch and weights_epoch not in epochs:
        epochs.append(weights_epoch)
        trained.append(_count_trained(weights_epoch, run.weights_record))
        frames.append(_compute_snapshot(context.load_model(run), pixels))
    maps, probabilities = (np.stack(parts) for parts in zip(*frames, strict=True))
    side = round(maps.shape[-1] ** 0.5)  # rows = columns, because images and patches are square
    grid = side, side
    return Snapshots(run, input_image, grid, tuple(epochs), tuple(trained), maps, probabilities)


def _count_trained(epoch: int, record: dict | None) -> float:
    """Return the epochs trained at the end of `epoch`, of which a stop can leave a fraction."""
    share = (record or {}).get("share", 1)
    return epoch if share == 1 else max(round(epoch - 1 + share, 2), 0.01)


def _load_snapshot(saved: runs.SavedWeights, device: torch.device, pixels: Tensor) -> Snapshot:
    """Compute a snapshot without caching the weights, which would displace other cached models."""
    return _compute_snapshot(runs.load_model(saved.run, device, saved.run_epoch), pixels)


@torch.inference_mode()
def _compute_snapshot(model: nn.Module, pixels: Tensor) -> Snapshot:
    """Compute attention maps (L, P) and probabilities (C,) for `pixels` (1, 3, S, S)."""
    trace = forward_pass.trace(model, pixels)
    rows, prefix = forward_pass.classifier_rows(model), model.num_prefix_tokens
    heads = trace.attention[:, 0].mean(1)  # (L, N, N)
    maps = attention.classifier_map(heads, prefix, rows)  # (L, P)
    return to_numpy(maps), to_numpy(trace.logits[0].float().softmax(0))
