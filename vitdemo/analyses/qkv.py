"""Queries, keys and values of the heads of one layer, for one image.

Letters: H heads, N tokens, D width.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.context import AppContext
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.qkv import compute_qkv, head_scale
from vitdemo.runs import Run


@dataclass(frozen=True, eq=False)
class LayerQKV:
    """Layer `layer` (1..L): `queries`, `keys` and `values`, each (H, N, D/H), and their `scale`.

    The softmax of `scale * queries @ keys.mT` is the attention of `look`.
    """

    trace: ImageTrace
    layer: int
    scale: float
    queries: Tensor
    keys: Tensor
    values: Tensor

    @property
    def run(self) -> Run:
        return self.trace.run

    @property
    def input_image(self) -> np.ndarray:
        return self.trace.input_image


@torch.inference_mode()
def layer_qkv(context: AppContext, run: Run, image: Image.Image, layer: int) -> LayerQKV:
    """Return layer `layer`, 1..L. Raises `RunError` for a model without attention."""
    look, model = context.trace_image(run, image), context.load_model(run)
    found = compute_qkv(model, look.tokens[layer - 1][None], layer - 1)
    return LayerQKV(look, layer, head_scale(model, layer - 1), *(each[0] for each in found))
