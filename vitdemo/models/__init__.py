"""Models by family: vitdemo's ViT, two convolutional models, timm's models and opened models.

A new family is a module with a `ModelFamily`, and an entry in `FAMILIES`. The page, the analyses
and the report ask a family or a model for capabilities, never for its name or class.
"""

import threading
from pathlib import Path

import torch
from timm.layers import PatchDropout
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from vitdemo.errors import ModelError
from vitdemo.models.capabilities import (
    extract_features,
    features_and_logits,
    has_attention,
    has_features,
    has_separate_patches,
    list_classifier_heads,
    list_layers,
    patch_side,
    prefix_token_names,
    replace_classifier,
)
from vitdemo.models.convnet import CONVNET, RESNET18
from vitdemo.models.family import ModelFamily, ModelSpec
from vitdemo.models.pretrained import TIMM, VIT
from vitdemo.models.vit_shape import OPENED

__all__ = [  # re-exported names of other modules
    "ModelFamily",
    "ModelSpec",
    "extract_features",
    "features_and_logits",
    "has_attention",
    "has_features",
    "has_separate_patches",
    "list_classifier_heads",
    "list_layers",
    "patch_side",
    "prefix_token_names",
    "replace_classifier",
]

FAMILIES = {family.name: family for family in (VIT, CONVNET, RESNET18, TIMM, OPENED)}
# `sdpa_kernel` changes a setting of the whole process, so only one thread may use it at a time.
_SDPA_LOCK = threading.Lock()


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
    family = get_family(spec)
    if pretrained or weights is not None:
        return family.load(spec, num_classes, weights, keep_head)
    return family.build(spec, num_classes)


def get_family(spec: ModelSpec) -> ModelFamily:
    """Return the family of `spec`; models of an unknown family cannot be built."""
    return FAMILIES.get(spec.family) or ModelFamily(spec.family, _refuse_family)


def _refuse_family(spec: ModelSpec, num_classes: int) -> nn.Module:
    raise ModelError(f"Unknown model family '{spec.family}': choose one of {', '.join(FAMILIES)}.")


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


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def count_macs(model: nn.Module, image_size: int) -> int:
    """Count the multiply-adds of `model` in matrix products and convolutions for one image."""
    return count_macs_by_module(model, image_size)[""]


class ThreadModuleTracker(ModuleTracker):
    """Tracker of modules for one thread: the hooks of `ModuleTracker` also run in other threads."""

    def __init__(self):
        super().__init__()
        self._thread = threading.get_ident()

    def _fw_pre_hook(self, mod: nn.Module, input: object) -> None:
        if threading.get_ident() == self._thread:
            super()._fw_pre_hook(mod, input)

    def _fw_post_hook(self, mod: nn.Module, input: object, output: object) -> None:
        if threading.get_ident() == self._thread:
            super()._fw_post_hook(mod, input, output)


def count_macs_by_module(model: nn.Module, image_size: int) -> dict[str, int]:
    """Count the multiply-adds of each module by the module's name; "" is the whole model."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    # Attention must be explicit, because torch 2.11 does not count the fused CPU kernel.
    explicit_attention, counting = sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False)
    counting.mod_tracker = ThreadModuleTracker()
    with _SDPA_LOCK, explicit_attention, counting as counter, torch.no_grad():
        model(torch.zeros(1, 3, image_size, image_size, device=device))
    model.train(was_training)
    macs = {"": counter.get_total_flops() // 2}
    for name, kinds in counter.get_flop_counts().items():
        _, _, submodule = name.partition(".")  # removes the name of the model's class
        if submodule:
            macs[submodule] = sum(kinds.values()) // 2
    return macs
