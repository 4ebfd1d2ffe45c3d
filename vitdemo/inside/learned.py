"""What a model has learnt of positions and of pixels, whatever the picture.

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
    """Of the convolution that reads the pixels: its `count` filters, the strongest first.

    `strongest` (K, 3, p, p) and their `norms` (K,); `principal` (R, 3, p, p) components and their
    `shares` (R,) of the variance. Colours in 0..1: mid-grey is a weight of 0.
    """

    count: int
    strongest: np.ndarray
    norms: np.ndarray
    principal: np.ndarray
    shares: np.ndarray


def position_similarity(workbench: Workbench, run: Run) -> tuple[np.ndarray, tuple[int, int], str]:
    """Cosines (P, P) of the patches' position embeddings, their grid, and what they began with:
    "mimetic" (sines and cosines), "weights" of another training, or "random". Raises `RunError`."""
    model = workbench.model(run)
    if not is_vision_transformer(model):
        raise RunError(
            f"'{run.name}' is no Vision Transformer: its convolutions know where they are without "
            "a position embedding."
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
    """What the first convolution of `run` looks for. Raises `RunError` where it reads no pixels."""
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
