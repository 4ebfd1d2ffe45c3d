"""What a map depends on: would it be another one for another class, or for another model?

A map that hardly changes when the class does cannot say why this class and not that one, and one
that stays when the head is random shows what the picture or the body of the model has, not what the
head reads from it (sanity checks for saliency maps, Adebayo et al. 2018,
https://arxiv.org/abs/1810.03292).

Letters: P patches.
"""

import copy

import torch
from torch import Tensor, nn

HEADS = ("head", "head_dist", "fc")  # our ViT's and timm's, and torchvision's ResNet's


def randomised_head(model: nn.Module, seed: int = 0) -> nn.Module:
    """`model` with the weights of its last layer drawn anew, as widely spread, without a bias.

    All else is shared, not copied, and the model itself is as it was. Raises `TypeError` where the
    last layer is not a linear one of a known name.
    """
    found = [name for name in HEADS if isinstance(model._modules.get(name), nn.Linear)]
    if not found:
        raise TypeError(f"{type(model).__name__} has no linear last layer of a known name.")
    other, generator = copy.copy(model), torch.Generator().manual_seed(seed)
    other._modules = dict(model._modules)
    for name in found:
        own = model._modules[name]
        head = nn.Linear(own.in_features, own.out_features)
        drawn = torch.randn(own.weight.shape, generator=generator)
        head.weight.data = (drawn * own.weight.std().cpu()).to(own.weight)
        head.bias.data = torch.zeros_like(own.weight[:, 0])
        other._modules[name] = head.requires_grad_(False).train(own.training)
    return other


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Spearman's, of two maps of one shape: 1 for the same order of the patches, 0 for none.

    NaN where a map is the same everywhere.
    """
    ranks = torch.stack([_ranks(first.flatten()), _ranks(second.flatten())])
    return float(torch.corrcoef(ranks)[0, 1])


def _ranks(values: Tensor) -> Tensor:
    """Places of `values` (P,) from the smallest on; equal ones share their mean place."""
    _, which, counts = values.unique(return_inverse=True, return_counts=True)
    return (counts.cumsum(0) - (counts - 1) / 2).double()[which]
