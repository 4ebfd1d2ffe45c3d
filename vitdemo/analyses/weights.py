"""Learned position embeddings and filters of a model, which do not depend on the image.

Letters: P patches, K filters, p side of a filter.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain import embeddings
from vitdemo.explain.checks import to_numpy
from vitdemo.models import has_attention
from vitdemo.runs import Run

MAX_FILTERS, MAX_COMPONENTS = 64, 28


@dataclass(frozen=True, eq=False)
class PatchFilters:
    """The `count` filters of the convolution that reads the pixels, as colours.

    `largest` (K, 3, p, p) are the filters with the largest norms, sorted by decreasing norm
    (`norms`). `principal` (R, 3, p, p) are principal components, with `explained_variance` (R,) as
    fractions. Colours are in 0..1, and a weight of 0 is mid-grey.
    """

    count: int
    largest: np.ndarray
    norms: np.ndarray
    principal: np.ndarray
    explained_variance: np.ndarray


def compute_position_similarity(
    context: AppContext, run: Run
) -> tuple[np.ndarray, tuple[int, int], str]:
    """Return cosines (P, P) of the patches' position embeddings, the grid, and the initialisation.

    The initialisation is "mimetic" (sines and cosines), "weights" (pretrained) or "random". Raises
    `RunError` for a model without learned position embeddings.
    """
    model = context.load_model(run)
    if not has_attention(model):
        raise RunError(
            f"'{run.name}' is not a Vision Transformer and has no position embedding. Choose a "
            "Vision Transformer."
        )
    try:
        similarity = embeddings.position_embedding_similarity(model)
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    return to_numpy(similarity), tuple(model.patch_embed.grid_size), _position_initialisation(run)


def _position_initialisation(run: Run) -> str:
    if run.spec.options.get("init") == "mimetic":
        return "mimetic"
    pretrained = run.config.get("recipe", {}).get("pretrained") or not run.has_folder
    return "weights" if run.origin or pretrained else "random"


def load_first_filters(context: AppContext, run: Run) -> PatchFilters:
    """Return the filters of the first convolution. Raises `RunError` if no layer reads pixels."""
    try:
        weight = embeddings.get_first_filters(context.load_model(run)).float().cpu()  # (K, 3, p, p)
    except TypeError as error:
        raise RunError(f"'{run.name}': {error}") from error
    principal, shares = embeddings.compute_filter_components(weight)
    return PatchFilters(
        len(weight),
        to_numpy(embeddings.filters_to_colours(weight[:MAX_FILTERS])),
        to_numpy(weight[:MAX_FILTERS].flatten(1).norm(dim=1)),
        to_numpy(embeddings.filters_to_colours(principal[:MAX_COMPONENTS])),
        to_numpy(shares[:MAX_COMPONENTS]),
    )
