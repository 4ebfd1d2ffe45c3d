"""How a Vision Transformer cuts a picture into patches and makes a token of each.

Letters: S side of the input, P patches of a grid of rows x columns, D width of a token.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.errors import RunError
from vitdemo.models import is_vision_transformer, patches_stand_alone
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

COMPONENTS = 3  # principal components of the projected patches that are shown


@dataclass(frozen=True, eq=False)
class PatchEmbedding:
    """The first step of `run`'s model on a picture, before its first layer.

    `seen` (S, S, 3) uint8 is cut along `grid` (rows, columns); `projected` (P, D) is each patch
    after the linear projection, `position` (P, D) what is added to it, and zero in a model that
    adds no position here. Row by row from the top left.
    """

    run: Run
    seen: np.ndarray
    grid: tuple[int, int]
    projected: np.ndarray
    position: np.ndarray
    num_prefix_tokens: int
    alone: bool  # each vector is made of its own patch; a convolutional stem mixes in more

    @property
    def tokens(self) -> np.ndarray:
        """What enters the first layer, (P, D)."""
        return self.projected + self.position

    def norms(self, values: np.ndarray) -> np.ndarray:
        """Euclidean length of each patch's vector (P, D), as (rows, columns)."""
        return np.linalg.norm(values, axis=1).reshape(self.grid)

    def patches(self) -> np.ndarray:
        """The patches themselves, (rows, columns, height, width, 3) uint8."""
        rows, columns = self.grid
        S = len(self.seen)
        cut = self.seen.reshape(rows, S // rows, columns, S // columns, 3)
        return cut.swapaxes(1, 2)

    def components(self) -> tuple[np.ndarray, np.ndarray]:
        """Principal components of this picture's projected patches.

        Returns maps (K, rows, columns), signed, and the share of variance of each, (K,); K is
        `COMPONENTS`, or fewer where there are fewer patches or widths.
        """
        centred = self.projected - self.projected.mean(0)  # (P, D)
        left, strength, _ = np.linalg.svd(centred, full_matrices=False)
        variance = strength**2 / max((strength**2).sum(), 1e-12)
        maps = (left * strength)[:, :COMPONENTS].T  # (K, P)
        # The sign of a component is arbitrary: its largest value is made positive.
        largest = np.abs(maps).argmax(1)
        signs = np.where(maps[np.arange(len(maps)), largest] < 0, -1.0, 1.0)
        return (signs[:, None] * maps).reshape(-1, *self.grid), variance[:COMPONENTS]


@torch.inference_mode()
def embed(workbench: Workbench, run: Run, image: Image.Image) -> PatchEmbedding:
    """The patches of an RGB `image` as `run`'s model embeds them. Raises `RunError`."""
    model = workbench.model(run)
    if not is_vision_transformer(model):
        raise RunError(f"'{run.name}' is no Vision Transformer: it cuts no patches.")
    seen, pixels = workbench.input(run.preprocessing, image)
    projected = model.patch_embed(pixels)  # (1, P, D)
    tokens = model._pos_embed(projected)[:, model.num_prefix_tokens :]  # (1, P, D)
    grid = tuple(model.patch_embed.grid_size)
    position = _array(tokens - projected)
    p, alone = model.num_prefix_tokens, patches_stand_alone(model)
    return PatchEmbedding(run, seen, grid, _array(projected), position, p, alone)


def _array(values: Tensor) -> np.ndarray:
    return values[0].float().cpu().numpy()  # (P, D)
