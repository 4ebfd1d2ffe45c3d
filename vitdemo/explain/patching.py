"""Activation patching between two images: tokens of one image are replaced by tokens of another.

After a chosen layer, some tokens of the first image are replaced by the tokens of the second image
at the same places. The remaining layers then run as usual. The change of the prediction shows
whether these tokens, after this layer, determine the difference between the two predictions. The
method is also called interchange intervention (Geiger et al. 2021,
https://arxiv.org/abs/2106.02997) and causal tracing (Meng et al. 2022,
https://arxiv.org/abs/2202.05262, which adds noise instead of a second input). An early source is
Vig et al. 2020, https://arxiv.org/abs/2004.12265. The effect is measured by the normalised logit
difference, as Zhang & Nanda 2024 recommend (https://arxiv.org/abs/2309.16042).

The model is not changed: the stored tokens of both images are arguments, so the layers before the
replacement do not run again.

Letters: L layers, N tokens (p special tokens, then P patches), D width, C classes, n masks. A layer
k from 0 to L is the number of layers before the replacement.

    first, second = (trace(model, image).tokens[:, 0] for image in (cat, dog))  # (L+1, N, D)
    masks = build_patch_masks(model)  # (P, N), one patch in each mask
    logits = compute_patched_logits(model, first[3], second[3], masks, 3)  # (P, C)
    compute_logit_shares(logits, cat_logits, dog_logits, torch.tensor([3, 5]))  # (P,)
"""

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import classify_tokens, run_block
from vitdemo.models import prefix_token_names
from vitdemo.models.plain_vit import check_plain_vit


def compute_patched_logits(
    model: nn.Module, first: Tensor, second: Tensor, masks: Tensor, layer: int
) -> Tensor:
    """Compute logits (n, C) of the first image with tokens of the second image after `layer`.

    `first` and `second` (N, D) are the tokens of the two images after `layer` layers, from `trace`.
    `masks` is a bool tensor (n, N). Where a mask is True, the token of the second image is used.
    With `layer` 0, the tokens are the input of the first block, which contains the position
    embeddings. With `layer` L, only the final norm and the classifier head follow.

    No values are read, so the function can be recorded as a graph. Raises `ValueError` for a layer
    that does not exist and for tensors of other shapes. Raises `TypeError` for a model that `trace`
    rejects.
    """
    check_plain_vit(model)
    L = len(model.blocks)
    if layer not in range(L + 1):
        raise ValueError(f"There are no tokens after layer {layer}: choose 0 to {L}.")
    if first.ndim != 2 or first.shape != second.shape:
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise ValueError(f"The tokens of both images need one shape (N, D), not {shapes}.")
    if masks.dtype != torch.bool or masks.ndim != 2 or masks.shape[1] != len(first):
        raise ValueError(
            f"`masks` is {masks.dtype} of shape {tuple(masks.shape)}, not torch.bool of shape "
            f"(n, {len(first)})."
        )
    x = torch.where(masks[..., None].to(first.device), second, first)  # (n, N, D)
    for block in model.blocks[layer:]:
        x, *_ = run_block(block, x)
    return classify_tokens(model, x)


def compute_logit_shares(logits: Tensor, first: Tensor, second: Tensor, classes: Tensor) -> Tensor:
    """Return the normalised logit difference (n,) of patched `logits` (n, C).

    `first` and `second` (C,) are the logits of the two images. `classes` (2,) are two classes a and
    b. The share is 0 if logit b minus logit a is as for the first image, and 1 if it is as for the
    second image. The share can be below 0 and above 1. If the difference is the same for both
    images, all shares are 0. No values are read.
    """
    own, start, end = (
        each.index_select(-1, classes).diff(dim=-1)[..., 0] for each in (logits, first, second)
    )
    change = end - start
    is_equal = change == 0
    return torch.where(is_equal, 0.0, (own - start) / torch.where(is_equal, 1.0, change))


def build_patch_masks(model: nn.Module, side: int = 1) -> Tensor:
    """Build masks (n, N) of `side` x `side` neighbouring patches, in reading order.

    The groups at the right and lower edge are smaller if `side` does not divide the grid. Raises
    `ValueError` for a `side` below 1.
    """
    check_plain_vit(model)
    if side < 1:
        raise ValueError(f"A group of patches has a side of {side}, but at least 1 is needed.")
    rows, columns = model.patch_embed.grid_size
    width = -(-columns // side)
    group = (torch.arange(rows) // side)[:, None] * width + torch.arange(columns) // side
    count = -(-rows // side) * width
    patches = group.flatten() == torch.arange(count)[:, None]  # (n, P)
    return torch.cat([patches.new_zeros(count, model.num_prefix_tokens), patches], dim=1)


def build_token_masks(model: nn.Module) -> dict[str, Tensor]:
    """Build one mask (N,) for each set of tokens that the model has.

    The sets are the "class token", all "special tokens" (only if there are others than the class
    token), and all "patches".
    """
    check_plain_vit(model)
    p, names = model.num_prefix_tokens, prefix_token_names(model)
    places = torch.arange(p + model.patch_embed.num_patches)
    masks = {"class token": places == 0} if "class token" in names else {}
    if p > len(masks):
        masks["special tokens"] = places < p
    return masks | {"patches": places >= p}


def draw_random_masks(model: nn.Module, count: int, draws: int, seed: int = 0) -> Tensor:
    """Draw masks (draws, N) of `count` random patches each. The same `seed` gives the same masks.

    Raises `ValueError` if the model has fewer than `count` patches.
    """
    check_plain_vit(model)
    p, P = model.num_prefix_tokens, model.patch_embed.num_patches
    if not 0 <= count <= P:
        raise ValueError(f"{count} random patches are not possible: the model has {P} patches.")
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.rand(draws, P, generator=generator).argsort(dim=1)
    patches = torch.zeros(draws, P, dtype=torch.bool).scatter(1, ranks[:, :count], True)
    return torch.cat([patches.new_zeros(draws, p), patches], dim=1)
