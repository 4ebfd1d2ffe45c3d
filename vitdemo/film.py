"""Predictions and attention of a model for one image after each saved epoch.

Letters: E saved epochs, L layers, P patches, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import attention, runs
from vitdemo.errors import RunError
from vitdemo.metrics.learning import epoch_of_weights
from vitdemo.models import CONVOLUTIONAL
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

Frame = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Film:
    """Predictions and attention of `run` for the image `seen` (S, S, 3) after each of `epochs`.

    `epochs` are those whose weights were saved before the final ones (`runs.kept_weights`), and the
    epoch of the run's weights. `maps` (E, L, P) is the attention of the class token (or average
    patch) to each patch in each layer, averaged over the heads. `probabilities` is (E, C), and
    `grid` contains the rows and columns of the patches.
    """

    run: Run
    seen: np.ndarray
    grid: tuple[int, int]
    epochs: tuple[int, ...]
    maps: np.ndarray
    probabilities: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """Index of the predicted class after each epoch, (E,)."""
        return self.probabilities.argmax(1)


def filmed(workbench: Workbench) -> list[Run]:
    """Return the runs with attention and saved epochs, including runs that still train."""
    vits = (run for run in workbench.runs()[0] if run.spec.family not in CONVOLUTIONAL)
    return [run for run in vits if runs.kept_epochs(run) or runs.kept_weights(run)]


def film(workbench: Workbench, run: Run, image: Image.Image, most: int | None = None) -> Film:
    """Return the predictions and maps of each saved epoch, or of at most `most` of them.

    Each epoch is computed once, so a run that is training costs one pass per new epoch. Raises
    `RunError` if no epoch was saved or if weights cannot be loaded.
    """
    if not (kept := runs.kept_weights(run)):
        raise RunError(f"'{run.name}' has no saved weights yet. Wait for its first epoch.")
    seen, pixels = workbench.input(run.preprocessing, image)
    kept = thinned(kept, most) if most else kept
    epochs, frames = [each.epoch for each in kept], []
    for each in kept:
        written = runs.weights_path(each.run.path, each.own).stat().st_mtime_ns
        key = (_frame, each.run.path, each.own, written, seen)
        _, own = workbench.input(each.run.preprocessing, image)
        make = partial(_kept_frame, each, workbench.device, own)
        frames.append(workbench.cache.get_or_make(key, make))
    used = epoch_of_weights(run)
    if run.has_weights and used and used not in epochs:
        epochs.append(used)
        frames.append(_frame(workbench.model(run), pixels))
    maps, shares = (np.stack(parts) for parts in zip(*frames, strict=True))
    side = round(maps.shape[-1] ** 0.5)  # images and patches are square
    return Film(run, seen, (side, side), tuple(epochs), maps, shares)


def thinned(kept: list, most: int) -> list:
    """Select at most `most` items: the first, the last, and items evenly spaced between them."""
    places = np.linspace(0, len(kept) - 1, min(most, len(kept))).round().astype(int)
    return [kept[place] for place in places]


def _kept_frame(kept: runs.Kept, device: torch.device, pixels: Tensor) -> Frame:
    """Compute without caching the weights, which would displace other models from memory."""
    return _frame(runs.load_model(kept.run, device, kept.own), pixels)


@torch.inference_mode()
def _frame(model: nn.Module, pixels: Tensor) -> Frame:
    """Return maps (L, P) and probabilities (C,)."""
    trace = attention.trace(model, pixels)
    rows, prefix = attention.answer_rows(model), model.num_prefix_tokens
    heads = trace.attention[:, 0].mean(1)  # (L, N, N)
    maps = attention.answer_map(heads, prefix, rows)  # (L, P)
    return maps.float().cpu().numpy(), trace.logits[0].float().softmax(0).cpu().numpy()


def when_learned(right: Sequence[bool], epochs: Sequence[int]) -> str:
    """Describe after which epochs an image was classified correctly, and when it was forgotten."""
    if not any(right):
        return "The prediction was incorrect after all of these epochs."
    last_wrong = max((i for i, is_right in enumerate(right) if not is_right), default=-1)
    forgotten = [
        epoch
        for before, now, epoch in zip(right, right[1:], epochs[1:], strict=False)
        if before and not now
    ]
    if last_wrong == len(right) - 1:
        words = f"First correct after epoch {epochs[list(right).index(True)]}, but not at the end"
    else:
        words = f"Correct from epoch {epochs[last_wrong + 1]} on"
    if forgotten:
        words += f"; forgotten after epoch {', '.join(map(str, forgotten))}"
    return words + "."
