"""Attention rollout (Abnar & Zuidema 2020, https://arxiv.org/abs/2005.00928)."""

from torch import Tensor

from vitdemo.explain import attention
from vitdemo.explain.attributions.method import AttributionInput, AttributionMethod
from vitdemo.models.capabilities import has_attention


def compute_rollout(subject: AttributionInput) -> Tensor:
    prefix = subject.model.num_prefix_tokens
    return subject.to_patch_maps(attention.rollout(subject.attention, num_prefix_tokens=prefix))


METHOD = AttributionMethod(
    "rollout",
    "Attention rollout",
    "Product of the attention matrices of all layers (Abnar & Zuidema 2020). The map is the same "
    "for every class, and gives all heads and layers the same importance.",
    compute_rollout,
    supports=has_attention,
    is_class_specific=False,
)
