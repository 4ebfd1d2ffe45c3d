"""Parameters and multiply-adds of a Vision Transformer of any size, without weights."""

from dataclasses import dataclass

import torch

from vitdemo.models import ModelSpec, build_model, count_macs, count_parameters

NUM_CLASSES = 10


@dataclass(frozen=True)
class VitCost:
    """Cost of one forward pass on one image.

    `macs` are all multiply-adds. `attention_matrix_macs` is the part in the attention
    matrix products: queries with keys, and attention weights with values.
    """

    tokens: int
    parameters: int
    macs: int
    attention_matrix_macs: int

    @property
    def attention_matrix_fraction(self) -> float:
        """Fraction of the multiply-adds in attention matrix products; it grows with the tokens."""
        return self.attention_matrix_macs / self.macs


def count_attention_matrix_macs(tokens: int, width: int, layers: int) -> int:
    """Count the multiply-adds of the N x N products: N * N * D each for the weights and values."""
    return 2 * tokens * tokens * width * layers


def compute_vit_cost(
    image_size: int, patch_size: int, width: int, depth: int, heads: int
) -> VitCost:
    """Return the cost of vitdemo's ViT with a class token and ten classes.

    Raises `ModelError` if the sizes are not multiples of each other.
    """
    options = {"patch_size": patch_size, "embed_dim": width, "depth": depth, "num_heads": heads}
    with torch.device("meta"):  # tensors with shapes but no values
        model = build_model(ModelSpec("vit", image_size, options=options), NUM_CLASSES)
    tokens = model.pos_embed.shape[1]
    pairs = count_attention_matrix_macs(tokens, width, depth)
    return VitCost(tokens, count_parameters(model), count_macs(model, image_size), pairs)
