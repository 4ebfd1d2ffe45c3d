"""Vision Transformer from scratch, in one file (Dosovitskiy et al. 2021).

The attributes have timm's names. An explanation method for this model therefore also works for
timm's `VisionTransformer`, and vice versa.

Letters: B batch, H heads, N tokens (a class token and P patches), D width, C classes.

    model = VisionTransformer(image_size=32, patch_size=4, num_classes=10)
    model(torch.rand(8, 3, 32, 32)).shape  # (8, 10)
"""

import torch
import torch.nn.functional as F
from timm.layers import DropPath
from torch import Tensor, nn


class PatchEmbed(nn.Module):
    """Patch embedding: a strided convolution that maps images (B, 3, S, S) to tokens (B, P, D)."""

    def __init__(self, image_size: int, patch_size: int, embed_dim: int):
        super().__init__()
        if image_size % patch_size:
            raise ValueError(
                f"image_size {image_size} is not a multiple of patch_size {patch_size}: change one."
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
    """Conv stem: two stages of a 3x3 convolution and a max-pool with stride 2.

    This is the stem of CCT (Hassani et al. 2021). The number of tokens is the same as for patches
    of 4 pixels, but the receptive fields of the tokens overlap. The attributes are as in
    `PatchEmbed`; `proj` is the second convolution.
    """

    def __init__(self, image_size: int, patch_size: int, embed_dim: int, width: int = 64):
        super().__init__()
        if patch_size != 4 or image_size % 4:
            raise ValueError(
                f"image_size {image_size} and patch_size {patch_size} do not fit the conv stem: "
                "choose an image_size that is a multiple of 4, and patch_size 4."
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
    """Multi-head self-attention (Vaswani et al. 2017), with a fused kernel if `fused_attn`."""

    def __init__(self, embed_dim: int, num_heads: int, drop: float):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim {embed_dim} is not a multiple of num_heads {num_heads}: change one "
                "of them."
            )
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scale = self.head_dim**-0.5
        self.fused_attn = True  # timm's name; see training.devices.choose_fused_attention
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
    """Two linear layers with a GELU between them, applied to each token separately."""

    def __init__(self, embed_dim: int, hidden_dim: int, drop: float):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, embed_dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(F.gelu(self.fc1(x)))))


class Block(nn.Module):
    """Pre-norm encoder layer: attention, then MLP, each with a residual connection."""

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
    """Vision Transformer: patches -> tokens -> `depth` blocks -> logits (B, C).

    Args:
        image_size, patch_size: sides in pixels; image_size is a multiple of patch_size.
        embed_dim, num_heads: width D and heads H; D is a multiple of H.
        mlp_ratio: hidden width of the MLP divided by D.
        drop_rate: dropout on the embedded patches and on the outputs of attention and MLP.
        drop_path_rate: probability that the last block is skipped for an image (stochastic depth,
            Huang et al. 2016). The probability falls linearly to 0 at the first block.
        init: "trunc_normal" (std 0.02) or "mimetic" (see `mimetic_init`).
        stem: "patch" (`PatchEmbed`) or "conv" (`ConvEmbed`).
        pos_embed: "learn" or "none"; "none" gives the model no information about positions.
        global_pool: "token" (class token) or "avg" (mean of the patch tokens, no class token).

    Raises `ValueError` if a size is not a multiple as stated above, or if a name is unknown.
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
        """Return the names of parameters without weight decay, for timm's optimizer factory."""
        return {"pos_embed", "cls_token"}

    def group_matcher(self, coarse: bool = False) -> dict:
        """Return patterns that map parameters to layers, for timm's layer-wise learning rates."""
        return {
            "stem": r"^cls_token|pos_embed|patch_embed",
            "blocks": [(r"^blocks\.(\d+)", None), (r"^norm", (99999,))],
        }

    def get_classifier(self) -> nn.Module:
        return self.head

    def _pos_embed(self, x: Tensor) -> Tensor:
        if self.cls_token is not None:
            cls_token = self.cls_token.expand(x.shape[0], -1, -1)  # (B, 1, D)
            x = torch.cat([cls_token, x], dim=1)  # (B, N, D)
        return self.pos_drop(x if self.pos_embed is None else x + self.pos_embed)

    def forward_features(self, images: Tensor) -> Tensor:
        """Compute the tokens (B, N, D) after the final LayerNorm from images (B, 3, S, S)."""
        x = self.patch_drop(self._pos_embed(self.patch_embed(images)))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Map tokens (B, N, D) to logits (B, C), or to the pooled features (B, D)."""
        x = x[:, 0] if self.global_pool == "token" else x.mean(dim=1)  # (B, D)
        return x if pre_logits else self.head(x)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


def sincos_position(rows: int, columns: int, embed_dim: int) -> Tensor:
    """Return sine-cosine position embeddings (rows * columns, D) (Chen et al. 2021, MoCo v3)."""
    if embed_dim % 4:
        raise ValueError(f"embed_dim {embed_dim} is not a multiple of 4: choose a multiple.")
    frequency = 10000 ** -(torch.arange(embed_dim // 4) / (embed_dim // 4))  # (D/4,)
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    angles = [axis.flatten()[:, None] * frequency for axis in (x, y)]  # each (P, D/4)
    return torch.cat([part for a in angles for part in (a.sin(), a.cos())], dim=1)  # (P, D)


@torch.no_grad()
def mimetic_init(model: VisionTransformer, scale: float = 0.7, value_scale: float = 0.4) -> None:
    """Initialise attention similar to trained models (Trockman & Kolter 2023, section 4).

    In each head, the product of query and key weights is close to the identity. The product of
    value and output weights is close to minus the identity. Position embeddings are sines and
    cosines. From the start of training, each token then attends to similar tokens. On a small
    dataset, a model with random weights needs many epochs to learn this pattern.
    """
    D = model.embed_dim
    rows, columns = model.patch_embed.grid_size
    if model.pos_embed is not None:
        model.pos_embed[0, model.num_prefix_tokens :] = sincos_position(rows, columns, D)
    for block in model.blocks:
        attention = block.attn
        for head in range(attention.num_heads):
            span = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
            query, key = _low_rank_factors(scale, scale, D, attention.head_dim)
            attention.qkv.weight[:D][span] = query  # (D/H, D)
            attention.qkv.weight[D : 2 * D][span] = key
        value, output = _low_rank_factors(value_scale, -value_scale, D, D)
        attention.qkv.weight[2 * D :] = value
        attention.proj.weight.copy_(output.T)


def _low_rank_factors(
    noise: float, identity: float, width: int, rank: int
) -> tuple[Tensor, Tensor]:
    """Return factors L, R (rank, D) such that L.T @ R approximates noise * Z + identity * I.

    Z (D, D) is Gaussian noise with standard deviation 1 / sqrt(D), and I is the identity matrix.
    """
    target = noise * torch.randn(width, width) / width**0.5 + identity * torch.eye(width)
    u, s, vh = torch.linalg.svd(target)  # (D, D), (D,), (D, D)
    root = s[:rank].sqrt()
    return (u[:, :rank] * root).T, root[:, None] * vh[:rank]  # each (rank, D)
