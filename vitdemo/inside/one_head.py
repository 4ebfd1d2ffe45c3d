"""Queries, keys and values of the heads of one layer, for one image.

Letters: H heads, N tokens, D width.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.attention.one_head import head_scale, queries_keys_values
from vitdemo.runs import Run
from vitdemo.traced import Traced
from vitdemo.workbench import Workbench


@dataclass(frozen=True, eq=False)
class Heads:
    """Layer `layer` (1..L): `queries`, `keys` and `values`, each (H, N, D/H), and their `scale`.

    The softmax of `scale * queries @ keys.mT` is the attention of `look`.
    """

    look: Traced
    layer: int
    scale: float
    queries: Tensor
    keys: Tensor
    values: Tensor

    @property
    def run(self) -> Run:
        return self.look.run

    @property
    def seen(self) -> np.ndarray:
        return self.look.seen


@torch.inference_mode()
def one_layer(workbench: Workbench, run: Run, image: Image.Image, layer: int) -> Heads:
    """Return layer `layer`, 1..L. Raises `RunError` for a model without attention."""
    look, model = workbench.look(run, image), workbench.model(run)
    found = queries_keys_values(model, look.tokens[layer - 1][None], layer - 1)
    return Heads(look, layer, head_scale(model, layer - 1), *(each[0] for each in found))
