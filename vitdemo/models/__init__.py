"""Models by family: vitdemo's ViT, two convolutional models, and timm's pretrained models."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from timm.layers import PatchDropout
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vitdemo.errors import ModelError
from vitdemo.models.convnet import ConvNet, build_resnet18
from vitdemo.models.pretrained import build_timm, load_pretrained_weights, patch_sides
from vitdemo.models.vit import VisionTransformer

CONVOLUTIONAL_FAMILIES = ("convnet", "resnet18")  # model families without attention
FAMILIES = ("vit", *CONVOLUTIONAL_FAMILIES, "timm")
# `sdpa_kernel` changes a setting of the whole process, so only one thread may use it at a time.
_SDPA_LOCK = threading.Lock()


@dataclass(frozen=True)
class ModelSpec:
    """Specification from which a model can be rebuilt; it is saved in `config.json`.

    `image_size` is the side of the input in pixels. `name` is timm's name of the model, for the
    family "timm". `options` are arguments of the model's constructor.
    """

    family: str
    image_size: int = 32
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def build_model(
    spec: ModelSpec,
    num_classes: int,
    *,
    pretrained: bool = False,
    weights: Path | str | None = None,
    keep_head: bool = False,
) -> nn.Module:
    """Build the model of `spec` for C classes: images (B, 3, S, S) -> logits (B, C).

    Args:
        pretrained: start from trained weights: timm's weights, or the file `weights`.
        weights: file with the initial weights. The file must contain all of the model except the
            classifier head (see `weights.find_tensors` for the layouts).
        keep_head: for the family "vit", also load the classifier head instead of creating one.

    Raises `ModelError` for an unknown family or name, for contradictory options, and for weights
    that are not available or belong to another model.
    """
    if spec.family == "vit":
        sizes = {"image_size": spec.image_size, "num_classes": num_classes}
        try:
            model = VisionTransformer(**sizes, **spec.options)
        except ValueError as error:  # the image size may not be a multiple of the patch size
            raise ModelError(str(error)) from error
        needs_weights = pretrained or weights
        return load_pretrained_weights(model, weights, keep_head) if needs_weights else model
    if spec.family in CONVOLUTIONAL_FAMILIES:
        if weights is not None:
            raise ModelError(f"{spec.family} is always trained from scratch: remove --weights.")
        if spec.family == "resnet18":
            return build_resnet18(num_classes)
        return ConvNet(num_classes=num_classes, **spec.options)
    if spec.family == "timm":
        start = {"pretrained": pretrained, "weights": weights}
        return build_timm(spec.name, num_classes, spec.image_size, **start, **spec.options)
    raise ModelError(f"Unknown model family '{spec.family}': choose one of {', '.join(FAMILIES)}.")


def is_vision_transformer(model: nn.Module) -> bool:
    """Return whether `model` is a Vision Transformer, by vitdemo's and timm's attribute names."""
    return hasattr(model, "blocks") and hasattr(model, "patch_embed")


def has_separate_patches(model: nn.Module) -> bool:
    """Return whether each token of a Vision Transformer is a projection of a single patch.

    The result is False for a convolutional stem, whose tokens also depend on pixels around the
    patch.
    """
    embed = model.patch_embed
    proj = getattr(embed, "proj", None)
    is_linear = isinstance(proj, nn.Conv2d) and proj.kernel_size == proj.stride
    return is_linear and not hasattr(embed, "backbone")  # timm's hybrids project ResNet features


def add_patch_dropout(model: nn.Module) -> PatchDropout:
    """Add a layer to `model` that drops random patches during training (Liu et al. 2022).

    The layer drops no patches until its `prob` is set. Because the blocks process only the
    remaining patches, training with half of the patches is about 1.8 times as fast as with all
    patches (benchmarks/log/2026-11-21-cpu.md). Raises `ModelError` if the model has no patches.
    """
    if not hasattr(model, "patch_drop"):
        raise ModelError("patch_dropout needs a Vision Transformer. Set patch_dropout to 0.")
    model.patch_drop = PatchDropout(0.0, num_prefix_tokens=model.num_prefix_tokens)
    return model.patch_drop


def patch_side(model: nn.Module) -> int:
    """Return the side of a Vision Transformer's patches in pixels."""
    return patch_sides(model.patch_embed)[0]


def prefix_token_names(model: nn.Module) -> tuple[str, ...]:
    """Return the names of a model's special tokens: "class token", "register 1", ..."""
    names = {"cls_token": "class token", "dist_token": "distillation token"}
    found = [name for attr, name in names.items() if getattr(model, attr, None) is not None]
    registers = getattr(model, "reg_token", None)  # (1, number, D)
    if registers is not None:
        found += [f"register {i + 1}" for i in range(registers.shape[1])]
    return tuple(found)


def get_classifier_head(model: nn.Module) -> nn.Module:
    """Return the classifier head of a model of timm, vitdemo or torchvision."""
    return model.get_classifier() if hasattr(model, "get_classifier") else model.fc


def extract_features(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Compute the input (B, D) of the classifier head for normalised `images` (B, 3, S, S).

    The input is the class token after the final norm, or the mean of the patch tokens. For a
    convolutional model, the input is the vector of channels after pooling.
    """
    return features_and_logits(model, images)[0]


def features_and_logits(
    model: nn.Module, images: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute features (B, D) and logits (B, C) of `images` (B, 3, S, S) in one forward pass."""
    if hasattr(model, "forward_head"):
        tokens = model.forward_features(images)
        return model.forward_head(tokens, pre_logits=True), model.forward_head(tokens)
    *body, head = model.children()  # a ResNet's layers, registered in the order of the forward pass
    features = nn.Sequential(*body)(images).flatten(1)
    return features, head(features)


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def count_macs(model: nn.Module, image_size: int) -> int:
    """Count the multiply-adds of `model` in matrix products and convolutions for one image."""
    return count_macs_by_module(model, image_size)[""]


def count_macs_by_module(model: nn.Module, image_size: int) -> dict[str, int]:
    """Count the multiply-adds of each module by the module's name; "" is the whole model."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    # Attention must be explicit, because torch 2.11 does not count the fused CPU kernel.
    explicit_attention, counting = sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False)
    with _SDPA_LOCK, explicit_attention, counting as counter, torch.no_grad():
        model(torch.zeros(1, 3, image_size, image_size, device=device))
    model.train(was_training)
    macs = {"": counter.get_total_flops() // 2}
    for name, kinds in counter.get_flop_counts().items():
        _, _, submodule = name.partition(".")  # removes the name of the model's class
        if submodule:
            macs[submodule] = sum(kinds.values()) // 2
    return macs
