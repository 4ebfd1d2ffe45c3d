"""Batched Muon compared with timm's Muon, up to rounding in bfloat16.

Four steps move a weight by about 1e-2, so the tolerance of 2e-4 is 2% of the change.
"""

import copy

import pytest
import torch
from timm.optim import Muon

from vitdemo.models import ModelSpec, build_model
from vitdemo.training.muon import NEWTON_SCHULZ_COEFFICIENTS, BatchedMuon, CapturedStep

SPECS = {
    "vit": ModelSpec("vit", options={"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}),
    "convnet": ModelSpec("convnet", options={"widths": (8, 16, 16)}),
}
OPTIONS = {
    "lr": 0.01,
    "weight_decay": 0.1,
    "momentum": 0.9,
    "ns_coefficients": NEWTON_SCHULZ_COEFFICIENTS,
}


def run_optimizer(model, optimizer_class, steps, nesterov, state=None):
    """Update `model` with one seeded random gradient per step, and return the optimizer."""
    optimizer = optimizer_class(
        [p for p in model.parameters() if p.requires_grad], nesterov=nesterov, **OPTIONS
    )
    if state:
        optimizer.load_state_dict(state)
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for param in optimizer.param_groups[0]["params"]:
            param.grad = torch.randn(param.shape, generator=generator)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("family", SPECS)
def test_batched_muon_equals_timm(family, nesterov):
    torch.manual_seed(0)
    ours = build_model(SPECS[family], 10)
    reference, start = copy.deepcopy(ours), copy.deepcopy(ours)
    run_optimizer(ours, BatchedMuon, range(4), nesterov)
    run_optimizer(reference, Muon, range(4), nesterov)
    for (name, a), b in zip(ours.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-4, msg=name)
    moved = [
        not torch.equal(a, b) for a, b in zip(ours.parameters(), start.parameters(), strict=True)
    ]
    assert sum(moved) >= len(moved) - 1  # the whitening kernel is frozen


def test_gradients_are_kept_after_a_step():
    model = build_model(SPECS["vit"], 10)
    optimizer = run_optimizer(model, BatchedMuon, range(2), True)
    assert all(p.grad is not None for p in optimizer.param_groups[0]["params"])


def test_timm_muon_checkpoint_is_resumable_with_batched_muon():
    torch.manual_seed(0)
    ours = build_model(SPECS["vit"], 10)
    reference = copy.deepcopy(ours)
    run_optimizer(reference, Muon, range(4), True)
    state = run_optimizer(ours, Muon, range(2), True).state_dict()
    run_optimizer(ours, BatchedMuon, range(2, 4), True, state)
    for a, b in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need CUDA")
def test_captured_step_equals_eager_step():
    torch.manual_seed(0)
    captured = build_model(SPECS["vit"], 10).cuda()
    eager = copy.deepcopy(captured)
    optimizers = [BatchedMuon(list(m.parameters()), **OPTIONS) for m in (captured, eager)]

    def clip_and_step(model, optimizer):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step = CapturedStep(optimizers[0], lambda: clip_and_step(captured, optimizers[0]))
    for index in range(8):
        for a, b in zip(captured.parameters(), eager.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for optimizer in optimizers:  # the graph must use the current learning rate
            optimizer.param_groups[0]["lr"] = 0.01 / (1 + index)
        step()
        clip_and_step(eager, optimizers[1])
    assert step.graph is not None
    assert optimizers[0].param_groups[0]["lr"] == 0.01 / 8
    for a, b in zip(captured.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-4)
