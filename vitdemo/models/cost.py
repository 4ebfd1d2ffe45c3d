"""What a Vision Transformer of any size costs: parameters and multiply-adds, without weights."""

from dataclasses import dataclass

import torch

from vitdemo.models import ModelSpec, build_model, count_macs, count_parameters

CLASSES = 10


@dataclass(frozen=True)
class VitCost:
    """Of one picture: `macs` of the whole pass, of which `pair_macs` are those of all pairs of
    tokens: queries with keys, and weights with values."""

    tokens: int
    parameters: int
    macs: int
    pair_macs: int

    @property
    def pair_share(self) -> float:
        """Of all multiply-adds, 0 to 1: it grows with the tokens, the rest does not."""
        return self.pair_macs / self.macs


def pair_macs(tokens: int, width: int, layers: int) -> int:
    """Multiply-adds of N x N products: N * N * D for the weights, as many for the values."""
    return 2 * tokens * tokens * width * layers


def vit_cost(image_size: int, patch_size: int, width: int, depth: int, heads: int) -> VitCost:
    """Of our own Vision Transformer with a class token and ten classes.

    Raises `ModelError` where the sizes do not divide.
    """
    options = {"patch_size": patch_size, "embed_dim": width, "depth": depth, "num_heads": heads}
    with torch.device("meta"):  # sizes without numbers
        model = build_model(ModelSpec("vit", image_size, options=options), CLASSES)
    tokens = model.pos_embed.shape[1]
    pairs = pair_macs(tokens, width, depth)
    return VitCost(tokens, count_parameters(model), count_macs(model, image_size), pairs)
