"""Attention as it came about in training: one picture, through the weights of kept epochs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo import attention, runs
from vitdemo.errors import RunError
from vitdemo.inside import check_attention, numpy
from vitdemo.metrics.learning import epoch_of_weights
from vitdemo.models import CONVOLUTIONAL
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

MOST_EPOCHS = 12  # shown at once: the first, the last, and those evenly between


@dataclass(frozen=True, eq=False)
class EpochMap:
    """A run after `epoch`: what one layer's heads look at, on average, for the answer, (rows,
    columns); and the answer (C,). Without an epoch, the run as it is used."""

    epoch: int | None
    values: np.ndarray
    probabilities: np.ndarray


def across_epochs(
    workbench: Workbench, run: Run, image: Image.Image, layer: int
) -> Iterator[EpochMap]:
    """Attention of one picture in one layer, epoch by kept epoch (`runs.kept_weights`); nothing
    where none was kept.

    At most `MOST_EPOCHS` of them, and the run as it is used unless that epoch is among them.
    Raises `RunError` for a model without attention, weights that cannot be loaded, or a layer that
    it does not have.
    """
    kept = thinned(runs.kept_weights(run), MOST_EPOCHS)
    if not kept:
        return
    check_attention(run, workbench.model(run))
    for each in kept:
        # Not kept in memory: twelve models of one run would push out what others look at.
        model = runs.load_model(each.run, workbench.device, each.own)
        _, pixels = workbench.input(each.run.preprocessing, image)
        yield _epoch_map(model, run, each.epoch, pixels, layer)
    if epoch_of_weights(run) not in [each.epoch for each in kept]:
        _, pixels = workbench.input(run.preprocessing, image)
        yield _epoch_map(workbench.model(run), run, None, pixels, layer)


def with_epochs(workbench: Workbench) -> list[str]:
    """The runs whose attention `across_epochs` can follow."""
    vits = (run for run in workbench.explained_runs() if run.spec.family not in CONVOLUTIONAL)
    return [run.name for run in vits if runs.kept_weights(run)]


def thinned(kept: list[runs.Kept], most: int) -> list[runs.Kept]:
    """At most `most` of them: the first, the last, and those evenly between."""
    places = np.linspace(0, len(kept) - 1, min(most, len(kept))).round().astype(int)
    return [kept[place] for place in places]


@torch.inference_mode()
def _epoch_map(
    model: nn.Module, run: Run, epoch: int | None, pixels: Tensor, layer: int
) -> EpochMap:
    if layer not in range(len(model.blocks)):
        raise RunError(f"'{run.name}' has no layer {layer + 1}: choose 1 to {len(model.blocks)}.")
    trace = attention.trace(model, pixels)
    rows = attention.answer_rows(model)
    maps = attention.answer_map(trace.attention[layer, 0], model.num_prefix_tokens, rows)  # (H, P)
    values = numpy(maps.mean(0)).reshape(model.patch_embed.grid_size)
    return EpochMap(epoch, values, scipy.special.softmax(numpy(trace.logits[0])))
