"""Queries, keys and values of one layer.

    q, k, v = compute_qkv(model, trace(model, images).tokens[0], layer=0)
    (head_scale(model, 0) * q @ k.mT).softmax(-1)  # (B, H, N, N): the attention of the first layer

Letters: B batch, H heads, N tokens, D width.
"""

from torch import Tensor, nn

from vitdemo.explain.forward_pass import compute_block_qkv, upcast


def compute_qkv(model: nn.Module, tokens: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values, each (B, H, N, D/H), of block `layer` (from 0).

    `tokens` (B, N, D) are the input of the block. Queries and keys are normalised if the model
    normalises them.
    """
    block = model.blocks[layer]
    found = compute_block_qkv(block.attn, block.norm1(tokens))
    return tuple(upcast(each) for each in found)


def head_scale(model: nn.Module, layer: int) -> float:
    """Return the factor of dot products before the softmax, 1 / sqrt(D/H)."""
    return float(model.blocks[layer].attn.scale)
