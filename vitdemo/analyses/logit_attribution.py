"""Contributions of each part of a model to the logits of the most probable classes of an image.

Letters: K classes, L layers, H heads.
"""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain.checks import require_finite, to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_attribution import Contributions, compute_contributions, mean_token_norms
from vitdemo.runs import Run

MAX_STREAM_CLASSES = 10  # maximum number of classes: the most probable ones


@dataclass(frozen=True, eq=False)
class LogitAttribution:
    """Contributions `parts` to the `logits` (K,) of `classes` (K), the most probable first.

    The lengths (L+1,) are mean norms, before the first layer and after each layer: of the tokens
    that the classifier reads, and of the patches.
    """

    trace: ImageTrace
    classes: tuple[int, ...]
    logits: np.ndarray
    contributions: Contributions
    classifier_token_norms: np.ndarray
    patch_norms: np.ndarray

    @property
    def run(self) -> Run:
        return self.trace.run


@torch.inference_mode()
def compute_logit_attribution(
    context: AppContext, run: Run, image: Image.Image
) -> LogitAttribution:
    """Compute the contributions to the logits of one image.

    Raises `RunError` for a model without attention or classes, or one that predicts NaN. It is also
    raised if the final norm or the classifier cannot be split into contributions.
    """
    run.require_classes()
    look, model = context.trace_image(run, image), context.load_model(run)
    require_finite(run, to_numpy(look.logits))
    classes = look.logits.topk(min(MAX_STREAM_CLASSES, len(look.logits))).indices.tolist()
    try:
        parts = compute_contributions(model, look.tokens, classes)
    except TypeError as error:
        raise RunError(str(error)) from error
    patches = slice(look.num_prefix_tokens, None)
    both = [
        to_numpy(mean_token_norms(look.tokens, rows)) for rows in (look.classifier_rows, patches)
    ]
    return LogitAttribution(look, tuple(classes), to_numpy(look.logits)[classes], parts, *both)
