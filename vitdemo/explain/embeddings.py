"""Position embeddings and patch-embedding filters of a model.

Letters: P patches, D width, K filters, p side of a filter in pixels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo.explain.forward_pass import upcast


def position_embedding_similarity(model: nn.Module) -> Tensor:
    """Compute the cosine similarity (P, P) of patches' position embeddings (ViT paper, figure 7).

    Raises `TypeError` for a model without learned position embeddings.
    """
    positions = getattr(model, "pos_embed", None)
    if not isinstance(positions, Tensor):
        raise TypeError(f"{type(model).__name__} has no learned position embedding.")
    rows, columns = model.patch_embed.grid_size
    positions = positions.detach()[0, -rows * columns :]  # (P, D), without special tokens
    directions = F.normalize(upcast(positions), dim=-1)
    return (directions @ directions.T).clamp(-1, 1)  # (P, P)


def embed_patches(model: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute patch projections and position embeddings of `images` (B, 3, height, width).

    Returns the projections (B, P, D) and the position embeddings (B, P, D). The sum of both enters
    the first layer. The position embeddings are zero if the model does not add them to the tokens.
    """
    projected = model.patch_embed(images)  # (B, P, D)
    tokens = model._pos_embed(projected)[:, model.num_prefix_tokens :]  # (B, P, D)
    projected = upcast(projected)
    return projected, upcast(tokens) - projected


def project_on_components(vectors: Tensor, max_components: int) -> tuple[Tensor, Tensor]:
    """Project `vectors` (P, D) on their first principal components.

    Returns the projections (K, P) and the explained variance ratios (K,), where K is at most
    `max_components`. The sign of each component is chosen so that its largest value is positive.
    """
    vectors = upcast(vectors)
    centred = vectors - vectors.mean(0)  # (P, D)
    left, strength, _ = torch.linalg.svd(centred, full_matrices=False)
    share = strength.square() / strength.square().sum().clamp_min(1e-12)
    parts = (left * strength)[:, :max_components].T  # (K, P)
    largest = parts.gather(1, parts.abs().argmax(dim=1, keepdim=True))  # (K, 1)
    return torch.where(largest < 0, -parts, parts), share[:max_components]


def get_first_filters(model: nn.Module) -> Tensor:
    """Return the filters (K, 3, p, p) of a model's first convolution, the largest norm first.

    The first convolution is the patch embedding of a Vision Transformer, or belongs to a stem or to
    a convolutional model. Raises `TypeError` if no convolution has three input channels.
    """
    for module in model.modules():  # modules come in order of registration
        if isinstance(module, nn.Conv2d) and module.in_channels == 3:
            weight = upcast(module.weight.detach())  # (K, 3, p, p)
            return weight[weight.flatten(1).norm(dim=1).argsort(descending=True, stable=True)]
    raise TypeError(f"{type(model).__name__} has no RGB convolution: choose another model.")


def compute_filter_components(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the principal components (R, 3, p, p) of filters (K, 3, p, p).

    Also returns the explained variance ratios (R,). R is the smaller of K and 3*p*p. The ViT
    paper's figure 7 shows the first 28 components. The sign of each component is chosen so that
    the weight with the largest absolute value is positive.
    """
    flat = upcast(weight.flatten(1))  # (K, 3*p*p)
    _, strength, components = torch.linalg.svd(flat - flat.mean(0), full_matrices=False)
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))  # (R, 1)
    components = components * largest.sign()
    share = strength.square() / strength.square().sum().clamp_min(torch.finfo(flat.dtype).tiny)
    return components.unflatten(1, weight.shape[1:]), share  # (R, 3, p, p), (R,)


def filters_to_colours(weight: Tensor) -> Tensor:
    """Scale each filter of `weight` (K, 3, p, p) to colours 0 to 1; a weight of 0 becomes 0.5."""
    weight = upcast(weight)
    top = weight.abs().amax(dim=(1, 2, 3), keepdim=True)  # (K, 1, 1, 1)
    return 0.5 + weight / (2 * top.clamp_min(torch.finfo(weight.dtype).tiny))
