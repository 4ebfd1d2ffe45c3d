"""Computation of a Vision Transformer's parameters and multiply-adds, without its weights."""

from dataclasses import dataclass

import torch

from vitdemo.models import ModelSpec, build_model, count_macs, count_parameters

NUM_CLASSES = 10


@dataclass(frozen=True)
class VitCost:
    """Cost of a Vision Transformer: number of tokens, parameters, and multiply-adds per image.

    `macs` are all multiply-adds. `attention_matrix_macs` are only the multiply-adds of queries with
    keys, and of attention weights with values.
    """

    tokens: int
    parameters: int
    macs: int
    attention_matrix_macs: int

    @property
    def attention_matrix_fraction(self) -> float:
        """Fraction of all multiply-adds that are in attention matrix products, 0 to 1."""
        return self.attention_matrix_macs / self.macs


def count_attention_matrix_macs(tokens: int, width: int, layers: int) -> int:
    """Count the multiply-adds of attention matrix products: 2 * N * N * D per layer."""
    return 2 * tokens * tokens * width * layers


def compute_vit_cost(
    image_size: int, patch_size: int, width: int, depth: int, heads: int
) -> VitCost:
    """Return the cost of vitdemo's ViT with a class token and ten classes.

    Raises `ModelError` if `image_size` is not a multiple of `patch_size`, or if `width` is not a
    multiple of `heads`.
    """
    options = {"patch_size": patch_size, "embed_dim": width, "depth": depth, "num_heads": heads}
    with torch.device("meta"):  # tensors with shapes but no values
        model = build_model(ModelSpec("vit", image_size, options=options), NUM_CLASSES)
    tokens = model.pos_embed.shape[1]
    pairs = count_attention_matrix_macs(tokens, width, depth)
    return VitCost(tokens, count_parameters(model), count_macs(model, image_size), pairs)
