"""The models by family: ours from scratch, two convolutional ones, and timm's pretrained ones."""

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
from vitdemo.models.convnet import ConvNet
from vitdemo.models.pretrained import build_timm, patch_sides, start_from
from vitdemo.models.resnet import build_resnet18
from vitdemo.models.vit import VisionTransformer

CONVOLUTIONAL = ("convnet", "resnet18")  # the families without attention
FAMILIES = ("vit", *CONVOLUTIONAL, "timm")
# `sdpa_kernel` sets the kernels of the whole process, and puts back those that it found.
_KERNELS = threading.Lock()


@dataclass(frozen=True)
class ModelSpec:
    """What it takes to build a model again; stands in `config.json`.

    `image_size` is the side of the input in pixels, `name` timm's name for the family "timm",
    `options` goes to the constructor.
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
    """Build `spec` for `num_classes` classes: images (B, 3, S, S) -> logits (B, C).

    Args:
        pretrained: start from trained weights: timm's own, or those in `weights`.
        weights: a file to start from. All of the model but its head must be in it (see
            `weights.find_tensors` for the layouts).
        keep_head: for the family "vit", the head of `weights` is kept too. Otherwise it is new.

    Raises `ModelError` where the family or timm's name is unknown, our own model's options do not
    fit each other, or the weights cannot be had or are of another model.
    """
    if spec.family == "vit":
        try:
            model = VisionTransformer(
                image_size=spec.image_size, num_classes=num_classes, **spec.options
            )
        except ValueError as error:  # sizes that do not divide
            raise ModelError(str(error)) from error
        return start_from(model, weights, keep_head) if pretrained or weights else model
    if spec.family in CONVOLUTIONAL:
        if weights is not None:
            raise ModelError(f"{spec.family} is always trained from scratch: remove --weights.")
        if spec.family == "resnet18":
            return build_resnet18(num_classes)
        return ConvNet(num_classes=num_classes, **spec.options)
    if spec.family == "timm":
        return build_timm(
            spec.name,
            num_classes,
            spec.image_size,
            pretrained=pretrained,
            weights=weights,
            **spec.options,
        )
    raise ModelError(f"Unknown model family '{spec.family}': choose one of {', '.join(FAMILIES)}.")


def is_vision_transformer(model: nn.Module) -> bool:
    """Whether the model has tokens and attention to look into."""
    return hasattr(model, "blocks") and hasattr(model, "patch_embed")


def patches_stand_alone(model: nn.Module) -> bool:
    """Whether each token of a Vision Transformer is made of its own patch, by one projection.

    A convolutional stem mixes in what lies beside the patch.
    """
    embed = model.patch_embed
    proj = getattr(embed, "proj", None)
    one_step = isinstance(proj, nn.Conv2d) and proj.kernel_size == proj.stride
    return one_step and not hasattr(embed, "backbone")  # timm's hybrids project a ResNet's features


def add_patch_dropout(model: nn.Module) -> PatchDropout:
    """A layer of `model` that takes patches from each image while it trains (Liu et al. 2022).

    None until its `prob` is set. The blocks work on the rest alone: with half of the patches,
    training is about 1.8 times as fast (benchmarks/LOG.md). Raises `ModelError` where the model has
    no patches to drop.
    """
    if not hasattr(model, "patch_drop"):
        raise ModelError("patch_dropout needs a Vision Transformer (vitdemo's or timm's).")
    model.patch_drop = PatchDropout(0.0, num_prefix_tokens=model.num_prefix_tokens)
    return model.patch_drop


def patch_side(model: nn.Module) -> int:
    """Pixels a side that one patch token of a Vision Transformer stands for."""
    return patch_sides(model.patch_embed)[0]


def prefix_token_names(model: nn.Module) -> tuple[str, ...]:
    """The tokens before the patches, in their order: "class token", "register 1", ..."""
    names = {"cls_token": "class token", "dist_token": "distillation token"}
    found = [name for part, name in names.items() if getattr(model, part, None) is not None]
    registers = getattr(model, "reg_token", None)  # (1, number, D)
    count = 0 if registers is None else registers.shape[1]
    return (*found, *(f"register {i}" for i in range(1, count + 1)))


def classifier(model: nn.Module) -> nn.Module:
    """The last layer, which fine-tuning trains first: timm's name for it, else torchvision's."""
    return model.get_classifier() if hasattr(model, "get_classifier") else model.fc


def features(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """What the last layer answers from, (B, D), for normalised `images` (B, 3, S, S).

    The class token after the norm, or the pooled patches; a convolutional model's channels after
    its pooling.
    """
    if hasattr(model, "forward_head"):
        return model.forward_head(model.forward_features(images), pre_logits=True)
    *body, _ = model.children()  # torchvision's ResNet: all but `fc`, in the order of its pass
    return nn.Sequential(*body)(images).flatten(1)


def features_and_logits(
    model: nn.Module, images: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `features` (B, D) and the logits (B, C) of `images` (B, 3, S, S) from one pass."""
    if not hasattr(model, "forward_head"):
        found = features(model, images)
        return found, classifier(model)(found)
    hidden = model.forward_features(images)
    return model.forward_head(hidden, pre_logits=True), model.forward_head(hidden)


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def count_macs(model: nn.Module, image_size: int) -> int:
    """Multiply-adds of one forward pass on one image (matrix products and convolutions)."""
    return macs_by_part(model, image_size)[""]


def macs_by_part(model: nn.Module, image_size: int) -> dict[str, int]:
    """`count_macs` of each module that has some, by its name; "" is the whole model."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    # Attention written out: some versions of torch (2.11) do not count the CPU's fused kernel.
    written_out, counted = sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False)
    with _KERNELS, written_out, counted as counter, torch.no_grad():
        model(torch.zeros(1, 3, image_size, image_size, device=device))
    model.train(was_training)
    found = {"": counter.get_total_flops() // 2}
    for name, kinds in counter.get_flop_counts().items():
        _, _, inside = name.partition(".")  # behind the name of the model's class
        if inside:
            found[inside] = sum(kinds.values()) // 2
    return found
