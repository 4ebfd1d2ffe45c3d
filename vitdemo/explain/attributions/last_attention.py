"""Attention of the last layer, averaged over the heads."""

from torch import Tensor

from vitdemo.explain import attention
from vitdemo.explain.attributions.method import AttributionInput, AttributionMethod
from vitdemo.models.capabilities import has_attention


def compute_last_attention(subject: AttributionInput) -> Tensor:
    return subject.to_patch_maps(attention.fuse_heads(subject.attention[-1]))


METHOD = AttributionMethod(
    "attention",
    "Last layer's attention",
    "Attention of the class token to each patch in one layer, averaged over the heads. For a "
    "model without a class token, the mean attention of all patch tokens is shown. The map is the "
    "same for every class. A token of a late layer also contains information from other patches.",
    compute_last_attention,
    supports=has_attention,
    is_class_specific=False,
)
