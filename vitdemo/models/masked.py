"""Masked autoencoder for self-supervised pretraining of vitdemo's ViT (He et al. 2022).

The encoder receives only the visible patches. A small decoder receives the encoder's tokens, and a
learned mask token at each masked position, and reconstructs the masked patches. A supervised
training run can then start from the encoder's weights. The decoder is discarded.

Letters: B batch, P patches, K visible patches, p side of a patch, D width, E width of the decoder.
"""

import torch
from torch import Tensor, nn

from vitdemo.errors import ModelError
from vitdemo.models.capabilities import (
    has_attention,
    has_separate_patches,
    prefix_token_names,
)
from vitdemo.models.vit import Block, VisionTransformer, sincos_position


class MaskedAutoencoder(nn.Module):
    """Model that reconstructs the pixels of all patches from the visible patches.

    Args:
        encoder: model to pretrain, in place; its classifier head is not used.
        decoder_depth: blocks of the decoder (half the encoder's width, the same number of heads).

    Raises `ModelError` if a token of the encoder depends on pixels outside its patch, or if the
    encoder has other special tokens than a class token.
    """

    def __init__(self, encoder: VisionTransformer, decoder_depth: int = 2):
        super().__init__()
        if not (has_attention(encoder) and has_separate_patches(encoder)):
            raise ModelError(
                "mask_ratio requires a ViT with the stem 'patch', because other stems mix the "
                "pixels of neighbouring patches: choose another model, or set mask_ratio to 0."
            )
        if prefix_token_names(encoder) != ("class token",):
            raise ModelError(
                "mask_ratio requires a class token and no other special token: choose global_pool "
                "'token'."
            )
        D = encoder.embed_dim
        E, heads = D // 2, encoder.blocks[0].attn.num_heads
        (rows, columns), (p, _) = encoder.patch_embed.grid_size, encoder.patch_embed.patch_size
        self.encoder = encoder
        self.decoder_embed = nn.Linear(D, E)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, E))
        self.register_buffer("positions", sincos_position(rows, columns, E))  # (P, E)
        self.decoder_blocks = nn.ModuleList(
            Block(E, heads, mlp_ratio=4.0, drop=0.0, drop_path=0.0) for _ in range(decoder_depth)
        )
        self.decoder_norm = nn.LayerNorm(E, eps=1e-6)
        self.decoder_pred = nn.Linear(E, 3 * p * p)
        nn.init.normal_(self.mask_token, std=0.02)

    def no_weight_decay(self) -> set[str]:
        names = {f"encoder.{name}" for name in self.encoder.no_weight_decay()}
        return names | {"mask_token"}

    def encode(self, images: Tensor, visible: Tensor) -> Tensor:
        """Encode the class token and the patches at positions `visible` (B, K): (B, 1 + K, D)."""
        encoder = self.encoder
        x = encoder._pos_embed(encoder.patch_embed(images))  # (B, 1 + P, D)
        x = torch.cat([x[:, :1], x[:, 1:].take_along_dim(visible[..., None], dim=1)], dim=1)
        for block in encoder.blocks:
            x = block(x)
        return encoder.norm(x)

    def forward(self, images: Tensor, visible: Tensor) -> Tensor:
        """Predict normalised pixels (B, P, 3 * p * p) from the patches at `visible` (B, K)."""
        x = self.decoder_embed(self.encode(images, visible))  # (B, 1 + K, E)
        masked = self.mask_token.expand(len(x), len(self.positions), -1)  # (B, P, E)
        positions = visible[..., None].expand(-1, -1, x.shape[-1])
        patches = masked.scatter(1, positions, x[:, 1:].to(masked.dtype)) + self.positions
        x = torch.cat([x[:, :1].to(masked.dtype), patches], dim=1)
        for block in self.decoder_blocks:
            x = block(x)
        return self.decoder_pred(self.decoder_norm(x[:, 1:]))


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images (B, 3, S, S) into patches, row by row: (B, P, 3 * p * p)."""
    B, C, H, W = images.shape  # F.unfold launches one kernel per image on CUDA
    grid = images.reshape(B, C, H // patch_size, patch_size, W // patch_size, patch_size)
    return grid.permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * patch_size**2)


def normalise_patches(patches: Tensor) -> Tensor:
    """Normalise the n values of each patch to mean 0 and variance 1 (He et al. 2022, table 1d)."""
    mean, variance = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True)
    return (patches - mean) / (variance + 1e-6).sqrt()


def reconstruction_loss(
    prediction: Tensor, images: Tensor, visible: Tensor, patch_size: int
) -> Tensor:
    """Compute the mean squared error (B,) of `prediction` in the masked patches.

    `prediction` is (B, P, 3 * p * p). The prediction 0 for all pixels has an error of about 1.
    """
    target = normalise_patches(patchify(images, patch_size))
    errors = (prediction.float() - target).square().mean(-1)  # (B, P)
    masked = torch.ones_like(errors).scatter(1, visible, 0.0)
    return (errors * masked).sum(1) / masked.sum(1)


def sample_visible_patches(
    count: int, patches: int, mask_ratio: float, generator: torch.Generator
) -> Tensor:
    """Draw random positions (count, K) of visible patches, on the generator's device."""
    visible = min(max(1, round(patches * (1 - mask_ratio))), patches - 1)
    keys = torch.rand((count, patches), generator=generator, device=generator.device)
    return keys.argsort(1)[:, :visible]
