"""Attention sinks: the most attended patch of each head, and the content of its value vector.

An attention sink is a token that receives much attention whatever its content (Xiao et al. 2023,
https://arxiv.org/abs/2309.17453). The weights of a query add up to one, so a head with nothing to
pass on still attends to some token. Two properties of the sink's value vector show this: it is
shorter than the others (Gu et al. 2024, https://arxiv.org/abs/2410.10781), or it is the same for
all images, and then acts as a bias. Darcet et al. 2023 (https://arxiv.org/abs/2309.16588) describe
patch tokens with large norms in Vision Transformers, which may also be sinks.

    found = trace(model, images)
    _, _, values = compute_qkv(model, found.tokens[0], layer=0)
    sinks = find_sinks(found.attention[0], values, model.num_prefix_tokens)

Letters: B batch, H heads, N tokens (special tokens, then P patches), D width.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo.explain.forward_pass import upcast


class Sinks(NamedTuple):
    """The patch of each head that receives most attention, averaged over all query tokens."""

    patches: Tensor  # (..., H): index of the patch, from 0
    weights: Tensor  # (..., H): mean attention weight of all queries to this patch, 0 to 1
    norm_ratios: Tensor  # (..., H): norm of its value, divided by the mean norm of all patches
    directions: Tensor  # (..., H, D/H): its value, divided by the norm


def find_sinks(attention: Tensor, values: Tensor, num_prefix_tokens: int) -> Sinks:
    """Find the most attended patch of each head.

    `attention` is (..., H, N, N), and `values` are (..., H, N, D/H), as from `compute_qkv`. No
    values of tensors are read, so that the function can be recorded as a graph.
    """
    received = upcast(attention).mean(dim=-2)[..., num_prefix_tokens:]  # (..., H, P)
    patch_values = upcast(values)[..., num_prefix_tokens:, :]  # (..., H, P, D/H)
    weights, patches = received.max(dim=-1)
    norms = patch_values.norm(dim=-1)  # (..., H, P)
    known = torch.arange(norms.shape[-1], device=norms.device)
    is_sink = patches[..., None] == known  # (..., H, P)
    own = (patch_values * is_sink[..., None]).sum(dim=-2)  # (..., H, D/H)
    ratios = own.norm(dim=-1) / norms.mean(dim=-1)
    return Sinks(patches, weights, ratios, F.normalize(own, dim=-1))


def compute_mean_directions(values: Tensor, num_prefix_tokens: int) -> Tensor:
    """Return the mean (..., H, D/H) over patches of `values` (..., H, N, D/H) with the norm 1."""
    return F.normalize(upcast(values)[..., num_prefix_tokens:, :], dim=-1).mean(dim=-2)


def compare_images(directions: Tensor) -> Tensor:
    """Compute the mean cosine similarity (..., H) of all pairs of different images.

    `directions` (B, ..., H, D/H) are those of `find_sinks`, for the sinks of B images. With those
    of `compute_mean_directions`, the mean is over all pairs of patches of different images. Raises
    `ValueError` for a single image.
    """
    if (B := len(directions)) < 2:
        raise ValueError("The similarity between images needs at least two images.")
    total = directions.sum(dim=0).square().sum(dim=-1)  # (..., H)
    own = directions.square().sum(dim=-1).sum(dim=0)
    return (total - own) / (B * (B - 1))
