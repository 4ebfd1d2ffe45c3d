"""Grad-CAM (Selvaraju et al. 2017, https://arxiv.org/abs/1610.02391, equations 1 and 2).

The patches of a Vision Transformer replace the positions of a convolution.

Letters: B batch, D width.
"""

import torch
from torch import Tensor

from vitdemo.explain.attributions.method import AttributionInput, AttributionMethod
from vitdemo.explain.forward_pass import upcast
from vitdemo.models.capabilities import has_attention


def compute_grad_cam(subject: AttributionInput) -> Tensor:
    return compute_signed_grad_cam(subject).clamp(min=0)


def compute_signed_grad_cam(subject: AttributionInput) -> Tensor:
    """Compute Grad-CAM without its last step, which sets negative values to 0."""
    if has_attention(subject.model):
        found, prefix = subject.gradients, subject.model.num_prefix_tokens
        features, gradients = (
            each[:, prefix:].mT.unflatten(2, subject.grid)
            for each in (found.features, found.feature_gradients)
        )
    else:
        features, gradients = _find_spatial_features(subject)
    weights = upcast(gradients).mean(dim=(2, 3), keepdim=True)  # (B, D, 1, 1)
    return (upcast(features) * weights).sum(dim=1)


@torch.enable_grad()
def _find_spatial_features(subject: AttributionInput) -> tuple[Tensor, Tensor]:
    """Return the last features (B, D, rows, columns) of a convolutional model, and gradients."""
    with torch.no_grad():
        features = subject.model.forward_features(subject.images)
    logits = subject.model.forward_head(features.requires_grad_())
    (gradients,) = torch.autograd.grad((logits * subject.class_weights).sum(), features)
    return features.detach(), gradients


METHOD = AttributionMethod(
    "grad_cam",
    "Grad-CAM",
    "Input features of the last attention layer (in a convolutional model: output of the last "
    "convolution), weighted by their mean gradient for the class. Negative values are set to 0. A "
    "position in a late layer may contain information from other patches.",
    compute_grad_cam,
    needs_gradients=True,
    compute_ranking=compute_signed_grad_cam,
)
