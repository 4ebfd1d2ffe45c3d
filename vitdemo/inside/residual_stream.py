"""What each part of a model adds to the logits of one picture's most probable classes.

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

CLASSES = 10  # the most probable ones, of more


@dataclass(frozen=True, eq=False)
class Stream:
    """`parts` of the `logits` (K,) of `classes` (K), the most probable first, and the mean length
    (L+1,) of the tokens that the answer is read from and of the patches, before and after each
    layer."""

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
    """Raises `RunError` for a model without attention or classes, one that answers with NaN, and
    one whose last norm or classifier cannot be taken apart."""
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
