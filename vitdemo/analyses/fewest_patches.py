"""Search for few patches of an image without which a model predicts another class.

    canvas = make_canvas(context, image)
    target, found = search_fewest_patches(context, run, image, canvas, (8, 8))
    found.order  # the patches, if `found.is_met`

Letters: n sets of patches, S side.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vitdemo.context import AppContext
from vitdemo.data import image_files
from vitdemo.data.perturb import remove_patches
from vitdemo.errors import RunError
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.attributions.method import LOOP_BATCH_SIZE
from vitdemo.explain.faithfulness.fills import ReplacePatches
from vitdemo.explain.removal_search import (
    MAX_PASSES,
    RemovalLoop,
    RemovalSearch,
    score_class,
    search_removal,
)
from vitdemo.runs import Run
from vitdemo.training import Preprocessing

# Patches that most steps of the search test, so that the passes suffice for the restoration.
CANDIDATES = 12


def search_fewest_patches(
    context: AppContext,
    run: Run,
    original: Image.Image,
    canvas: Image.Image,
    grid: tuple[int, int],
    on_step: OnStep | None = None,
) -> tuple[int, RemovalSearch]:
    """Search for few patches of `canvas` whose removal changes the class predicted for `original`.

    Returns this class and the search, whose results are cached. As on the page, removed patches
    have the mean colour of `canvas` (from `make_canvas`), and each model's preprocessing follows.
    `on_step` is called as (passes, most passes). Raises `RunError` for a model without a choice of
    classes.
    """
    require_choice(run)
    target = int(context.predict(run, original).probabilities.argmax())
    model, (_, pixels) = context.load_model(run), context.prepare_input(run.preprocessing, canvas)

    def search() -> RemovalSearch:
        return search_removal(
            *(model, pixels, grid),
            **describe_search(run, target),
            fill=make_painter(canvas, run.preprocessing),
            on_step=on_step,
        )

    key = search_fewest_patches, run, target, canvas, grid
    return target, context.cache.get_or_compute(key, search)


def require_choice(run: Run) -> None:
    """Raise `RunError` if `run` has fewer than two classes."""
    run.require_classes()
    if len(run.classes) == 1:
        raise RunError(
            f"'{run.name}' has only the class '{run.classes[0]}', so its prediction cannot change. "
            "Choose another model."
        )


def describe_search(run: Run, target: int | Tensor) -> dict[str, Any]:
    """Return the objective and the rules of the search; a tensor `target` () is not read."""
    return {
        "objective": partial(score_class, target=target),
        "stop": lambda logits: logits[:, : len(run.classes)].argmax(dim=1) != target,
        "restores": True,
        "candidates": CANDIDATES,
    }


def make_removal_loop(run: Run, target: Tensor, grid: tuple[int, int]) -> RemovalLoop:
    """Return the search of `search_fewest_patches` as a loop; `target` () is not read."""
    return RemovalLoop(
        math.prod(grid),
        max_passes=MAX_PASSES,
        batch_size=LOOP_BATCH_SIZE,
        **describe_search(run, target),
    )


def predict_without_patches(
    model: nn.Module, run: Run, canvas: Tensor, sets: Tensor, grid: tuple[int, int]
) -> Tensor:
    """Compute the logits (n, C) for `canvas` (3, S, S) uint8 without the patches in `sets` (n, P).

    The function reads no values of tensors. It resizes with Pillow's weights in float32, so a pixel
    may differ by one grey level from `make_painter`.
    """
    preprocessing = run.preprocessing
    painted = remove_patches(canvas.expand(len(sets), -1, -1, -1), sets.view(-1, *grid))
    weights = image_files.make_resize_matrix(
        canvas.shape[-1], preprocessing.size, preprocessing.crop, preprocessing.interpolation
    )
    matrix = torch.from_numpy(weights)  # (size, S)
    crops = (matrix @ painted.float() @ matrix.T).clamp(0, 255).round()
    return model(preprocessing(crops))


def make_painter(canvas: Image.Image, preprocessing: Preprocessing) -> ReplacePatches:
    """Return a replacement that removes patches of `canvas` before the preprocessing."""
    whole = torch.from_numpy(image_files.to_uint8(canvas))[None]  # (1, 3, S, S)

    def paint(image: Tensor, sets: Tensor, grid: tuple[int, int]) -> Tensor:
        removed = ~sets.view(-1, *grid).cpu()  # (n, rows, columns)
        painted = remove_patches(whole.expand(len(sets), -1, -1, -1), removed)
        crops = [
            preprocessing.crop_image(Image.fromarray(each.permute(1, 2, 0).numpy()))
            for each in painted
        ]
        return preprocessing(torch.from_numpy(np.stack(crops)).to(image.device))

    return paint
