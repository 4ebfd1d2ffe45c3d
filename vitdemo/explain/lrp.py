"""Relevance of tokens by layer-wise relevance propagation (LRP), with the rules of AttnLRP.

Achtibat et al. 2024, https://arxiv.org/abs/2402.05602. The relevance of a tensor is the tensor
times its gradient, if some operations have another backward pass. The forward pass does not change:

- Linear layers and sums: epsilon rule with epsilon 0, which is the true gradient. A bias receives
  its part of the relevance.
- LayerNorm and RMSNorm: identity rule. The standard deviation is a constant.
- GELU and SiLU: identity rule. The ratio f(x) / x is a constant.
- Product of two activations (queries and keys, attention weights and values): uniform rule. Each
  factor receives half of the relevance, so each gradient is halved.
- Softmax: first-order Taylor expansion, which is the true gradient.

The paper uses the gamma rule for the linear layers of Vision Transformers. This module does not,
because it would need four products per layer. Other activations keep their true gradient. For ReLU,
the true gradient is the identity rule.

    compute_token_relevance(model, images, class_weights)  # (L, B, N)

Letters: B batch, L layers, N tokens, D width, C classes.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vitdemo.explain.forward_pass import classify_tokens, embed_images, run_block, upcast


class RelevanceRules(TorchFunctionMode):
    """Context in which some operations of the calling thread have another backward pass.

    The context does not change the model, so other threads can use the model.
    """

    def __init__(self):
        super().__init__()
        self.rules = self.make_rules()

    def make_rules(self) -> dict[Callable, Callable[..., Tensor]]:
        """Return replacements of operations, with the same arguments and results."""
        return {
            F.layer_norm: normalise_layer,
            F.rms_norm: normalise_scale,
            F.gelu: _keep_ratio(F.gelu),
            F.silu: _keep_ratio(F.silu),
            Tensor.matmul: multiply,
        }

    def __torch_function__(
        self, func: Callable, types: Sequence[type], args: Sequence = (), kwargs: dict | None = None
    ) -> object:
        return self.rules.get(func, func)(*args, **kwargs or {})


def compute_token_relevance(
    model: nn.Module,
    images: Tensor,
    class_weights: Tensor,
    rules: type[RelevanceRules] = RelevanceRules,
) -> Tensor:
    """Compute the relevance (L, B, N) of each token at the input of each layer.

    The explained score is the sum of the logits times `class_weights` (B, C), and the relevance is
    linear in these weights. Relevance has the unit of a logit. `model` and `images` are as in
    `forward_pass.trace`, with the same errors. `rules` are those of AttnLRP by default. No
    values of tensors are read, so that the function can be recorded as a graph.
    """
    with torch.inference_mode(False), torch.enable_grad():
        with rules():
            x = embed_images(model, images).detach().clone().requires_grad_()  # (B, N, D)
            inputs = []
            for block in model.blocks:
                inputs.append(x)
                x, *_ = run_block(block, x)
            logits = classify_tokens(model, x)  # (B, C)
        score = (logits * class_weights).sum()  # images do not affect each other
        gradients = torch.autograd.grad(score, inputs)
    pairs = zip(inputs, gradients, strict=True)
    return torch.stack([(upcast(x.detach()) * upcast(dx)).sum(dim=-1) for x, dx in pairs])


def normalise_layer(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Compute LayerNorm with a constant standard deviation; arguments as in `F.layer_norm`."""
    dims = [*range(-len(normalized_shape), 0)]
    centred = upcast(x) - upcast(x).mean(dims, keepdim=True)
    found = _divide_by_scale(centred, dims, weight, eps).to(x.dtype)
    return found if bias is None else found + bias


def normalise_scale(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Compute RMSNorm with a constant root mean square; arguments as in `F.rms_norm`."""
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    dims = [*range(-len(normalized_shape), 0)]
    return _divide_by_scale(upcast(x), dims, weight, eps).to(x.dtype)


def multiply(first: Tensor, second: Tensor) -> Tensor:
    """Compute the matrix product, with half of the gradient for each factor."""
    half = first @ second / 2
    return half + half.detach()


def _divide_by_scale(x: Tensor, dims: list[int], weight: Tensor | None, eps: float) -> Tensor:
    scale = (x.detach().square().mean(dims, keepdim=True) + eps).rsqrt()
    return x * scale if weight is None else x * scale * weight


def _keep_ratio(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function`, an activation with f(0) = 0, with the constant ratio f(x) / x."""

    def compute(x: Tensor, *args, **kwargs) -> Tensor:
        ratio = function(x.detach(), *args, **kwargs) / x.detach().masked_fill(x == 0, 1)
        return x * ratio

    return compute
