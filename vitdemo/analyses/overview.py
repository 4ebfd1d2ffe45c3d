"""Overview of one image in a Vision Transformer: tokens, attention maps and prediction by layer.

    overview = compute_overview(context, run, image)
    overview.maps[-1]  # (rows, columns): the attention of the last layer

Letters: L layers.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain.checks import to_numpy
from vitdemo.explain.forward_pass import upcast
from vitdemo.explain.logit_attribution import compute_logit_attribution
from vitdemo.explain.logit_lens import compute_logit_lens
from vitdemo.runs import Run


@dataclass(frozen=True, eq=False)
class ModelOverview:
    """Results of each step from the patches of one image to the predicted class.

    `token_norms` (rows, columns) are the norms of the patch tokens before the first layer. `maps`
    (L, rows, columns) are each layer's attention to the patches, as the mean of the heads.
    `probabilities` (L,) are the logit lens's probabilities of the predicted class after each layer.
    `contributions` (L,) are the direct contributions of each layer, attention and MLP, to the logit
    of this class. `probabilities` and `contributions` are empty if the model does not support them.
    """

    token_norms: np.ndarray
    maps: np.ndarray
    probabilities: np.ndarray
    contributions: np.ndarray


def compute_overview(context: AppContext, run: Run, image: Image.Image) -> ModelOverview:
    """Compute the overview of `image` in the model of `run`.

    Raises `RunError` if the model has no attention.
    """
    trace, model = context.trace_image(run, image), context.load_model(run)
    norms = upcast(trace.tokens[0, trace.num_prefix_tokens :]).norm(dim=-1)  # (P,)
    maps = [trace.head_maps(layer).mean(0) for layer in range(1, trace.num_layers + 1)]
    probabilities = contributions = np.zeros(0)
    try:
        by_layer = compute_logit_lens(model, trace).predictions[1:]  # (L, C)
        probabilities = by_layer[:, by_layer[-1].argmax()]
        parts = compute_logit_attribution(model, trace).contributions  # row 0: the predicted class
        layers = parts.heads.sum(-1) + parts.attention_bias + parts.mlps  # (K, L)
        contributions = to_numpy(layers[0])
    except RunError:  # the model has no classes, or its classifier is not linear
        pass
    return ModelOverview(
        to_numpy(norms).reshape(trace.grid), np.stack(maps), probabilities, contributions
    )
