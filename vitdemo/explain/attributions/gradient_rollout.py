"""Gradient-weighted rollout, see `vitdemo.explain.attention.gradient_rollout`."""

from torch import Tensor

from vitdemo.explain import attention
from vitdemo.explain.attributions.method import AttributionInput, AttributionMethod
from vitdemo.models.capabilities import has_attention


def compute_gradient_rollout(subject: AttributionInput) -> Tensor:
    found = subject.gradients
    matrix = attention.gradient_rollout(found.attention, found.attention_gradients)
    return subject.to_patch_maps(matrix)


METHOD = AttributionMethod(
    "gradient_rollout",
    "Gradient-weighted rollout",
    "Attention rollout in which the attention weights of each layer are multiplied by the "
    "gradient of the class's logit. The effects of attention heads with opposite signs can cancel "
    "out, and layers with a small gradient contribute little.",
    compute_gradient_rollout,
    supports=has_attention,
    needs_gradients=True,
)
