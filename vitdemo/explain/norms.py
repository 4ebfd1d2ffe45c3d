"""Norm-weighted attention: the norm of the vector that a token receives from each other token.

Kobayashi et al. 2020, https://arxiv.org/abs/2004.10102, equations 3 to 5. A token i receives
alpha_ij * f(x_j) from the token j, where f(x) = (x W_V + b_V) W_O. A large attention weight
alpha_ij passes on little if the norm of f(x_j) is small. Here x_j is the normalised token that
enters the attention. The function f includes LayerScale if the model has it, so f(x_j) is in the
units of the residual stream. The bias of the output projection is left out, because it comes from
no token.

All norms are computed from the attention and from the inner products of the heads' f_h(x_j). This
avoids a tensor of N * N vectors of width D.

    found = trace(model, images)
    products = value_products(model, found.tokens)  # (L, B, N, H, H)
    norms_to_weights(head_norms(found.attention, products))  # (L, B, H, N, N): rows sum to one
    norms_to_weights(summed_head_norms(found.attention, products))  # (L, B, N, N), all heads

Letters: B batch, L layers, H heads, N tokens, D width.
"""

import torch
from torch import Tensor, nn

from vitdemo.explain.qkv import compute_qkv
from vitdemo.models.plain_vit import check_plain_vit


def value_products(model: nn.Module, tokens: Tensor) -> Tensor:
    """Compute the inner products of the heads' transformed values f_h(x_j), (L, B, N, H, H).

    `tokens` (L+1, B, N, D) come from `trace`. Raises `TypeError` for a model that `trace` rejects.
    Also raises `TypeError` if the model normalises the joined heads before the output projection.
    The attention's output is then not a sum over tokens and heads.
    """
    check_plain_vit(model)
    layers = [_layer_products(model, layer, x) for layer, x in enumerate(tokens[:-1])]
    return torch.stack(layers)


def head_norms(attention: Tensor, products: Tensor) -> Tensor:
    """Compute the norm (..., H, N, N) of alpha * f_h(x_j) for each head from `attention`.

    `products` (..., N, H, H) come from `value_products`.
    """
    lengths = products.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()  # (..., N, H)
    return attention * lengths.mT[..., None, :]  # (..., H, N, N)


def summed_head_norms(attention: Tensor, products: Tensor) -> Tensor:
    """Compute the norm (..., N, N) of the sum over heads of alpha * f_h(x_j)."""
    pairs = attention.movedim(-3, -1)  # (..., N, N, H): receiver, sender, head
    # |sum_h a_h f_h|^2 = sum_hk a_h a_k <f_h, f_k>, for each sender j.
    squares = torch.einsum("...ijh,...jhk,...ijk->...ij", pairs, products, pairs)
    return squares.clamp(min=0).sqrt()  # rounding may give negative values


def norms_to_weights(norms: Tensor) -> Tensor:
    """Divide each row (..., N) by its sum; a row of zeros becomes uniform."""
    total = norms.sum(dim=-1, keepdim=True)
    empty = total <= torch.finfo(norms.dtype).tiny
    return torch.where(empty, 1 / norms.shape[-1], norms / total.masked_fill(empty, 1.0))


def _layer_products(model: nn.Module, layer: int, x: Tensor) -> Tensor:
    """Compute the inner products (B, N, H, H) of the heads' values in `layer` with input `x`."""
    block = model.blocks[layer]
    if not isinstance(getattr(block.attn, "norm", None), nn.Identity | None):
        raise TypeError(
            f"{type(model).__name__} normalises its joined heads before the output projection, so "
            "norm-weighted attention is not defined. Show the attention weights instead."
        )
    _, _, values = compute_qkv(model, x, layer)  # (B, H, N, D/H)
    projection = block.attn.proj.weight.to(values.dtype)  # (D, D): output, input
    gamma = getattr(getattr(block, "ls1", None), "gamma", None)  # LayerScale's factors (D,)
    if gamma is not None:
        projection = gamma.to(values.dtype)[:, None] * projection
    heads = projection.unflatten(1, (values.shape[1], -1)).movedim(0, 2)  # (H, D/H, D)
    passed_on = (values @ heads).transpose(1, 2)  # (B, N, H, D): f_h(x_j)
    return passed_on @ passed_on.mT
