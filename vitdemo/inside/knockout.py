"""What a model predicts for one image when its special tokens cannot attend to the patches.

Letters: L layers, C classes.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from PIL import Image

from vitdemo.attention.knockout import bar_attention, bar_patches
from vitdemo.errors import RunError
from vitdemo.inside import check_attention, check_finite, numpy
from vitdemo.runs import Run
from vitdemo.workbench import Workbench

# Measured by `benchmarks/knockout.py`; docs/attention.md has the table.
FINDING = (
    "In the included models, the prediction mainly depends on what the class token reads in the "
    "last two or three layers."
)


@dataclass(frozen=True, eq=False)
class KnockOut:
    """Probabilities (C,) of `run` without (`before`) and with (`after`) barred `layers`, from 0.

    `special` are the names of the tokens that are barred from the patches, `depth` is L.
    """

    run: Run
    before: np.ndarray
    after: np.ndarray
    layers: tuple[int, ...]
    special: tuple[str, ...]
    depth: int


@torch.inference_mode()
def knock_out(
    workbench: Workbench, run: Run, image: Image.Image, layers: Collection[int]
) -> KnockOut:
    """Predict `image` with all special tokens barred from the patches in `layers`, from 0.

    Raises `RunError` for a model without classes, without attention or without a class token, and
    for a layer that does not exist.
    """
    run.check_classes()
    model = workbench.model(run)
    check_attention(run, model)
    try:
        barred = bar_patches(model, layers)
    except ValueError as error:
        raise RunError(f"'{run.name}': {error}") from error
    look = workbench.look(run, image)
    _, pixels = workbench.input(run.preprocessing, image)
    logits = numpy(bar_attention(model, pixels, barred))[0]  # (C,)
    check_finite(run, logits)
    before, after = (scipy.special.softmax(row) for row in (numpy(look.logits), logits))
    return KnockOut(run, before, after, tuple(sorted(layers)), look.prefix_names, len(barred))
