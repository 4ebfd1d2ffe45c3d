"""What a model would say if it stopped after each layer, of one picture.

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
    """Probabilities before the first block (index 0) and after each of the L.

    `answers` (L+1, C) of what the answer is read from, `patches` (L+1, P, C) of each patch on
    `grid`; `seen` (S, S, 3) uint8.
    """

    run: Run
    seen: np.ndarray
    grid: tuple[int, int]
    answers: np.ndarray
    patches: np.ndarray


@torch.inference_mode()
def logit_lens(workbench: Workbench, run: Run, image: Image.Image) -> Lens:
    """Raises `RunError` for a model without attention or classes, or one that answers with NaN."""
    run.check_classes()
    look = workbench.look(run, image)
    found = lens.logit_lens(workbench.model(run), look.tokens[:, None])
    answers, patches = (numpy(x[:, 0]) for x in found)
    check_finite(run, answers[-1])
    return Lens(run, look.seen, look.grid, answers, patches)
