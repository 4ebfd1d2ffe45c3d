"""Predictions for one image after attention knock-out: special tokens cannot attend to patches.

Letters: L layers, C classes.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain.checks import require_attention, require_finite, to_numpy
from vitdemo.explain.knockout import build_patch_knockout, compute_knockout_logits
from vitdemo.runs import Run

# Measured by `benchmarks/knockout.py`; docs/attention.md has the table.
KNOCKOUT_FINDING = (
    "In the included models, the prediction mainly needs information that the class token reads in "
    "the last two or three layers."
)


@dataclass(frozen=True, eq=False)
class KnockoutResult:
    """Class probabilities (C,) for one image before and after attention knock-out.

    In `layers` (counted from 0), the tokens in `special_tokens` cannot attend to patches.
    `num_layers` is the number of all layers.
    """

    run: Run
    before: np.ndarray
    after: np.ndarray
    layers: tuple[int, ...]
    special_tokens: tuple[str, ...]
    num_layers: int


@torch.inference_mode()
def predict_with_knockout(
    context: AppContext, run: Run, image: Image.Image, layers: Collection[int]
) -> KnockoutResult:
    """Predict `image` after blocking attention from special tokens to patches in `layers` (from 0).

    Raises `RunError` for a model without classes, attention or a class token, and for a layer that
    does not exist.
    """
    run.require_classes()
    model = context.load_model(run)
    require_attention(run, model)
    try:
        blocked = build_patch_knockout(model, layers)
    except ValueError as error:
        raise RunError(f"'{run.name}': {error}") from error
    look = context.trace_image(run, image)
    _, pixels = context.prepare_input(run.preprocessing, image)
    logits = to_numpy(compute_knockout_logits(model, pixels, blocked))[0]  # (C,)
    require_finite(run, logits)
    before, after = (scipy.special.softmax(row) for row in (to_numpy(look.logits), logits))
    chosen = tuple(sorted(layers))
    return KnockoutResult(run, before, after, chosen, look.prefix_names, len(blocked))
