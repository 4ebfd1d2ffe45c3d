"""Learning-rate schedule and optimizer of a training run."""

import math

import torch
from timm.optim import OptimInfo, create_optimizer_v2
from timm.optim._optim_factory import default_registry
from torch import nn

from vitdemo.training.muon import NEWTON_SCHULZ_COEFFICIENTS, BatchedMuon
from vitdemo.training.recipes import Recipe

BATCHED_MUON = "batchedmuon"  # name under which timm's registry lists `BatchedMuon`
default_registry.register(
    OptimInfo(name=BATCHED_MUON, opt_class=BatchedMuon, has_momentum=True, has_betas=True)
)


def learning_rate_factor(recipe: Recipe, epoch: float, total: float) -> float:
    """Return the learning rate at `epoch` of a stage with `total` epochs, divided by its peak."""
    if recipe.schedule == "one-cycle":  # Smith & Topin 2017, torch's default proportions
        peak_epoch = 0.3 * total
        if epoch < peak_epoch:
            return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * epoch / peak_epoch))
        return 0.5 * (1 + math.cos(math.pi * min((epoch - peak_epoch) / (total - peak_epoch), 1.0)))
    if epoch < recipe.warmup_epochs:
        return epoch / recipe.warmup_epochs
    if recipe.schedule == "constant":
        return 1.0
    progress = (epoch - recipe.warmup_epochs) / max(total - recipe.warmup_epochs, 1e-9)
    if recipe.schedule == "linear":
        return max(1 - progress, 0.0)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def build_optimizer(
    model: nn.Module, recipe: Recipe, learning_rate: float, layer_decay: float
) -> torch.optim.Optimizer:
    """Build the optimizer; biases, norms and embeddings have no weight decay."""
    kind, device = recipe.optimizer, next(model.parameters()).device
    options = {
        "adamw": {"betas": recipe.betas, "fused": True},
        "adam": {"betas": recipe.betas, "fused": True},
        "sgd": {"momentum": recipe.momentum, "nesterov": True},
        # Muon is meant for the weight matrices of hidden layers. Class token, position embeddings
        # and output layers use AdamW.
        "muon": {
            "momentum": recipe.momentum,
            "nesterov": True,
            "ns_coefficients": NEWTON_SCHULZ_COEFFICIENTS,
            "fallback_list": ("head*", "fc*", "encoder.head*", "decoder_pred*"),
            "fallback_no_weight_decay": True,
        },
    }[kind]
    if kind in ("adamw", "adam") and device.type == "mps":
        options.pop("fused")
    # On the CPU, batches of matrices are slower than one matrix at a time
    # (benchmarks/log/2026-11-27-gpu.md).
    batched = kind == "muon" and device.type == "cuda"
    return create_optimizer_v2(
        model,
        opt=BATCHED_MUON if batched else kind,
        lr=learning_rate,
        weight_decay=recipe.weight_decay,
        layer_decay=layer_decay if layer_decay < 1 else None,
        **options,
    )
