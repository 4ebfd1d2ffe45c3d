"""Contributions of each part of a model to the logits of the most probable classes of an image.

Letters: K classes, L layers, H heads.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from vitdemo.attention.residual import Contributions, contributions, lengths
from vitdemo.errors import RunError
from vitdemo.inside import check_finite, numpy
from vitdemo.runs import Run
from vitdemo.traced import Traced
from vitdemo.workbench import Workbench

CLASSES = 10  # maximum number of classes: the most probable ones


@dataclass(frozen=True, eq=False)
class Stream:
    """Contributions `parts` to the `logits` (K,) of `classes` (K), the most probable first.

    The lengths (L+1,) are mean norms, before the first layer and after each layer: of the tokens
    that the classifier reads, and of the patches.
    """

    look: Traced
    classes: tuple[int, ...]
    logits: np.ndarray
    parts: Contributions
    answer_lengths: np.ndarray
    patch_lengths: np.ndarray

    @property
    def run(self) -> Run:
        return self.look.run


@torch.inference_mode()
def residual_stream(workbench: Workbench, run: Run, image: Image.Image) -> Stream:
    """Compute the contributions to the logits of one image.

    Raises `RunError` for a model without attention or classes, or one that predicts NaN. It is also
    raised if the final norm or the classifier cannot be split into contributions.
    """
    run.check_classes()
    look, model = workbench.look(run, image), workbench.model(run)
    check_finite(run, numpy(look.logits))
    classes = look.logits.topk(min(CLASSES, len(look.logits))).indices.tolist()
    try:
        parts = contributions(model, look.tokens, classes)
    except TypeError as error:
        raise RunError(str(error)) from error
    patches = slice(look.num_prefix_tokens, None)
    both = [numpy(lengths(look.tokens, rows)) for rows in (look.answer_rows, patches)]
    return Stream(look, tuple(classes), numpy(look.logits)[classes], parts, *both)
