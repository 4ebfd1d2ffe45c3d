"""Vision Transformers of unknown origin: sizes and parts are read from the tensors.

    tensors = find_vit_tensors(read_weights_file(Path("model.pth")))
    shape = infer_shape(tensors)  # depth, width, patch size, class token, registers, ...
    spec = make_spec(tensors, shape, shape.image_size, num_heads=6)
    model = build_from_tensors(tensors, shape, spec)

The number of attention heads does not follow from the tensors, except with query/key norm.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from timm.layers import Mlp, SwiGLUPacked
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from vitdemo.errors import ModelError
from vitdemo.models import transformers_names
from vitdemo.models.family import ModelFamily, ModelSpec
from vitdemo.models.weights import (
    Layout,
    NamedTensors,
    describe_misfit,
    drop_extra_tensors,
    find_square_side,
    is_extra_part,
    iter_layouts,
    list_block_numbers,
    upcast_tensors,
)

SUPPORTED_MODELS = (
    "Supported: plain Vision Transformers of timm (ViT, DeiT, DINO, DINOv2, MAE, CLIP image "
    "encoders), transformers' ViT, DeiT and DINOv2, and runs of vitdemo."
)
PATCH_WEIGHT = "patch_embed.proj.weight"
HEAD_WIDTH = 64  # dimensions per attention head in most Vision Transformers
HEAD_NAMES = ("head", "classifier", "fc", "linear")  # a classifier head outside the backbone
# Parts of other architectures, by a pattern of their tensors' names
FOREIGN_PARTS = {
    r"lora_[AB]\b|\.base_layer\.": "LoRA layers, which merge_and_unload() of peft must first merge "
    "with the model",
    r"relative_position_bias|relative_position_index|rel_pos": "relative position bias "
    "(as in Swin and BEiT)",
    r"^layers\.\d+\.(blocks|downsample)|^stages\.": "stages of several resolutions (as in Swin)",
    r"patch_embed\.backbone|embeddings\.patch_embeddings\.backbone": "a convolutional backbone "
    "before the patches (a hybrid)",
    r"attn\.(q_bias|v_bias)|\.inner_attn_ln|rope": "rotary positions or separate biases "
    "(as in EVA and BEiT)",
    r"blocks_token_only": "class attention layers (as in CaiT)",
    r"attn_pool": "attention pooling",
    r"^(conv1|layer1|features)\.": "convolutional layers (as in ResNet)",
}


@dataclass(frozen=True)
class VitShape:
    """Sizes and parts of a Vision Transformer with timm's names.

    `grid` is the number of patches per side, 0 without position embeddings. `pooling` is "token",
    "avg" or "token+patches", the concatenation in transformers' DINOv2 classifiers. `num_heads` is
    0 if unknown.
    """

    num_classes: int
    embed_dim: int
    depth: int
    patch_size: int
    grid: int
    hidden_dim: int
    num_heads: int
    pooling: str
    registers: int
    positions_of_prefix: bool
    is_gated: bool
    has_distillation: bool  # a distillation token
    has_pre_norm: bool  # a norm before the first layer, as in CLIP

    @property
    def image_size(self) -> int:
        """Side of the input in pixels; 0 without position embeddings."""
        return self.grid * self.patch_size


class ClassTokenDistilled(VisionTransformerDistilled):
    """DeiT with a distillation token whose classifier reads only the class token."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.head_dist = None

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Map tokens (B, N, D) to logits (B, C), or to the class token (B, D)."""
        return x[:, 0] if pre_logits else self.head(x[:, 0])


class ConcatenatedVisionTransformer(VisionTransformer):
    """ViT whose classifier reads class token and mean patch (transformers' DINOv2 classifiers)."""

    def __init__(self, *args, num_classes: int, **kwargs):
        super().__init__(*args, num_classes=0, **kwargs)
        self.num_classes = num_classes
        self.head = nn.Linear(2 * self.embed_dim, num_classes)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Map tokens (B, N, D) to logits (B, C), or to the features (B, 2 D)."""
        patches = x[:, self.num_prefix_tokens :]  # (B, P, D)
        # P is 0 if all patches are removed
        mean = patches.mean(1) if patches.shape[1] else torch.zeros_like(x[:, 0])
        features = torch.cat([x[:, 0], mean], dim=1)  # (B, 2 D)
        return features if pre_logits else self.head(features)


ARCHITECTURES = {
    each.__name__: each
    for each in (
        VisionTransformer,
        VisionTransformerDistilled,
        ClassTokenDistilled,
        ConcatenatedVisionTransformer,
    )
}


def find_vit_tensors(content: Mapping[str, Any]) -> NamedTensors:
    """Find a Vision Transformer in the `content` of a weights file; return it by timm's names.

    `content` may be nested, have prefixes ("module.", "backbone."), and contain several copies, of
    which averaged weights are preferred. Tensors become float32. Raises `ModelError` if `content`
    has no Vision Transformer, with the name of the foreign part.
    """
    best = _choose_layout(content)
    tensors = dict(best.tensors)
    if transformers_names.PATCH_WEIGHT in tensors:
        tensors = transformers_names.rename_tensors(tensors)
    tensors = {n: t for n, t in tensors.items() if not _is_part_of_head(n)} | _find_heads(best)
    tensors = {_rename_original(name): tensor for name, tensor in tensors.items()}
    return _fold_class_position(upcast_tensors(tensors))


def count_unused_tensors(content: Mapping[str, Any]) -> dict[str, int]:
    """Count the tensors next to a Vision Transformer that `find_vit_tensors` does not use, by part.

    A part is the first word of the names, for example "decoder_blocks". Mask tokens are left out,
    because only training uses them.
    """
    layout = _choose_layout(content)
    heads = tuple(f"{stem}." for stem in _find_head_stems(layout).values())
    parts = Counter()
    for name in layout.around:
        inner = name.removeprefix(layout.prefix)
        is_body = name.startswith(layout.prefix) and not (
            _is_part_of_head(inner) or inner.startswith("pooler.") or is_extra_part(inner)
        )
        part = inner.partition(".")[0]
        if not is_body and not name.startswith(heads) and part not in ("mask_token", "embeddings"):
            parts[part] += 1
    return dict(parts)


def _choose_layout(content: Mapping[str, Any]) -> Layout:
    layouts = list(iter_layouts(content, (PATCH_WEIGHT, transformers_names.PATCH_WEIGHT)))
    if not layouts:
        raise ModelError(f"{_describe_foreign_parts(content)} {SUPPORTED_MODELS}")
    return min(layouts, key=lambda layout: (layout.rank, -len(layout.tensors)))


def _describe_foreign_parts(content: Mapping[str, Any]) -> str:
    names = [n for layout in iter_layouts(content, ("weight", "bias")) for n in layout.around]
    if found := _find_foreign_part(names):
        return "This model cannot be opened: it has {}, for example in '{}'.".format(*found)
    if not names:
        return "This file contains no tensors with the names of a model."
    return f"This file contains no Vision Transformer; its first tensor is '{names[0]}'."


def _find_foreign_part(names: Collection[str]) -> tuple[str, str] | None:
    """Return the first of `FOREIGN_PARTS` in a model, and the name of its first tensor."""
    for pattern, part in FOREIGN_PARTS.items():
        for name in names:
            if re.search(pattern, name):
                return part, name
    return None


def _is_part_of_head(name: str) -> bool:
    return name.partition(".")[0] in (*HEAD_NAMES, "head_dist")


def _find_heads(layout: Layout) -> NamedTensors:
    """Return the classifier heads next to the model in `layout`, as "head" and "head_dist"."""
    heads = {}
    for target, stem in _find_head_stems(layout).items():
        heads[f"{target}.weight"] = weight = layout.around[f"{stem}.weight"]
        bias = layout.around.get(f"{stem}.bias")
        heads[f"{target}.bias"] = weight.new_zeros(len(weight)) if bias is None else bias
    return heads


def _find_head_stems(layout: Layout) -> dict[str, str]:
    """Return timm's name -> name in the file, for each classifier head."""
    places, prefix = [layout.prefix], layout.prefix
    while prefix:
        prefix = prefix[: prefix[:-1].rfind(".") + 1]  # "model.backbone." -> "model." -> ""
        places.append(prefix)
    wanted = {"head": ("cls_classifier", *HEAD_NAMES)}
    wanted["head_dist"] = ("distillation_classifier", "head_dist")
    found = {}
    for target, names in wanted.items():
        stems = (place + name for place in places for name in names)
        stem = next((s for s in stems if _is_matrix(layout.around.get(f"{s}.weight"))), None)
        if stem:
            found[target] = stem
    return found


def _is_matrix(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.ndim == 2


def _rename_original(name: str) -> str:
    """Return timm's name of a tensor of the original DINOv2 and DeiT III code."""
    name = re.sub(r"\.gamma_([12])$", r".ls\1.gamma", name)
    name = name.replace(".mlp.w12.", ".mlp.fc1.").replace(".mlp.w3.", ".mlp.fc2.")
    return "reg_token" if name == "register_tokens" else name


def _fold_class_position(tensors: NamedTensors) -> NamedTensors:
    """Add the class token's position to the class token, if registers have no position.

    Such a model inserts its registers after the position embeddings (Darcet et al. 2024).
    """
    positions, token = tensors.get("pos_embed"), tensors.get("cls_token")
    if "reg_token" not in tensors or token is None or positions is None or positions.ndim != 3:
        return tensors
    if find_square_side(positions.shape[1] - 1) is None:
        return tensors
    return tensors | {"cls_token": token + positions[:, :1], "pos_embed": positions[:, 1:]}


def infer_shape(tensors: NamedTensors) -> VitShape:
    """Read the sizes and parts of a Vision Transformer from its `tensors` with timm's names.

    Raises `ModelError` with the name of a part that vitdemo does not support.
    """
    if found := _find_foreign_part(tensors):
        part, name = found
        raise ModelError(
            f"This model cannot be opened: it has {part}, in '{name}'. {SUPPORTED_MODELS}"
        )
    projection = tensors[PATCH_WEIGHT]
    if projection.ndim != 4 or projection.shape[1] != 3:
        raise ModelError(
            f"'{PATCH_WEIGHT}' has shape {tuple(projection.shape)}, but vitdemo opens only models "
            "of RGB images whose patches are projected by one convolution."
        )
    width, _, rows, columns = projection.shape
    if rows != columns:
        raise ModelError(
            f"The patches are {rows} x {columns} pixels. Choose a model with square patches."
        )
    numbers = list_block_numbers(tensors)
    depth = max(numbers, default=-1) + 1
    if len(numbers) != depth or not depth:
        missing = sorted(set(range(depth)) - numbers)[:3] or [0]
        raise ModelError(
            f"The weights have no tensors of layer {missing[0] + 1}. The file is incomplete: "
            "download it again."
        )
    registers = tensors["reg_token"].shape[1] if "reg_token" in tensors else 0
    has_class = "cls_token" in tensors
    prefix = has_class + ("dist_token" in tensors) + registers
    grid, of_prefix = _infer_grid(tensors.get("pos_embed"), prefix)
    head = tensors.get("head.weight")
    fc1, fc2 = (_require_matrix(tensors, f"blocks.0.mlp.fc{i}.weight") for i in (1, 2))
    q_norm = tensors.get("blocks.0.attn.q_norm.weight")  # (D/H,)
    reads_both = head is not None and head.shape[1] == 2 * width and has_class
    pooled = not has_class or "fc_norm.weight" in tensors
    return VitShape(
        num_classes=0 if head is None else len(head),
        embed_dim=width,
        depth=depth,
        patch_size=rows,
        grid=grid,
        hidden_dim=fc1.shape[0],
        num_heads=width // q_norm.shape[0] if q_norm is not None else 0,
        pooling="token+patches" if reads_both else "avg" if pooled else "token",
        registers=registers,
        positions_of_prefix=of_prefix,
        is_gated=fc1.shape[0] == 2 * fc2.shape[1],
        has_distillation="dist_token" in tensors,
        has_pre_norm="norm_pre.weight" in tensors,
    )


def _require_matrix(tensors: NamedTensors, name: str) -> Tensor:
    if not _is_matrix(tensors.get(name)):
        raise ModelError(
            f"The weights have no matrix '{name}', which each layer of a supported model has. "
            f"{SUPPORTED_MODELS}"
        )
    return tensors[name]


def _infer_grid(positions: Tensor | None, prefix: int) -> tuple[int, bool]:
    """Return the patches per side, and whether special tokens have position embeddings."""
    if positions is None:
        return 0, False
    if positions.ndim == 3:
        for special in dict.fromkeys((prefix, 0)):
            if side := find_square_side(positions.shape[1] - special):
                return side, special > 0
    raise ModelError(
        f"The position embeddings have shape {tuple(positions.shape)}, which fits no square grid "
        f"of patches with {prefix} special tokens. The model has unknown extra tokens, or its "
        f"images are not square. {SUPPORTED_MODELS}"
    )


def choose_num_heads(shape: VitShape, stated: int = 0) -> tuple[int, bool]:
    """Return the number of attention heads, and whether it is an assumption (64 dimensions each).

    `stated` is the number in the config or from the user, 0 if there is none. Raises `ModelError`
    if `stated` does not fit the model, or if no number can be assumed.
    """
    width = shape.embed_dim
    known = shape.num_heads or stated
    if shape.num_heads and stated and stated != shape.num_heads:
        raise ModelError(
            f"The size of the query norm requires {shape.num_heads} attention heads, not "
            f"{stated}. Correct this number."
        )
    if known:
        if known < 0 or width % known:
            raise ModelError(
                f"{known} attention heads do not fit a width of {width}: state a number that "
                f"divides {width}."
            )
        return known, False
    if width % HEAD_WIDTH:
        raise ModelError(
            f"The number of attention heads is not in the weights, and the width {width} is not a "
            f"multiple of {HEAD_WIDTH}. Add this number, for example PATH?heads=6."
        )
    return width // HEAD_WIDTH, True


def make_spec(
    tensors: NamedTensors,
    shape: VitShape,
    image_size: int,
    *,
    num_heads: int,
    eps: float = 1e-6,
    activation: str = "gelu",
) -> ModelSpec:
    """Return the specification of the model of `shape` for images (B, 3, S, S), S = `image_size`.

    `num_heads` is the number of attention heads H. `eps` and `activation` are the constant of
    LayerNorm, and the activation of the MLP by timm's name.
    """
    architecture = VisionTransformer
    if "+" in shape.pooling:
        architecture = ConcatenatedVisionTransformer
    elif "dist_token" in tensors:
        has_head = "head_dist.weight" in tensors and shape.num_classes > 0
        architecture = VisionTransformerDistilled if has_head else ClassTokenDistilled
    options = {
        "architecture": architecture.__name__,
        "eps": eps,
        "is_gated": shape.is_gated,
        "act_layer": "silu" if shape.is_gated else activation,
        "patch_size": shape.patch_size,
        "embed_dim": shape.embed_dim,
        "depth": shape.depth,
        "num_heads": num_heads,
        # timm rounds width * mlp_ratio down
        "mlp_ratio": (shape.hidden_dim + 0.5) / shape.embed_dim,
        "qkv_bias": "blocks.0.attn.qkv.bias" in tensors,
        "proj_bias": "blocks.0.attn.proj.bias" in tensors,
        "qk_norm": "blocks.0.attn.q_norm.weight" in tensors,
        "init_values": 1.0 if "blocks.0.ls1.gamma" in tensors else None,
        "class_token": "cls_token" in tensors,
        "pos_embed": "learn" if shape.grid else "none",
        "no_embed_class": not shape.positions_of_prefix,
        "reg_tokens": shape.registers,
        "pre_norm": "norm_pre.weight" in tensors,
        "final_norm": "norm.weight" in tensors or "fc_norm.weight" in tensors,
        "fc_norm": "fc_norm.weight" in tensors,
        "global_pool": "avg" if shape.pooling == "avg" else "token",
    }
    return ModelSpec(OPENED.name, image_size, options=options)


def build_opened(spec: ModelSpec, num_classes: int) -> nn.Module:
    """Build a model of a specification from `make_spec`, with unspecified weights."""
    options = dict(spec.options)
    architecture, eps = ARCHITECTURES[options.pop("architecture")], options.pop("eps")
    return architecture(
        img_size=spec.image_size,
        num_classes=num_classes,
        norm_layer=partial(nn.LayerNorm, eps=eps),
        mlp_layer=SwiGLUPacked if options.pop("is_gated") else Mlp,
        weight_init="skip",
        **options,
    )


OPENED = ModelFamily("opened", build_opened, is_third_party=True)


def build_from_tensors(
    tensors: NamedTensors, shape: VitShape, spec: ModelSpec, *, antialias: bool = True
) -> nn.Module:
    """Build the model of `shape` and `spec`, which comes from `make_spec`, and load `tensors`.

    If the image size of `spec` differs from the size in training, the position embeddings are
    interpolated (bicubic, `antialias` as in timm). Raises `ModelError` with a description of the
    misfit if `tensors` do not fit.
    """
    side = shape.image_size or spec.image_size
    with torch.device("meta"):
        model = build_opened(replace(spec, image_size=side), shape.num_classes)
    has_classes = shape.num_classes > 0
    tensors = drop_extra_tensors(tensors, model, with_head=has_classes)
    if misfit := describe_misfit(tensors, model, with_head=has_classes):
        raise ModelError(f"The weights do not form a supported model: {misfit}. {SUPPORTED_MODELS}")
    # The tensors are copied, because tensors of a safetensors file are memory-mapped.
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    model.load_state_dict(copies, strict=True, assign=True)
    left = [n for n, t in [*model.named_parameters(), *model.named_buffers()] if t.is_meta]
    if left:
        raise ModelError(f"The weights have no values for '{left[0]}'. {SUPPORTED_MODELS}")
    if side != spec.image_size:
        _resize(model, spec.image_size, antialias)
    return model.eval()


def _resize(model: nn.Module, image_size: int, antialias: bool) -> None:
    """Interpolate the position embeddings to `image_size`."""
    positions, before = model.pos_embed, model.patch_embed.grid_size
    model.patch_embed.set_input_size((image_size, image_size))
    if positions is None:
        return
    special = 0 if model.no_embed_class else model.num_prefix_tokens
    grid = positions[:, special:].unflatten(1, before).permute(0, 3, 1, 2)  # (1, D, rows, columns)
    size = model.patch_embed.grid_size
    resized = F.interpolate(grid.float(), size, mode="bicubic", antialias=antialias)
    patches = resized.flatten(2).transpose(1, 2)  # (1, P, D)
    model.pos_embed = nn.Parameter(torch.cat([positions[:, :special], patches], dim=1).detach())
