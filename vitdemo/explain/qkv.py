"""Queries, keys and values of all heads in one layer.

    q, k, v = compute_qkv(model, trace(model, images).tokens[0], layer=0)
    (head_scale(model, 0) * q @ k.mT).softmax(-1)  # (B, H, N, N): the attention of the first layer

Letters: B batch, H heads, N tokens, D width.
"""

import torch
from torch import Tensor, nn

from vitdemo.explain.forward_pass import compute_block_qkv, upcast


def compute_qkv(model: nn.Module, tokens: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values, each (B, H, N, D/H), of block `layer` (from 0).

    `tokens` (B, N, D) are the input of the block. If the model has query/key norm, the returned
    queries and keys are normalised.
    """
    block = model.blocks[layer]
    return tuple(map(upcast, compute_block_qkv(block.attn, block.norm1(tokens))))


def head_scale(model: nn.Module, layer: int) -> float:
    """Return the factor of the dot products before the softmax, normally 1 / sqrt(D/H)."""
    return float(model.blocks[layer].attn.scale)


@torch.inference_mode()
def compute_layer_qkv(model: nn.Module, tokens: Tensor, layer: int) -> Tensor:
    """Compute queries, keys and values (3, H, N, D/H) of `layer` (1..L) for one image.

    `tokens` (L+1, N, D) come from the image's trace. The softmax of `head_scale` times queries
    times keys is the layer's attention.
    """
    return torch.stack(compute_qkv(model, tokens[layer - 1][None], layer - 1))[:, 0]
