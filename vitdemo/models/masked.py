"""A masked autoencoder around our Vision Transformer (He et al. 2022): learning without labels.

The encoder sees a part of the patches and nothing of the rest; a small decoder gets its tokens,
with one learnt token in every hidden place, and says what is there. What the encoder has learnt is
where a training with labels starts; the decoder is thrown away.

Letters: B batch, P patches, K of them that are seen, p a patch's side, D width, E decoder's width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitdemo.errors import ModelError
from vitdemo.models.vit import Block, PatchEmbed, VisionTransformer, sincos_position


class MaskedAutoencoder(nn.Module):
    """Pictures and the places of the patches that are seen -> pixels of all patches.

    Args:
        encoder: trained in place, its head apart, which no picture reaches.
        decoder_depth: blocks of the decoder, which is half as wide and has as many heads.

    Raises `ModelError` where the encoder's tokens see beyond their patch.
    """

    def __init__(self, encoder: VisionTransformer, decoder_depth: int = 2):
        super().__init__()
        if not isinstance(getattr(encoder, "patch_embed", None), PatchEmbed):
            raise ModelError(
                "mask_share needs one of our Vision Transformers whose stem is 'patch': with any "
                "other, tokens that are seen would tell of pixels that are hidden."
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
        own = {f"encoder.{name}" for name in self.encoder.no_weight_decay()}
        return own | {"mask_token"}

    def encode(self, images: Tensor, seen: Tensor) -> Tensor:
        """Normed tokens (B, 1 + K, D) of the patches at `seen` (B, K) alone."""
        encoder = self.encoder
        x = encoder._pos_embed(encoder.patch_embed(images))  # (B, 1 + P, D)
        x = torch.cat([x[:, :1], gather(x[:, 1:], seen)], dim=1)
        for block in encoder.blocks:
            x = block(x)
        return encoder.norm(x)

    def forward(self, images: Tensor, seen: Tensor) -> Tensor:
        """Pictures (B, 3, S, S), places (B, K) -> (B, P, 3 * p * p), standardised in each patch."""
        x = self.decoder_embed(self.encode(images, seen))  # (B, 1 + K, E)
        hidden = self.mask_token.expand(len(x), len(self.positions), -1)  # (B, P, E)
        places = seen[..., None].expand(-1, -1, x.shape[-1])
        patches = hidden.scatter(1, places, x[:, 1:].to(hidden.dtype)) + self.positions
        x = torch.cat([x[:, :1].to(hidden.dtype), patches], dim=1)
        for block in self.decoder_blocks:
            x = block(x)
        return self.decoder_pred(self.decoder_norm(x[:, 1:]))


def gather(tokens: Tensor, places: Tensor) -> Tensor:
    """Tokens (B, P, D) at `places` (B, K) -> (B, K, D)."""
    return tokens.gather(1, places[..., None].expand(-1, -1, tokens.shape[-1]))


def patches_of(images: Tensor, patch_size: int) -> Tensor:
    """Pictures (B, 3, S, S) -> the pixels of their patches, row by row (B, P, 3 * p * p)."""
    return F.unfold(images, patch_size, stride=patch_size).transpose(1, 2)


def standardised(patches: Tensor) -> Tensor:
    """Each patch (.., n) less its mean, over its standard deviation (He et al. 2022, table 1d)."""
    mean, variance = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True)
    return (patches - mean) / (variance + 1e-6).sqrt()


def hidden_loss(said: Tensor, images: Tensor, seen: Tensor, patch_size: int) -> Tensor:
    """Mean squared error (B,) in the patches that were not seen; 1 is what a flat guess has."""
    wanted = standardised(patches_of(images, patch_size))
    errors = (said.float() - wanted).square().mean(-1)  # (B, P)
    hidden = torch.ones_like(errors).scatter(1, seen, 0.0)
    return (errors * hidden).sum(1) / hidden.sum(1)


def draw_seen(count: int, patches: int, mask_share: float, generator: torch.Generator) -> Tensor:
    """Places (count, K) of the patches to be seen of each picture, on the generator's device."""
    seen = min(max(1, round(patches * (1 - mask_share))), patches - 1)
    chance = torch.rand((count, patches), generator=generator, device=generator.device)
    return chance.argsort(1)[:, :seen]
