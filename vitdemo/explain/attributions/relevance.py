"""Relevance (Chefer et al. 2021, https://arxiv.org/abs/2103.15679)."""

from torch import Tensor

from vitdemo.explain import attention
from vitdemo.explain.attributions.method import AttributionInput, AttributionMethod
from vitdemo.models.capabilities import has_attention


def compute_relevance(subject: AttributionInput) -> Tensor:
    found = subject.gradients
    matrix = attention.accumulate_relevance(found.attention, found.attention_gradients)
    return subject.to_patch_maps(attention.subtract_identity(matrix))


METHOD = AttributionMethod(
    "relevance",
    "Relevance",
    "Attention weights of all layers, weighted by the gradient of the class's logit and "
    "accumulated from layer to layer (Chefer et al. 2021). The map has no negative values, so it "
    "does not show patches that oppose the class. The method ignores the MLPs.",
    compute_relevance,
    supports=has_attention,
    needs_gradients=True,
)
