"""Parameters and multiply-adds of a Vision Transformer of any size, without weights."""

from dataclasses import dataclass

import torch

from vitdemo.models import ModelSpec, build_model, count_macs, count_parameters

CLASSES = 10


@dataclass(frozen=True)
class VitCost:
    """Cost of one forward pass on one image.

    `macs` are all multiply-adds. `pair_macs` are the part in the attention matrix products:
    queries with keys, and attention weights with values.
    """

    tokens: int
    parameters: int
    macs: int
    pair_macs: int

    @property
    def pair_share(self) -> float:
        """Fraction of the multiply-adds in attention matrix products; it grows with the tokens."""
        return self.pair_macs / self.macs


def pair_macs(tokens: int, width: int, layers: int) -> int:
    """Count the multiply-adds of the N x N products: N * N * D each for the weights and values."""
    return 2 * tokens * tokens * width * layers


def vit_cost(image_size: int, patch_size: int, width: int, depth: int, heads: int) -> VitCost:
    """Return the cost of vitdemo's ViT with a class token and ten classes.

    Raises `ModelError` if the sizes are not multiples of each other.
    """
    options = {"patch_size": patch_size, "embed_dim": width, "depth": depth, "num_heads": heads}
    with torch.device("meta"):  # tensors with shapes but no values
        model = build_model(ModelSpec("vit", image_size, options=options), CLASSES)
    tokens = model.pos_embed.shape[1]
    pairs = pair_macs(tokens, width, depth)
    return VitCost(tokens, count_parameters(model), count_macs(model, image_size), pairs)
