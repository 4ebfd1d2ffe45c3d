"""Explicit forward pass of a plain Vision Transformer, which returns tokens and attention.

The softmax of each layer is computed explicitly, so the attention weights are available. The pass
leaves no hook and no flag on the model, so threads can share the model.

Letters: B batch, L layers, H heads, N tokens (special tokens, then P patches), D width, C classes.

    attention = trace(model, images).attention  # (L, B, H, N, N)
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitdemo.models.plain_vit import check_plain_vit


class ClassGradients(NamedTuple):
    """Results of one forward pass, and the gradients of a class's logit, all detached."""

    logits: Tensor  # (B, C)
    attention: tuple[Tensor, ...]  # L of (B, H, N, N), first layer first
    attention_gradients: tuple[Tensor, ...]  # L of (B, H, N, N), in the same order
    features: Tensor  # (B, N, D): output of `blocks[-1].norm1`, the input of the last attention
    feature_gradients: Tensor  # (B, N, D)


class Trace(NamedTuple):
    """Logits, tokens and attention of one explicit forward pass, on the model's device."""

    logits: Tensor  # (B, C)
    tokens: Tensor  # (L+1, B, N, D): input of the first block, then the output of each block
    attention: Tensor  # (L, B, H, N, N): row = query token, column = key token


def trace(model: nn.Module, images: Tensor) -> Trace:
    """Run `model` once on normalised `images` (B, 3, height, width); return tokens and attention.

    Supports `vitdemo.models.vit.VisionTransformer` and timm's `VisionTransformer` with a class
    token, a distillation token, registers or average pooling, LayerScale and query/key norm. The
    result is differentiable, and threads can share the model. The mode of the model is not changed,
    so call `model.eval()` before. In training mode, attention weights are returned before dropout.

    Returns `Trace(logits (B, C), tokens (L+1, B, N, D), attention (L, B, H, N, N))`. Rows of
    `attention` sum to one. Logits and attention are float32 if the model is float16 or bfloat16;
    tokens have the precision of the model. Raises `TypeError` for an unsupported model
    (convolutional, parallel or post-norm blocks, rotary or relative positions, attention pooling,
    no pooling).
    """
    return stack_trace(run_forward(model, images))


def class_gradients(model: nn.Module, images: Tensor, target: int | Tensor) -> ClassGradients:
    """Compute the gradients of class `target`'s logit with respect to attention and features.

    All attribution maps that use gradients of tokens are computed from this result. Arguments and
    errors are as in `relevance`.
    """
    with torch.inference_mode(False), torch.enable_grad():
        # The copy requires a gradient, so that gradients exist even if all weights are frozen.
        found = run_forward(model, images.clone().detach().requires_grad_())
        classes = expand_target(target, images)  # (B,)
        # The sum is enough, because images do not affect each other.
        score = found.logits.gather(1, classes[:, None]).sum()
        *gradients, last = torch.autograd.grad(score, [*found.attention, found.features])
    attention = tuple(weights.detach() for weights in found.attention)
    features = found.features.detach()
    return ClassGradients(found.logits.detach(), attention, tuple(gradients), features, last)


def reads_class_token(model: nn.Module) -> bool:
    """Return whether the classifier reads a class token instead of the mean of the patch tokens."""
    has_one = getattr(model, "cls_token", None) is not None
    return has_one and getattr(model, "global_pool", "token") == "token"


def classifier_rows(model: nn.Module) -> slice:
    """Return the slice of the N tokens that the classifier reads.

    The slice contains the class token or all patch tokens. A distilled model averages two
    classifier heads, so its slice also contains the distillation token.
    """
    if not reads_class_token(model):
        return slice(model.num_prefix_tokens, None)
    return slice(0, 1 if getattr(model, "head_dist", None) is None else 2)


class ForwardPass(NamedTuple):
    """Results of a forward pass, in lists, because a stacked copy would get no gradient."""

    logits: Tensor
    tokens: list[Tensor]
    attention: list[Tensor]
    features: Tensor  # the same as `ClassGradients.features`


def run_forward(
    model: nn.Module, images: Tensor, blocked: Iterable[Tensor] | None = None
) -> ForwardPass:
    """Run all blocks; `blocked` contains the mask of each block, as in `compute_heads`."""
    x = embed_images(model, images)  # (B, N, D)
    tokens, attention = [x], []
    for block, mask in zip(model.blocks, blocked or [None] * len(model.blocks), strict=True):
        x, weights, features = run_block(block, x, blocked=mask)
        tokens.append(x)
        attention.append(weights)
    return ForwardPass(classify_tokens(model, x), tokens, attention, features)


def stack_trace(forward: ForwardPass) -> Trace:
    return Trace(forward.logits, torch.stack(forward.tokens), torch.stack(forward.attention))


def embed_images(model: nn.Module, images: Tensor) -> Tensor:
    """Compute the input (B, N, D) of the first block from images (B, 3, height, width)."""
    check_plain_vit(model)
    x = model._pos_embed(model.patch_embed(images))  # (B, N, D)
    return apply_optional(model, "norm_pre", apply_optional(model, "patch_drop", x))


def iter_tokens(model: nn.Module, images: Tensor) -> Iterator[Tensor]:
    """Yield the tokens (B, N, D) before the first layer, and after each layer.

    Unlike `run_forward`, the function keeps no attention weights in memory.
    """
    x = embed_images(model, images)
    yield x
    for block in model.blocks:
        x, *_ = run_block(block, x)
        yield x


def run_block(
    block: nn.Module,
    x: Tensor,
    head_mask: Tensor | None = None,
    replacement: Tensor | None = None,
    blocked: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Run one block on tokens (B, N, D).

    Returns the block's output (B, N, D), its attention (B, H, N, N), and the normalised tokens
    (B, N, D) that enter the attention. `head_mask` (B, H) multiplies the output of each head. If
    the mask is 0, the head's output is `replacement` (H, N or 1, D/H), or zeros. `blocked` is as in
    `compute_heads`.
    """
    attn, features = block.attn, block.norm1(x)
    heads, weights = compute_heads(attn, features, blocked)
    if head_mask is not None:
        head_mask = head_mask[..., None, None].to(heads.dtype)  # (B, H, 1, 1)
        heads = heads * head_mask
        if replacement is not None:
            heads = heads + (1 - head_mask) * replacement.to(heads.dtype)
    joined = apply_optional(attn, "norm", heads.transpose(1, 2).flatten(2))  # (B, N, D)
    update = apply_optional(attn, "proj_drop", attn.proj(joined))
    x = x + apply_optional(block, "drop_path1", apply_optional(block, "ls1", update))
    update = apply_optional(block, "ls2", block.mlp(block.norm2(x)))
    return x + apply_optional(block, "drop_path2", update), weights, features


def classify_tokens(model: nn.Module, x: Tensor) -> Tensor:
    """Compute logits (B, C) from a block's output (B, N, D) with final norm and classifier head."""
    logits = model.forward_head(model.norm(x))  # (B, C)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise TypeError(
            f"Cannot explain {type(model).__name__}: the classifier head returns no (B, C) logits."
        )
    return upcast(logits)


def compute_heads(
    attn: nn.Module, x: Tensor, blocked: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute outputs (B, H, N, D/H) and weights (B, H, N, N) of heads from tokens (B, N, D).

    `blocked` is a bool tensor that broadcasts to (B, H, N, N). Where it is True, the weight is 0;
    the other weights of the row still sum to one.
    """
    q, k, v = compute_block_qkv(attn, x)
    # Scores are float32, as in fused kernels. In half precision, rows would not sum to one, and
    # scores above 65504 would be infinite.
    scores = (upcast(q) * attn.scale) @ upcast(k).mT  # (B, H, N, N)
    if blocked is not None:
        scores = scores.masked_fill(blocked, -math.inf)
    weights = scores.softmax(dim=-1)
    return apply_optional(attn, "attn_drop", weights.to(v.dtype)) @ v, weights


def compute_block_qkv(attn: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values, each (B, H, N, D/H), from tokens (B, N, D)."""
    B, N, _ = x.shape
    qkv = attn.qkv(x).reshape(B, N, 3, attn.num_heads, attn.head_dim)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    return apply_optional(attn, "q_norm", q), apply_optional(attn, "k_norm", k), v


def apply_optional(module: nn.Module, name: str, x: Tensor) -> Tensor:
    # getattr would be slower, because torch handles a missing attribute slowly.
    part = module._modules.get(name)
    return x if part is None else part(x)


def upcast(x: Tensor) -> Tensor:
    """Convert `x` to float32, unless it is float64, because sums need more than half precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def expand_target(target: int | Tensor, images: Tensor) -> Tensor:
    """Convert `target`, one class or one class per image of `images`, to a LongTensor (B,).

    The values are not read, so that a caller can be recorded as a graph; see `checks.check_target`.
    """
    classes = torch.as_tensor(target, device=images.device)
    if classes.is_floating_point() or classes.dtype == torch.bool:
        raise TypeError(f"target is {classes.dtype}, not an integer or a LongTensor.")
    if classes.shape not in ((), (len(images),)):
        raise ValueError(f"target has shape {tuple(classes.shape)}, not () or ({len(images)},).")
    # The clone is needed, because autograd cannot save a tensor from `inference_mode`.
    return classes.long().expand(len(images)).clone()  # (B,)
