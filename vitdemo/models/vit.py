"""A Vision Transformer from scratch, readable top to bottom (Dosovitskiy et al. 2021).

The attributes carry timm's names, so whatever explains this model explains every timm
`VisionTransformer`, and the other way round.

Letters: B batch, H heads, N tokens (P patches, and a class token before them), D width, C classes.

    model = VisionTransformer(image_size=32, patch_size=4, num_classes=10)
    model(torch.rand(8, 3, 32, 32)).shape  # (8, 10)
"""

import torch
import torch.nn.functional as F
from timm.layers import DropPath
from torch import Tensor, nn


class PatchEmbed(nn.Module):
    """Cut a picture into patches and map each to a token, with one strided convolution."""

    def __init__(self, image_size: int, patch_size: int, embed_dim: int):
        super().__init__()
        if image_size % patch_size:
            raise ValueError(
                f"image_size {image_size} is not a multiple of patch_size {patch_size}."
            )
        self.img_size = (image_size, image_size)
        self.patch_size = (patch_size, patch_size)
        self.grid_size = (image_size // patch_size, image_size // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Conv2d(3, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        x = self.proj(images)  # (B, D, rows, columns)
        return x.flatten(2).transpose(1, 2)  # (B, P, D)


class ConvEmbed(nn.Module):
    """Tokens from two stages of a 3x3 convolution and a pool that halves.

    The stem of CCT (Hassani et al. 2021). As many tokens as patches of 4 pixels would give, but
    their fields of view overlap. The attributes are `PatchEmbed`'s; `proj` is the second
    convolution.
    """

    def __init__(self, image_size: int, patch_size: int, embed_dim: int, width: int = 64):
        super().__init__()
        if patch_size != 4 or image_size % 4:
            raise ValueError(
                f"The conv stem makes a token of every 4 pixels: image_size {image_size} is not a "
                f"multiple of 4, or patch_size {patch_size} is not 4."
            )
        self.img_size = (image_size, image_size)
        self.patch_size = (patch_size, patch_size)
        self.grid_size = (image_size // patch_size, image_size // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.conv = nn.Conv2d(3, width, kernel_size=3, padding=1, bias=False)
        self.proj = nn.Conv2d(width, embed_dim, kernel_size=3, padding=1, bias=False)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        for convolution in (self.conv, self.proj):
            nn.init.kaiming_normal_(convolution.weight)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(F.relu(self.conv(images)))  # (B, width, S/2, S/2)
        x = self.pool(F.relu(self.proj(x)))  # (B, D, rows, columns)
        return x.flatten(2).transpose(1, 2)  # (B, P, D)


STEMS = {"patch": PatchEmbed, "conv": ConvEmbed}


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017), fused unless `fused_attn` is False."""

    def __init__(self, embed_dim: int, num_heads: int, drop: float):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"A width (embed_dim) of {embed_dim} cannot be shared by {num_heads} heads "
                "(num_heads): choose a multiple."
            )
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scale = self.head_dim**-0.5
        self.fused_attn = True  # timm's name; see training.devices.fuse_attention
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.proj_drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        B, N, D = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, N, D/H)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)  # (B, H, N, D/H)
        else:
            x = (self.scale * q @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(B, N, D)))


class Mlp(nn.Module):
    """Two linear layers with GELU between them, on each token alone."""

    def __init__(self, embed_dim: int, hidden_dim: int, drop: float):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, embed_dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(F.gelu(self.fc1(x)))))


class Block(nn.Module):
    """A pre-norm encoder layer: attention, then MLP, each added to what came in."""

    def __init__(
        self, embed_dim: int, num_heads: int, mlp_ratio: float, drop: float, drop_path: float
    ):
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.attn = Attention(embed_dim, num_heads, drop)
        self.drop_path1 = DropPath(drop_path) if drop_path else nn.Identity()
        self.norm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.mlp = Mlp(embed_dim, int(embed_dim * mlp_ratio), drop)
        self.drop_path2 = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path1(self.attn(self.norm1(x)))
        return x + self.drop_path2(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    """Patches -> tokens -> `depth` blocks -> logits (B, C) of the class token, or of the mean.

    Args:
        image_size, patch_size: sides in pixels; the first is a multiple of the second.
        embed_dim, num_heads: width D and heads H; the first is a multiple of the second.
        mlp_ratio: hidden width of the MLP over D.
        drop_rate: dropout on the embedded patches and on what attention and MLP add.
        drop_path_rate: chance that the last block is skipped for a picture; falls linearly to 0
            at the first (stochastic depth, Huang et al. 2016).
        init: "trunc_normal" (std 0.02) or "mimetic" (see `mimetic_init`).
        stem: "patch" (`PatchEmbed`) or "conv" (`ConvEmbed`).
        pos_embed: "learn" or "none", which leaves the model no way to tell where a patch was.
        global_pool: "token", or "avg": the answer is read from the patches' mean, and there is no
            class token.

    Raises `ValueError` where sizes do not divide, or one of the names is unknown.
    """

    def __init__(
        self,
        *,
        image_size: int = 32,
        patch_size: int = 4,
        num_classes: int = 10,
        embed_dim: int = 192,
        depth: int = 12,
        num_heads: int = 3,
        mlp_ratio: float = 4.0,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        init: str = "trunc_normal",
        stem: str = "patch",
        pos_embed: str = "learn",
        global_pool: str = "token",
    ):
        super().__init__()
        if stem not in STEMS:
            raise ValueError(f"Unknown stem '{stem}': choose 'patch' or 'conv'.")
        if init not in ("trunc_normal", "mimetic"):
            raise ValueError(f"Unknown init '{init}': choose 'trunc_normal' or 'mimetic'.")
        if pos_embed not in ("learn", "none"):
            raise ValueError(f"Unknown pos_embed '{pos_embed}': choose 'learn' or 'none'.")
        if global_pool not in ("token", "avg"):
            raise ValueError(f"Unknown global_pool '{global_pool}': choose 'token' or 'avg'.")
        self.num_classes = num_classes
        self.embed_dim = embed_dim
        self.global_pool = global_pool
        self.num_prefix_tokens = int(global_pool == "token")
        self.patch_embed = STEMS[stem](image_size, patch_size, embed_dim)
        has_token = global_pool == "token"
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if has_token else None
        tokens = self.num_prefix_tokens + self.patch_embed.num_patches
        positions = torch.zeros(1, tokens, embed_dim)
        self.pos_embed = nn.Parameter(positions) if pos_embed == "learn" else None
        self.pos_drop = nn.Dropout(drop_rate)
        self.patch_drop = nn.Identity()  # timm's name; see models.add_patch_dropout
        rates = torch.linspace(0, drop_path_rate, depth, device="cpu").tolist()
        self.blocks = nn.ModuleList(
            Block(embed_dim, num_heads, mlp_ratio, drop_rate, rate) for rate in rates
        )
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        self.init_weights()
        if init == "mimetic":
            mimetic_init(self)

    def init_weights(self) -> None:
        if self.pos_embed is not None:
            nn.init.trunc_normal_(self.pos_embed, std=0.02)
        if self.cls_token is not None:
            nn.init.normal_(self.cls_token, std=1e-6)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def no_weight_decay(self) -> set[str]:
        """Parameters that decay would only pull towards a wrong zero (timm's optimizer asks)."""
        return {"pos_embed", "cls_token"}

    def group_matcher(self, coarse: bool = False) -> dict:
        """Parameter name -> depth, for timm's layer-wise learning-rate decay."""
        return {
            "stem": r"^cls_token|pos_embed|patch_embed",
            "blocks": [(r"^blocks\.(\d+)", None), (r"^norm", (99999,))],
        }

    def get_classifier(self) -> nn.Module:
        return self.head

    def _pos_embed(self, x: Tensor) -> Tensor:
        if self.cls_token is not None:
            cls_token = self.cls_token.expand(len(x), -1, -1)  # (B, 1, D)
            x = torch.cat([cls_token, x], dim=1)  # (B, N, D)
        return self.pos_drop(x if self.pos_embed is None else x + self.pos_embed)

    def forward_features(self, images: Tensor) -> Tensor:
        """Pictures (B, 3, S, S) -> normed tokens (B, N, D)."""
        x = self.patch_drop(self._pos_embed(self.patch_embed(images)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Normed tokens (B, N, D) -> logits (B, C), or what they are read from (B, D)."""
        x = x[:, 0] if self.global_pool == "token" else x.mean(dim=1)  # (B, D)
        return x if pre_logits else self.head(x)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


def sincos_position(rows: int, columns: int, embed_dim: int) -> Tensor:
    """Sine-cosine position embedding of a grid, (rows*columns, D) (Chen et al. 2021, MoCo v3)."""
    if embed_dim % 4:
        raise ValueError(f"embed_dim {embed_dim} is not a multiple of 4.")
    frequency = 10000 ** -(torch.arange(embed_dim // 4) / (embed_dim // 4))  # (D/4,)
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    angles = [axis.flatten()[:, None] * frequency for axis in (x, y)]  # each (P, D/4)
    return torch.cat([part for a in angles for part in (a.sin(), a.cos())], dim=1)  # (P, D)


@torch.no_grad()
def mimetic_init(model: VisionTransformer, scale: float = 0.7, value_scale: float = 0.4) -> None:
    """Start attention where trained models end up (Trockman & Kolter 2023, section 4).

    In each head the product of query and key weights is near the identity, the product of value
    and output weights near minus the identity; positions start as sine-cosine. So each token first
    looks at what resembles it, which small data sets otherwise take many epochs to find.
    """
    D = model.embed_dim
    rows, columns = model.patch_embed.grid_size
    if model.pos_embed is not None:
        model.pos_embed[0, model.num_prefix_tokens :] = sincos_position(rows, columns, D)
    for block in model.blocks:
        attention = block.attn
        for head in range(attention.num_heads):
            span = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
            query, key = _factor(scale, scale, D, attention.head_dim)
            attention.qkv.weight[:D][span] = query  # (D/H, D)
            attention.qkv.weight[D : 2 * D][span] = key
        value, out = _factor(value_scale, -value_scale, D, D)
        attention.qkv.weight[2 * D :] = value
        attention.proj.weight.copy_(out.T)


def _factor(noise: float, identity: float, width: int, rank: int) -> tuple[Tensor, Tensor]:
    """L, R (rank, D) with L.T @ R as near as that rank allows to noise * Z + identity * I."""
    target = noise * torch.randn(width, width) / width**0.5 + identity * torch.eye(width)
    u, s, vh = torch.linalg.svd(target)  # (D, D), (D,), (D, D)
    root = s[:rank].sqrt()
    return (u[:, :rank] * root).T, root[:, None] * vh[:rank]  # each (rank, D)
