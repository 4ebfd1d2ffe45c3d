"""Overview of one image in a Vision Transformer: tokens, attention maps and prediction by layer.

    overview = compute_overview(model, context.trace_image(run, image))
    overview.maps[-1]  # (rows, columns): the attention of the last layer

Letters: L layers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitdemo.explain.attention import classifier_map
from vitdemo.explain.forward_pass import upcast
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_attribution import compute_contributions
from vitdemo.explain.logit_lens import predict_after_layers


@dataclass(frozen=True, eq=False)
class ModelOverview:
    """Results of each step from the patches of one image to the predicted class.

    `token_norms` (rows, columns) are the norms of the patch tokens before the first layer. `maps`
    (L, rows, columns) are each layer's attention to the patches, as the mean of the heads.
    `probabilities` (L,) are the logit lens's probabilities of the predicted class after each layer,
    or (0,) for a model without classes. `contributions` (L,) are the direct contributions of each
    layer, attention and MLP, to the logit of this class, or (0,) if the model does not support
    them.
    """

    token_norms: Tensor
    maps: Tensor
    probabilities: Tensor
    contributions: Tensor


def compute_overview(model: nn.Module, trace: ImageTrace) -> ModelOverview:
    """Compute the overview of an image from its trace. The function reads no values of tensors."""
    first = trace.num_prefix_tokens
    norms = upcast(trace.tokens[0, first:]).norm(dim=-1)  # (P,)
    maps = classifier_map(trace.attention.mean(1), first, trace.classifier_rows)  # (L, P)
    probabilities = contributions = torch.zeros(0)
    if trace.run.classes:
        by_layer = predict_after_layers(model, trace.tokens[:, None])[1:, 0]  # (L, C)
        predicted = by_layer[-1].argmax()[None]
        probabilities = by_layer.index_select(1, predicted)[:, 0]
        try:
            parts = compute_contributions(model, trace.tokens, predicted)
            contributions = (parts.heads.sum(-1) + parts.attention_bias + parts.mlps)[0]
        except TypeError:  # the classifier is not linear
            pass
    return ModelOverview(
        norms.view(trace.grid), maps.unflatten(1, trace.grid), probabilities, contributions
    )
