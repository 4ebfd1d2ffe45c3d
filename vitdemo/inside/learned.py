"""Learned position embeddings and filters of a model, which do not depend on the image.

Letters: P patches, K filters, p side of a filter.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo import timm_models
from vitdemo.attention import embeddings
from vitdemo.errors import RunError
from vitdemo.inside import numpy
from vitdemo.models import is_vision_transformer
from vitdemo.runs import Run
from vitdemo.workbench import Workbench


@dataclass(frozen=True, eq=False)
class PatchFilters:
    """Filters of the convolution that reads the pixels; `count` is their number.

    `strongest` (K, 3, p, p) have the largest norms, `norms` (K,), in descending order. `principal`
    (R, 3, p, p) are components with their `shares` (R,) of the variance. Colours are in 0..1, and
    a weight of 0 is mid-grey.
    """

    count: int
    strongest: np.ndarray
    norms: np.ndarray
    principal: np.ndarray
    shares: np.ndarray


def position_similarity(workbench: Workbench, run: Run) -> tuple[np.ndarray, tuple[int, int], str]:
    """Return cosines (P, P) of the patches' position embeddings, their grid, and their start.

    The start is "mimetic" (sines and cosines), "weights" (of another training run) or "random".
    Raises `RunError`.
    """
    model = workbench.model(run)
    if not is_vision_transformer(model):
        raise RunError(
            f"'{run.name}' is not a Vision Transformer and has no position embedding. Choose a "
            "Vision Transformer."
        )
    try:
        similarity = embeddings.position_similarity(model)
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    return numpy(similarity), tuple(model.patch_embed.grid_size), _position_start(run)


def _position_start(run: Run) -> str:
    if run.spec.options.get("init") == "mimetic":
        return "mimetic"
    pretrained = run.config.get("recipe", {}).get("pretrained") or run.name.startswith(
        timm_models.PREFIX
    )
    return "weights" if run.origin or pretrained else "random"


def first_filters(
    workbench: Workbench, run: Run, most: int = 64, components: int = 28
) -> PatchFilters:
    """Return the filters of the first convolution. Raises `RunError` if it reads no pixels."""
    try:
        weight = embeddings.filters(workbench.model(run)).float().cpu()  # (K, 3, p, p)
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    principal, shares = embeddings.principal_filters(weight)
    return PatchFilters(
        len(weight),
        numpy(embeddings.as_colours(weight[:most])),
        numpy(weight[:most].flatten(1).norm(dim=1)),
        numpy(embeddings.as_colours(principal[:components])),
        numpy(shares[:components]),
    )
