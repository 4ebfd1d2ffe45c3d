"""Random checkpoints in the layout of transformers, and their logits by the published formulas."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

WIDTH, DEPTH, HEADS, PATCH, SIDE, CLASSES = 32, 2, 4, 8, 32, 5
KINDS = {  # model_type: special tokens besides the class token
    "vit": (),
    "deit": ("distillation_token",),
    "dinov2": (),
    "dinov2_with_registers": ("register_tokens",),
}
LABELS = {str(i): name for i, name in enumerate(("ant", "bee", "cat", "dog", "elk"))}


def make_config(kind: str, *, gated: bool = False, teacher: bool = False, **changes) -> dict:
    """Return the config.json of a tiny transformers checkpoint of `kind`, a model_type."""
    names = {"vit": "ViT", "deit": "DeiT", "dinov2": "Dinov2"}
    architecture = names.get(kind, "Dinov2WithRegisters") + "ForImageClassification"
    config = {
        "architectures": [architecture + ("WithTeacher" if teacher else "")],
        "model_type": kind,
        "hidden_size": WIDTH,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": HEADS,
        "image_size": SIDE,
        "patch_size": PATCH,
        "num_channels": 3,
        "hidden_act": "gelu",
        "qkv_bias": True,
        "id2label": LABELS,
    }
    if kind.startswith("dinov2"):
        return config | {"layer_norm_eps": 1e-6, "use_swiglu_ffn": gated} | changes
    return config | {"layer_norm_eps": 1e-12, "intermediate_size": 48} | changes


def make_tensors(
    kind: str, *, gated: bool = False, teacher: bool = False, seed: int = 0
) -> dict[str, Tensor]:
    """Return random tensors of a checkpoint, by the names in files of the Hub."""
    generator = torch.Generator().manual_seed(seed)
    body, dinov2 = f"{kind}.", kind.startswith("dinov2")
    hidden = 4 * WIDTH if dinov2 else 48
    gate = (int(4 * WIDTH * 2 / 3) + 7) // 8 * 8  # hidden width of DINOv2's SwiGLU
    shapes = {"embeddings.cls_token": (1, 1, WIDTH)}
    shapes["embeddings.position_embeddings"] = (
        1,
        (SIDE // PATCH) ** 2 + 1 + (kind == "deit"),
        WIDTH,
    )
    shapes["embeddings.patch_embeddings.projection.weight"] = (WIDTH, 3, PATCH, PATCH)
    shapes["embeddings.patch_embeddings.projection.bias"] = (WIDTH,)
    if kind == "deit":
        shapes["embeddings.distillation_token"] = (1, 1, WIDTH)
    if kind == "dinov2_with_registers":
        shapes["embeddings.register_tokens"] = (1, 4, WIDTH)
    if dinov2:
        shapes["embeddings.mask_token"] = (1, WIDTH)
    for i in range(DEPTH):
        block = f"encoder.layer.{i}."
        linear = {f"attention.attention.{n}": (WIDTH, WIDTH) for n in ("query", "key", "value")}
        linear["attention.output.dense"] = (WIDTH, WIDTH)
        if gated:
            linear |= {"mlp.weights_in": (2 * gate, WIDTH), "mlp.weights_out": (WIDTH, gate)}
        elif dinov2:
            linear |= {"mlp.fc1": (hidden, WIDTH), "mlp.fc2": (WIDTH, hidden)}
        else:
            linear |= {"intermediate.dense": (hidden, WIDTH), "output.dense": (WIDTH, hidden)}
        norms = ("norm1", "norm2") if dinov2 else ("layernorm_before", "layernorm_after")
        for name, shape in linear.items():
            shapes |= {f"{block}{name}.weight": shape, f"{block}{name}.bias": shape[:1]}
        for name in norms:
            shapes |= {f"{block}{name}.weight": (WIDTH,), f"{block}{name}.bias": (WIDTH,)}
        if dinov2:
            shapes |= {f"{block}layer_scale{j}.lambda1": (WIDTH,) for j in (1, 2)}
    shapes |= {"layernorm.weight": (WIDTH,), "layernorm.bias": (WIDTH,)}
    shapes = {body + name: shape for name, shape in shapes.items()}
    heads = ("cls_classifier", "distillation_classifier") if teacher else ("classifier",)
    for name in heads:
        shapes |= {f"{name}.weight": (CLASSES, (1 + dinov2) * WIDTH), f"{name}.bias": (CLASSES,)}
    return {n: 0.3 * torch.randn(shape, generator=generator) for n, shape in shapes.items()}


def compute_logits(
    kind: str, tensors: dict[str, Tensor], images: Tensor, eps: float, *, antialias: bool = False
) -> Tensor:
    """Compute logits (B, C) of `images` (B, 3, S, S) from the raw tensors, without any module.

    The formulas are those of Dosovitskiy et al. 2021, Touvron et al. 2021 and Oquab et al. 2023.
    """

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        scaled = (x - mean) / (variance + eps).sqrt()
        return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    body, dinov2 = f"{kind}.", kind.startswith("dinov2")
    projection = f"{body}embeddings.patch_embeddings.projection"
    x = F.conv2d(images, tensors[f"{projection}.weight"], tensors[f"{projection}.bias"], PATCH)
    grid, x = x.shape[-1], x.flatten(2).transpose(1, 2)  # (B, P, D)
    special = [tensors[f"{body}embeddings.cls_token"]]
    if kind == "deit":
        special.append(tensors[f"{body}embeddings.distillation_token"])
    positions, count = tensors[f"{body}embeddings.position_embeddings"], len(special)
    old = round((positions.shape[1] - count) ** 0.5)
    if old != grid:
        squares = positions[:, count:].reshape(1, old, old, -1).permute(0, 3, 1, 2)
        squares = F.interpolate(squares, (grid, grid), mode="bicubic", antialias=antialias)
        positions = torch.cat([positions[:, :count], squares.flatten(2).transpose(1, 2)], 1)
    x = torch.cat([*(t.expand(len(x), -1, -1) for t in special), x], 1) + positions
    if kind == "dinov2_with_registers":
        registers = tensors[f"{body}embeddings.register_tokens"].expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], registers, x[:, 1:]], 1)
        count += registers.shape[1]
    for i in range(DEPTH):
        block = f"{body}encoder.layer.{i}."
        first, second = ("norm1", "norm2") if dinov2 else ("layernorm_before", "layernorm_after")
        y = norm(block + first, x)
        q, k, v = (
            linear(f"{block}attention.attention.{n}", y).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for n in ("query", "key", "value")
        )  # each (B, H, N, D/H)
        weights = (q @ k.mT / (WIDTH // HEADS) ** 0.5).softmax(-1)
        y = linear(f"{block}attention.output.dense", (weights @ v).transpose(1, 2).flatten(2))
        x = x + y * (tensors[f"{block}layer_scale1.lambda1"] if dinov2 else 1)
        y = norm(block + second, x)
        if f"{block}mlp.weights_in.weight" in tensors:
            gate, up = linear(f"{block}mlp.weights_in", y).chunk(2, -1)
            y = linear(f"{block}mlp.weights_out", F.silu(gate) * up)
        elif dinov2:
            y = linear(f"{block}mlp.fc2", F.gelu(linear(f"{block}mlp.fc1", y)))
        else:
            y = linear(f"{block}output.dense", F.gelu(linear(f"{block}intermediate.dense", y)))
        x = x + y * (tensors[f"{block}layer_scale2.lambda1"] if dinov2 else 1)
    x = norm(f"{body}layernorm", x)
    if dinov2:
        return linear("classifier", torch.cat([x[:, 0], x[:, count:].mean(1)], -1))
    if "cls_classifier.weight" in tensors:
        return (linear("cls_classifier", x[:, 0]) + linear("distillation_classifier", x[:, 1])) / 2
    return linear("classifier", x[:, 0])


def write_checkpoint(folder: Path, kind: str = "vit", **options) -> Path:
    """Write a random checkpoint of `kind` with config and preprocessing into `folder`."""
    changes = options.pop("config", {})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(make_config(kind, **options, **changes)))
    save_file(make_tensors(kind, **options), folder / "model.safetensors")
    processor = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3], "do_resize": True}
    if kind == "vit":
        processor |= {"size": {"height": SIDE, "width": SIDE}}
    else:
        sizes = {"size": {"shortest_edge": 40}, "crop_size": {"height": SIDE, "width": SIDE}}
        processor |= {"do_center_crop": True, **sizes}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder
