"""Muon optimizer that orthogonalises all matrices of one shape in a single batch.

timm's Muon runs the Newton-Schulz iteration once per matrix. For a small network, kernel launches
then take most of the time, especially on a GPU. Here the updates of matrices with the same shape
form one tensor (M, R, C): M matrices of R rows and C columns. Update rule and state are timm's, so
both optimizers can load each other's checkpoints.
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
    """Muon (Jordan et al. 2024) for matrices, timm's fallback (NAdamW or AdamW) for the rest.

    Takes the arguments of `timm.optim.Muon`. Convolution kernels are flattened to matrices.
    """

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Tensor | None:
        """Update every parameter that has a gradient; return the closure's loss, if any."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        skipped = []  # timm's step skips parameters without gradients
        for group in self.param_groups:
            matrices = [p for p in group["params"] if p.grad is not None and self._uses_muon(p)]
            if matrices:
                self._step_matrices(matrices, group)
            skipped += [(p, p.grad) for p in matrices]
        for param, _ in skipped:
            param.grad = None
        super().step()  # updates the other parameters; in the first step, all parameters
        for param, grad in skipped:
            param.grad = grad
        return loss

    def _uses_muon(self, param: Tensor) -> bool:
        """Return whether timm's first step has chosen Muon for `param`."""
        return self.state[param].get("use_muon", False)

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
            moves = [move.view_as(p) for move, p in zip(batch, targets, strict=True)]
            scale = group["lr"] * get_lr_scale(shape, group["adjust_lr_fn"])
            torch._foreach_add_(targets, moves, alpha=-scale)
