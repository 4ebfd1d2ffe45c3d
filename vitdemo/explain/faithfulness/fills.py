"""Replacements for removed patches, and predictions for images with removed patches.

A removed patch is replaced by the input 0 ("mean"), by the blurred image or by a function of the
caller. Alternatively, a ViT can drop the patch's token, without a replacement.

Letters: P patches (rows x columns), n sets of patches, S side, C classes.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from vitdemo.explain import forward_pass
from vitdemo.explain.attributions import (
    ATTRIBUTION_BATCH_SIZE,
    OnStep,
    cell_indices,
)
from vitdemo.models import has_attention, has_separate_patches

FILLS = ("drop", "mean", "blur")
# Function of an image (1, 3, S, S), sets of remaining patches (n, P) and the patch grid. It returns
# n copies of the image with the other patches replaced (n, 3, S, S).
ReplacePatches = Callable[[Tensor, Tensor, tuple[int, int]], Tensor]


def supported_fills(model: nn.Module) -> tuple[str, ...]:
    """Return the replacements in `FILLS` that `model` supports.

    "drop" requires a ViT that computes each token from a single patch.
    """
    can_drop = has_attention(model) and has_separate_patches(model)
    return tuple(fill for fill in FILLS if fill != "drop" or can_drop)


@torch.no_grad()
def predict_patch_sets(
    model: nn.Module,
    image: Tensor,
    sets: Tensor,
    grid: tuple[int, int],
    fill: str | ReplacePatches,
    *,
    on_step: OnStep | None = None,
) -> Tensor:
    """Compute the logits (n, C) of an image (1, 3, S, S) for each set of patches, on the CPU.

    `sets` (n, P) is True for the patches of `grid` that remain. `fill` is one of
    `supported_fills(model)` or a function. `on_step` is called as (done, total); an exception in
    `on_step` stops the computation.
    """
    passed = _predict_dropped if fill == "drop" else _predict_filled
    logits, done = torch.empty(len(sets), model.num_classes, dtype=image.dtype), 0
    for which, part in passed(model, image, sets.to(image.device), grid, fill):
        logits[which.cpu()] = part.to("cpu", image.dtype)
        done += len(which)
        if on_step is not None:
            on_step(done, len(sets))
    return logits


def check_fill(model: nn.Module, fill: str | ReplacePatches) -> None:
    """Raise `ValueError` for a replacement that is unknown or that `model` does not support."""
    if callable(fill):
        return
    if fill not in FILLS:
        raise ValueError(f"Unknown fill '{fill}': choose one of {', '.join(FILLS)}.")
    if fill not in supported_fills(model):
        raise ValueError(
            f"{type(model).__name__} does not compute each token from a single patch, so it does "
            "not support the fill 'drop'. Use 'mean' or 'blur'."
        )


def _predict_filled(
    model: nn.Module,
    image: Tensor,
    sets: Tensor,
    grid: tuple[int, int],
    fill: str | ReplacePatches,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of set indices (b,) and logits (b, C); removed pixels are replaced."""
    hidden = blur_image(image) if fill == "blur" else torch.zeros_like(image)
    cell = cell_indices(*image.shape[-2:], grid, image.device)  # (S, S)
    for which in torch.arange(len(sets), device=image.device).split(ATTRIBUTION_BATCH_SIZE):
        if callable(fill):
            yield which, model(fill(image, sets[which], grid))
        else:
            stays = sets[which][:, None, cell]  # (chunk, 1, S, S)
            yield which, model(torch.where(stays, image, hidden))


def _predict_dropped(
    model: nn.Module, image: Tensor, sets: Tensor, grid: tuple[int, int], fill: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of set indices (b,) and logits (b, C); removed patches have no token."""
    x = forward_pass.embed_images(model, image)  # (1, N, D), with position embeddings
    prefix, patches = x.split([model.num_prefix_tokens, sets.shape[1]], dim=1)
    sizes = sets.sum(dim=1)
    for size in sizes.unique().tolist():
        for which in (sizes == size).nonzero()[:, 0].split(ATTRIBUTION_BATCH_SIZE):
            place = sets[which].nonzero()[:, 1].view(len(which), size)  # (chunk, size)
            tokens = torch.cat([prefix.expand(len(which), -1, -1), patches[0, place]], dim=1)
            yield which, _run_blocks_and_head(model, tokens)


def _run_blocks_and_head(model: nn.Module, x: Tensor) -> Tensor:
    """Compute logits (n, C) from the special tokens and any number of patch tokens."""
    if not forward_pass.reads_class_token(model) and x.shape[1] == model.num_prefix_tokens:
        # The mean over no patch is undefined. Zeros give the bias of the classifier head.
        return model.forward_head(x.new_zeros(len(x), x.shape[1] + 1, x.shape[2]))
    for block in model.blocks:
        x = block(x)
    return model.forward_head(model.norm(x))


def blur_image(image: Tensor) -> Tensor:
    """Blur `image` (1, 3, S, S) by a Gaussian with a standard deviation of S / 8."""
    rows, columns = (_gaussian_matrix(size).to(image) for size in image.shape[-2:])
    return rows @ image @ columns.mT


def _gaussian_matrix(size: int) -> Tensor:
    """Return a blur matrix (size, size): row i has Gaussian weights around i that sum to one."""
    place = torch.arange(size, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((place[:, None] - place) / (size / 8)) ** 2)
    return weights / weights.sum(dim=1, keepdim=True)
