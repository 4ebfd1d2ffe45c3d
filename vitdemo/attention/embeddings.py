"""What a model has learned of positions and of pixels, before any attention.

Letters: P patches, D width, K filters, p side of a filter in pixels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo.attention import widen


def position_similarity(model: nn.Module) -> Tensor:
    """Cosine of every two patches' position embeddings, (P, P) in -1..1 (ViT paper, figure 7).

    Prefix tokens are left out. Raises `TypeError` for a model without learned positions.
    """
    positions = getattr(model, "pos_embed", None)
    if not isinstance(positions, Tensor):
        raise TypeError(f"{type(model).__name__} has no learned position embedding.")
    rows, columns = model.patch_embed.grid_size
    positions = positions.detach()[
        0, -rows * columns :
    ]  # (P, D): the prefix comes first, if at all
    directions = F.normalize(widen(positions), dim=-1)
    return (directions @ directions.T).clamp(-1, 1)  # (P, P)


def embed_patches(model: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """What each patch of `images` (B, 3, height, width) becomes before the first layer.

    Returns the projections (B, P, D), and what is added to them (B, P, D): the position embedding,
    or zero in a model that adds none here. Their sum enters the first layer.
    """
    projected = model.patch_embed(images)  # (B, P, D)
    tokens = model._pos_embed(projected)[:, model.num_prefix_tokens :]  # (B, P, D)
    projected = widen(projected)
    return projected, widen(tokens) - projected


def principal_parts(vectors: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """`vectors` (P, D) along their first principal components, and each one's share of variance.

    Returns (K, P) and (K,), K being `most` or fewer. The sign of a component is arbitrary: here
    its largest value is positive.
    """
    vectors = widen(vectors)
    centred = vectors - vectors.mean(0)  # (P, D)
    left, strength, _ = torch.linalg.svd(centred, full_matrices=False)
    share = strength.square() / strength.square().sum().clamp_min(1e-12)
    parts = (left * strength)[:, :most].T  # (K, P)
    largest = parts.gather(1, parts.abs().argmax(dim=1, keepdim=True))  # (K, 1)
    return torch.where(largest < 0, -parts, parts), share[:most]


def filters(model: nn.Module) -> Tensor:
    """Weights (K, 3, p, p) of the convolution that reads the pixels, the strongest filter first.

    That is a Vision Transformer's patch embedding, or the first convolution of a stem or of a
    convolutional model.
    Raises `TypeError` where no convolution reads three colours.
    """
    for module in model.modules():  # in the order of registration: what reads pixels comes first
        if isinstance(module, nn.Conv2d) and module.in_channels == 3:
            weight = widen(module.weight.detach())  # (K, 3, p, p)
            return weight[weight.flatten(1).norm(dim=1).argsort(descending=True, stable=True)]
    raise TypeError(f"{type(model).__name__} has no convolution that reads colours.")


def principal_filters(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Principal components of filters (K, 3, p, p): (R, 3, p, p), and each one's share of variance.

    R is the smaller of K and 3*p*p. The ViT paper's figure 7 shows the first 28. The sign of a
    component means nothing; here its largest weight is positive.
    """
    flat = widen(weight.flatten(1))  # (K, 3*p*p)
    _, strength, components = torch.linalg.svd(flat - flat.mean(0), full_matrices=False)
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))  # (R, 1)
    components = components * largest.sign()
    share = strength.square() / strength.square().sum().clamp_min(torch.finfo(flat.dtype).tiny)
    return components.unflatten(1, weight.shape[1:]), share  # (R, 3, p, p), (R,)


def as_colours(weight: Tensor) -> Tensor:
    """Filters (K, 3, p, p) as colours in 0..1: 0.5 is a weight of 0, each to its own largest."""
    weight = widen(weight)
    top = weight.abs().amax(dim=(1, 2, 3), keepdim=True)  # (K, 1, 1, 1)
    return 0.5 + weight / (2 * top.clamp_min(torch.finfo(weight.dtype).tiny))
