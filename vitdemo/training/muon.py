"""Muon optimizer that orthogonalises all matrices of one shape in a single batch.

timm's Muon runs the Newton-Schulz iteration once per matrix. For a small network, kernel launches
then take most of the time, especially on a GPU. Here the updates of matrices with the same shape
form one tensor (M, R, C): M matrices of R rows and C columns. Update rule and state are the same as
in timm, so both optimizers can load each other's checkpoints.
"""

from collections import defaultdict
from collections.abc import Callable

import torch
from timm.optim.muon import Muon, get_lr_scale, zeropower_via_newtonschulz
from torch import Tensor

# Coefficients (a, b, c) per Newton-Schulz step, from Keller Jordan's modded-nanogpt and timm.
NEWTON_SCHULZ_COEFFICIENTS = [
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
]


class BatchedMuon(Muon):
    """Muon (Jordan et al. 2024) for matrices, and timm's NAdamW or AdamW for other parameters.

    Takes the arguments of `timm.optim.Muon`. Convolution kernels are flattened to matrices. The
    first step uses timm's code. Later steps never wait for the device, as `CapturedStep` requires.
    """

    @torch.no_grad()
    def step(self) -> None:
        skipped = []  # parameters without gradients, as in timm
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None and self.state[p]]
            matrices = [p for p in params if self.state[p]["use_muon"]]
            others = [p for p in params if not self.state[p]["use_muon"]]
            if matrices:
                self._step_matrices(matrices, group)
            if others:
                self._step_others(others, group)
            skipped += [(p, p.grad) for p in params]
        for param, _ in skipped:
            param.grad = None
        super().step()  # the first step of a parameter, which also creates its state
        for param, grad in skipped:
            param.grad = grad

    def _step_matrices(self, params: list[Tensor], group: dict) -> None:
        grads = [p.grad for p in params]
        buffers = [self.state[p]["momentum_buffer"] for p in params]
        momentum = group["momentum"]
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_lerp_(buffers, grads, 1 - momentum)
        updates = torch._foreach_lerp(grads, buffers, momentum) if group["nesterov"] else buffers
        by_shape = defaultdict(list)
        for param, update in zip(params, updates, strict=True):
            by_shape[update.flatten(1).shape].append((param, update.flatten(1)))
        for shape, pairs in by_shape.items():
            targets, matrices = zip(*pairs, strict=True)
            batch = torch.stack(matrices)  # (M, R, C)
            batch = zeropower_via_newtonschulz(
                batch, group["ns_steps"], NEWTON_SCHULZ_COEFFICIENTS, eps=group["eps"]
            ).float()
            batch.mul_(-group["lr"] * get_lr_scale(shape, group["adjust_lr_fn"]))
            moves = [move.view_as(p) for move, p in zip(batch, targets, strict=True)]
            torch._foreach_add_(targets, moves)

    def _step_others(self, params: list[Tensor], group: dict) -> None:
        """Take a step of NAdamW, or of AdamW without `nesterov`, as in timm.

        The parameters of a group must have taken the same number of steps.
        """
        states = [self.state[p] for p in params]
        for state in states:  # timm and a loaded checkpoint keep the step count on the CPU
            state["step"] = state["step"].to(params[0].device)
        steps, means, squares = (
            [state[key] for state in states] for key in ("step", "exp_avg", "exp_avg_sq")
        )
        grads = [p.grad for p in params]
        beta1, beta2 = group["betas"]
        lr = group["lr"] * group.get("fallback_lr_scale", 1.0)  # no such key before timm 1.0.27
        torch._foreach_add_(steps, 1)
        torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
        torch._foreach_lerp_(means, grads, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
        moves = torch._foreach_lerp(means, grads, 1 - beta1 if group["nesterov"] else 0.0)
        scales = torch._foreach_sqrt(squares)
        torch._foreach_div_(scales, (1 - beta2 ** steps[0]).sqrt())
        torch._foreach_add_(scales, group["eps"])
        torch._foreach_div_(moves, scales)
        torch._foreach_mul_(moves, -lr / (1 - beta1 ** steps[0]))
        torch._foreach_add_(params, moves)


class CapturedStep:
    """One step of a `BatchedMuon`, for example with gradient clipping, replayed from a CUDA graph.

    The host launches about 300 kernels per step of a small ViT. This takes longer than the kernels
    themselves. The graph launches all of them at once.

    Args:
        optimizer: its parameters have gradients of constant shapes, on a CUDA device.
        step: takes a step of `optimizer`; called for the first steps and during the capture.
    """

    EAGER_STEPS = 3  # steps before the capture; they create the optimizer's state

    def __init__(self, optimizer: BatchedMuon, step: Callable[[], object]):
        self.optimizer = optimizer
        self.step = step
        self.steps = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Take a step with the current gradients and learning rates."""
        self.steps += 1
        if self.steps <= self.EAGER_STEPS:
            self.step()
            return
        if self.graph is None:
            self._capture()
        torch._foreach_copy_(self.grads, [p.grad for p in self.params])
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
        self.graph.replay()

    def _capture(self) -> None:
        """Record a step that reads gradients and learning rates from separate tensors."""
        groups = self.optimizer.param_groups
        self.params = [p for group in groups for p in group["params"] if p.grad is not None]
        self.grads = [torch.empty_like(p.grad) for p in self.params]
        self.rates = [torch.zeros((), device=self.params[0].device) for _ in groups]
        before = [(group, group["lr"]) for group in groups], [(p, p.grad) for p in self.params]
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = rate
        for param, grad in zip(self.params, self.grads, strict=True):
            param.grad = grad
        self.graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self.graph):
                self.step()
        finally:
            for group, rate in before[0]:
                group["lr"] = rate
            for param, grad in before[1]:
                param.grad = grad
