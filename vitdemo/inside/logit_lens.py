"""Logit lens: the final LayerNorm and classifier applied after each layer, for one image.

Letters: L layers, P patches, C classes.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from vitdemo.attention import lens
from vitdemo.inside import check_finite, numpy
from vitdemo.runs import Run
from vitdemo.workbench import Workbench


@dataclass(frozen=True, eq=False)
class Lens:
    """Probabilities before the first block (index 0) and after each of the L blocks.

    `answers` (L+1, C) are computed from the tokens that the classifier reads, and `patches`
    (L+1, P, C) from each patch on `grid`. `seen` (S, S, 3) uint8 is the input image.
    """

    run: Run
    seen: np.ndarray
    grid: tuple[int, int]
    answers: np.ndarray
    patches: np.ndarray


@torch.inference_mode()
def logit_lens(workbench: Workbench, run: Run, image: Image.Image) -> Lens:
    """Compute the logit lens of one image.

    Raises `RunError` for a model without attention or classes, and for one that predicts NaN.
    """
    run.check_classes()
    look = workbench.look(run, image)
    found = lens.logit_lens(workbench.model(run), look.tokens[:, None])
    answers, patches = (numpy(x[:, 0]) for x in found)
    check_finite(run, answers[-1])
    return Lens(run, look.seen, look.grid, answers, patches)
