"""Logit lens: the final LayerNorm and classifier applied after each layer, for one image.

Letters: L layers, P patches, C classes.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.explain import logit_lens
from vitdemo.explain.checks import require_finite, to_numpy
from vitdemo.runs import Run


@dataclass(frozen=True, eq=False)
class LogitLens:
    """Probabilities before the first block (index 0) and after each of the L blocks.

    `answers` (L+1, C) are computed from the tokens that the classifier reads, and `patches`
    (L+1, P, C) from each patch on `grid`. `input_image` (S, S, 3) uint8 is the input image.
    """

    run: Run
    input_image: np.ndarray
    grid: tuple[int, int]
    predictions: np.ndarray
    patches: np.ndarray


@torch.inference_mode()
def compute_logit_lens(context: AppContext, run: Run, image: Image.Image) -> LogitLens:
    """Compute the logit lens of one image.

    Raises `RunError` for a model without attention or classes, and for one that predicts NaN.
    """
    run.require_classes()
    look = context.trace_image(run, image)
    found = logit_lens.apply_logit_lens(context.load_model(run), look.tokens[:, None])
    answers, patches = (to_numpy(x[:, 0]) for x in found)
    require_finite(run, answers[-1])
    return LogitLens(run, look.input_image, look.grid, answers, patches)
