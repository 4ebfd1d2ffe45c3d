"""Direct logit attribution: the contribution of each attention head and MLP to a class's logit.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". Every block adds to the
residual stream and the classifier head reads the sum, so a logit is a sum of contributions. The
final norm divides by a standard deviation that depends on all parts; this scale is held fixed. A
contribution is only the direct effect of a part. The effect through later blocks is included in the
later blocks' contributions.

Letters: L layers, H heads, N tokens, D width, C classes, R classifier tokens, K chosen classes.

    found = compute_contributions(model, trace(model, images).tokens[:, 0], classes=[3, 5])
    found.total  # (K,): the logits of the classes 3 and 5
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from timm.layers import RmsNorm
from torch import Tensor, nn

from vitdemo.errors import RunError
from vitdemo.explain.checks import require_finite, to_numpy
from vitdemo.explain.forward_pass import apply_optional, classifier_rows, compute_heads, upcast
from vitdemo.explain.image_trace import ImageTrace

MAX_STREAM_CLASSES = 10  # maximum number of classes with contributions


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions of the parts of a model, which add up to the logits of K classes.

    The parts are the tokens that enter the first block (`embedding`, (K,)), the attention `heads`
    (K, L, H), and the `mlps` (K, L). `attention_bias` (K, L) comes from the biases of the attention
    output projections. `constant` (K,) comes from the biases of final norm and classifier head.
    """

    embedding: Tensor
    heads: Tensor
    attention_bias: Tensor
    mlps: Tensor
    constant: Tensor

    @property
    def total(self) -> Tensor:
        """The logits (K,): the sum of all contributions."""
        layers = self.heads.sum(-1) + self.attention_bias + self.mlps  # (K, L)
        return self.embedding + layers.sum(-1) + self.constant


def compute_contributions(
    model: nn.Module, tokens: Tensor, classes: Sequence[int] | Tensor
) -> Contributions:
    """Compute the contributions to the logits of K `classes` for one image.

    `tokens` (L+1, N, D) come from the image's `trace`. The classifier may read the class token,
    class and distillation token, or the mean of the patch tokens. Raises `TypeError` if the final
    norm is not a LayerNorm or RMSNorm, or if the classifier head is not linear.
    """
    rows = classifier_rows(model)
    reading, constant = _linearise_classifier(model, tokens[-1, rows], classes)  # (K, R, D), (K,)
    embedding = _sum_products(reading, tokens[0, rows])
    heads, biases, mlps = [], [], []
    for block, x, after in zip(model.blocks, tokens[:-1], tokens[1:], strict=True):
        by_head, bias, between = _attention_contributions(block, x, rows, reading)
        heads.append(by_head)
        biases.append(bias)
        mlps.append(_sum_products(reading, upcast(after[rows]) - between))
    stacked = [torch.stack(parts, dim=1) for parts in (heads, biases, mlps)]
    return Contributions(embedding, *stacked, constant)


def mean_token_norms(tokens: Tensor, rows: slice) -> Tensor:
    """Compute the mean L2 norm (L+1,) of the tokens in `rows` at the input and after each layer."""
    return upcast(tokens[:, rows]).norm(dim=-1).mean(dim=-1)  # (L+1,)


def _attention_contributions(
    block: nn.Module, x: Tensor, rows: slice, directions: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute contributions of heads (K, H) and output bias (K,) in a block with input `x` (N, D).

    Also returns the tokens (R, D) of `rows` between attention and MLP.
    """
    attn = block.attn
    handed, _ = compute_heads(attn, block.norm1(x[None]))  # (1, H, N, D/H)
    joined = handed[0, :, rows].transpose(0, 1).flatten(1)  # (R, D)
    update = attn.proj(apply_optional(attn, "norm", joined[None])[0])  # (R, D)
    update = apply_optional(block, "ls1", update)
    scale = getattr(block._modules.get("ls1"), "gamma", None)
    back = directions if scale is None else directions * scale  # (K, R, D)
    proj = attn.proj
    bias = back.new_zeros(len(back)) if proj.bias is None else (back @ upcast(proj.bias)).sum(1)
    back, shift = _fold_norm(attn._modules.get("norm"), joined, back @ upcast(proj.weight))
    by_head = (back * joined).unflatten(-1, (attn.num_heads, attn.head_dim))  # (K, R, H, D/H)
    return by_head.sum((1, 3)), bias + shift, upcast(x[rows]) + update


def _linearise_classifier(
    model: nn.Module, x: Tensor, classes: Sequence[int] | Tensor
) -> tuple[Tensor, Tensor]:
    """Return the linear function from the tokens `x` (R, D) after the last block to K logits.

    The function consists of directions (K, R, D) and a constant (K,). The logits are the constant
    plus the sum over R and D of directions times tokens.
    """
    second = getattr(model, "head_dist", None)
    heads = [model.head] if second is None else [model.head, second]
    if not all(isinstance(head, nn.Linear) for head in heads):
        raise TypeError(
            f"Cannot decompose {type(model).__name__}: its classifier head is not a single layer."
        )
    if model.head.in_features != x.shape[-1]:  # transformers' DINOv2 classifiers
        raise TypeError(
            f"Cannot decompose {type(model).__name__}: its classifier head reads both the class "
            "token and the mean of the patches."
        )
    chosen = torch.as_tensor(classes, device=x.device)
    weight = torch.stack([upcast(head.weight[chosen]) for head in heads], dim=1) / len(heads)
    biases = [upcast(head.bias[chosen]) for head in heads if head.bias is not None]
    constant = sum(biases) / len(heads)
    normed = model.norm(x)  # (R, D)
    pooled = normed.mean(0, keepdim=True) if len(heads) == 1 else normed  # (1 or 2, D)
    reading, shift = _fold_norm(model._modules.get("fc_norm"), pooled, weight)
    reading = reading.expand(-1, len(x), -1) * (len(heads) / len(x))  # (K, R, D)
    reading, more = _fold_norm(model.norm, x, reading)
    return reading, constant + shift + more


def _fold_norm(norm: nn.Module | None, x: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Convert directions (K, R, D) for the output of `norm` to directions for its input `x` (R, D).

    Also returns the contribution (K,) of the norm's bias.
    """
    if norm is None or isinstance(norm, nn.Identity):
        return directions, directions.new_zeros(len(directions))
    if not isinstance(norm, (nn.LayerNorm, RmsNorm)):
        raise TypeError(
            f"Cannot decompose a {type(norm).__name__}: it is neither a LayerNorm nor an RMSNorm."
        )
    shift = directions.new_zeros(len(directions))
    if getattr(norm, "bias", None) is not None:
        shift = (directions * norm.bias).sum((1, 2))
    scaled = directions if norm.weight is None else directions * norm.weight
    if isinstance(norm, RmsNorm):  # RMSNorm does not subtract the mean
        return scaled / (upcast(x).square().mean(-1, keepdim=True) + norm.eps).sqrt(), shift
    deviation = (upcast(x).var(-1, correction=0, keepdim=True) + norm.eps).sqrt()  # (R, 1)
    return (scaled - scaled.mean(-1, keepdim=True)) / deviation, shift


def _sum_products(directions: Tensor, x: Tensor) -> Tensor:
    """Compute the sum (K,) over R and D of directions (K, R, D) times tokens (R, D)."""
    return (directions * upcast(x)).sum((1, 2))


@dataclass(frozen=True, eq=False)
class LogitAttribution:
    """Contributions to the logits of the K most probable classes for one image.

    `classes` (K,) are sorted by probability, `logits` are (K,). The token norms (L+1,) at the input
    and after each layer are means over the tokens that the classifier reads, and over the patches.
    """

    trace: ImageTrace
    classes: tuple[int, ...]
    logits: np.ndarray
    contributions: Contributions
    classifier_token_norms: np.ndarray
    patch_norms: np.ndarray


@torch.inference_mode()
def compute_logit_attribution(model: nn.Module, trace: ImageTrace) -> LogitAttribution:
    """Compute the contributions to the logits of the most probable classes for one image.

    Raises `RunError` for a model without classes, a model that predicts NaN, and a model whose
    final norm or classifier head `compute_contributions` does not support.
    """
    trace.run.require_classes()
    require_finite(trace.run, to_numpy(trace.logits))
    classes = trace.logits.topk(min(MAX_STREAM_CLASSES, len(trace.logits))).indices.tolist()
    try:
        parts = compute_contributions(model, trace.tokens, classes)
    except TypeError as error:
        raise RunError(str(error)) from error
    rows = trace.classifier_rows, slice(trace.num_prefix_tokens, None)  # classifier tokens, patches
    norms = [to_numpy(mean_token_norms(trace.tokens, each)) for each in rows]
    return LogitAttribution(trace, tuple(classes), to_numpy(trace.logits)[classes], parts, *norms)
