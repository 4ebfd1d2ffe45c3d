"""AttnLRP (Achtibat et al. 2024, https://arxiv.org/abs/2402.05602), averaged over the layers.

The paper shows the relevance of the input. The relevance of the tokens, averaged over the inputs of
all layers, predicts the effect of removed patches better (benchmarks/log/2026-11-30-lrp.md).
"""

from torch import Tensor

from vitdemo.explain.attributions.method import AttributionInput, AttributionMethod
from vitdemo.explain.lrp import compute_token_relevance
from vitdemo.models.capabilities import has_attention


def compute_attnlrp(subject: AttributionInput) -> Tensor:
    found = compute_token_relevance(subject.model, subject.images, subject.class_weights)
    patches = found.mean(dim=0)[:, subject.model.num_prefix_tokens :]  # (B, P)
    return patches.unflatten(1, subject.grid)


METHOD = AttributionMethod(
    "attnlrp",
    "AttnLRP",
    "Part of the class's logit that each patch's token contributes, averaged over the layers "
    "(layer-wise relevance propagation, Achtibat et al. 2024). A token of a late layer also "
    "contains information from other patches.",
    compute_attnlrp,
    supports=has_attention,
    is_signed=True,
    is_linear=True,
)
