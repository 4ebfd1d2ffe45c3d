"""Attention weights of a Vision Transformer from one forward pass, and maps computed from them.

`trace` runs the model once with an explicit softmax and returns the attention of every layer. It
leaves no hook and no flag on the model, so threads can share it. `rollout` and `relevance` combine
the attention of all layers into one matrix per image. `class_token_map` extracts one value per
patch. Attention and rollout do not depend on the class and can mislead. `relevance` and all maps
from `class_gradients` depend on the class.

Letters: B batch, L layers, H heads, N tokens (prefix tokens, then P patches), D width, C classes.

    attention = trace(model, images).attention  # (L, B, H, N, N)
    class_map(rollout(attention), num_prefix_tokens=1)  # (B, P)
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

FUSIONS = ("mean", "max", "min")

# The parts, by timm's names, that the pass below supports: (needed, optional). A model with another
# part (a gate, rotary or relative positions) is rejected, because its attention would be incorrect.
_MODEL_PARTS = (
    ("patch_embed", "_pos_embed", "blocks", "norm", "forward_head"),
    (
        *("cls_token", "dist_token", "reg_token", "pos_embed", "pos_drop", "patch_drop"),
        *("norm_pre", "fc_norm", "head_drop", "head", "head_dist"),
    ),
)
_BLOCK_PARTS = (("norm1", "attn", "norm2", "mlp"), ("ls1", "drop_path1", "ls2", "drop_path2"))
_ATTENTION_PARTS = (("qkv", "proj"), ("q_norm", "k_norm", "attn_drop", "norm", "proj_drop"))


class ClassGradients(NamedTuple):
    """Results of one explicit forward pass and the backward pass of a class's logit, detached."""

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
    so call `model.eval()` before. In training mode, the returned attention weights are those before
    dropout.

    Returns `Trace(logits (B, C), tokens (L+1, B, N, D), attention (L, B, H, N, N))`. Rows of
    `attention` sum to one. Logits and attention are float32 if the model is float16 or bfloat16;
    tokens have the precision of the model.
    Raises `TypeError` for an unsupported model (convolutional, parallel or post-norm blocks, rotary
    or relative positions, attention pooling, no pooling).
    """
    found = _forward(model, images)
    return Trace(found.logits, torch.stack(found.tokens), torch.stack(found.attention))


def fuse_heads(attention: Tensor, fusion: str = "mean") -> Tensor:
    """Combine the heads of `attention` (..., H, N, N) element-wise into (..., N, N), in float32.

    `fusion` is "mean", "max" or "min"; any other value raises `ValueError`. Rows of a maximum sum
    to at least one, rows of a minimum to at most one.
    """
    if fusion not in FUSIONS:
        raise ValueError(f"Unknown fusion '{fusion}': choose one of {', '.join(FUSIONS)}.")
    attention = upcast(attention)
    if fusion == "mean":
        return attention.mean(dim=-3)  # (..., N, N)
    return attention.amax(dim=-3) if fusion == "max" else attention.amin(dim=-3)


def rollout(
    attention: Tensor,
    *,
    fusion: str = "mean",
    discard_ratio: float = 0.0,
    residual: bool = True,
    start_layer: int = 0,
    num_prefix_tokens: int = 1,
) -> Tensor:
    """Compute attention rollout (B, N, N), the product of all layers of `attention`.

    Abnar & Zuidema 2020, https://arxiv.org/abs/2005.00928, section 3.

    Args:
        attention: (L, B, H, N, N), as from `trace`.
        fusion: how heads are combined: "mean", "max" or "min".
        discard_ratio: fraction of patches, 0 <= ratio < 1, whose weights are set to 0 in each row,
            the smallest first: `floor(discard_ratio * P)` weights, never of prefix tokens.
        residual: average with the identity, for the skip connection around the attention.
        start_layer: first layer of the product, 0 to L-1.
        num_prefix_tokens: tokens before the patches: class, distillation, registers.

    Rows of the result sum to one. Raises `ValueError` for a value outside these ranges.
    """
    matrices = _rollout_matrices(
        attention, fusion, discard_ratio, residual, start_layer, num_prefix_tokens
    )
    return functools.reduce(_multiply_layer, matrices)  # (B, N, N)


def rollout_steps(
    attention: Tensor,
    *,
    fusion: str = "mean",
    discard_ratio: float = 0.0,
    residual: bool = True,
    start_layer: int = 0,
    num_prefix_tokens: int = 1,
) -> Tensor:
    """Compute the rollout after each layer from `start_layer`, (L-start, B, N, N).

    The last step is the result of `rollout`. Arguments and errors are as in `rollout`.
    """
    matrices = _rollout_matrices(
        attention, fusion, discard_ratio, residual, start_layer, num_prefix_tokens
    )
    return torch.stack(list(itertools.accumulate(matrices, _multiply_layer)))


def relevance(model: nn.Module, images: Tensor, target: int | Tensor) -> Tensor:
    """Compute the relevance (B, N, N) of each token for class `target` through all layers.

    Chefer et al. 2021, https://arxiv.org/abs/2103.15679, equations 5 and 6 (self-attention).
    R = I, then R += mean over heads of (dy/dA * A)+ @ R, from the first layer to the last.

    Args:
        model, images: as in `trace`. Also works under `no_grad` and `inference_mode`, and leaves no
            `.grad` on any tensor.
        target: one class for all images, or a LongTensor (B,) with one class per image.

    Raises `ValueError` for a class out of range or an incorrect number of classes. Raises
    `TypeError` for a target that is not an integer or a model that `trace` rejects.
    """
    found = class_gradients(model, images, target)
    return accumulate_relevance(found.attention, found.attention_gradients)


def class_gradients(model: nn.Module, images: Tensor, target: int | Tensor) -> ClassGradients:
    """Compute the gradients of class `target`'s logit at attention and features.

    All maps that use gradients are computed from this result. Arguments, modes and errors are as in
    `relevance`.
    """
    with torch.inference_mode(False), torch.enable_grad():
        # A copy that requires a gradient, so that gradients exist even if all weights are frozen.
        images = images.clone().detach().requires_grad_()
        found = _forward(model, images)
        classes = check_target(target, *found.logits.shape, images.device)  # (B,)
        score = found.logits.gather(1, classes[:, None]).sum()  # images are independent
        gradients = torch.autograd.grad(score, [*found.attention, found.features])
    return ClassGradients(
        found.logits.detach(),
        tuple(weights.detach() for weights in found.attention),
        gradients[:-1],
        found.features.detach(),
        gradients[-1],
    )


def iter_class_gradients(
    model: nn.Module, image: Tensor, targets: Sequence[int]
) -> Iterator[ClassGradients]:
    """Yield `class_gradients` of one image (1, 3, S, S) for each of several classes.

    All classes share one forward pass, so each class takes half the time of `class_gradients`.
    Errors are as in `class_gradients`.
    """
    with torch.inference_mode(False), torch.enable_grad():
        found = _forward(model, image.clone().detach().requires_grad_())
    inputs = [*found.attention, found.features]
    values = [tensor.detach() for tensor in inputs]
    for target in targets:
        (index,) = check_target(target, *found.logits.shape, image.device).tolist()
        with torch.inference_mode(False):
            gradients = torch.autograd.grad(found.logits[0, index], inputs, retain_graph=True)
        yield ClassGradients(
            found.logits.detach(), tuple(values[:-1]), gradients[:-1], values[-1], gradients[-1]
        )


def accumulate_relevance(attention: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Compute `relevance` (B, N, N) from L attentions and their gradients, each (B, H, N, N)."""
    B, _, N, _ = attention[0].shape
    result = upcast(torch.eye(N, dtype=attention[0].dtype, device=attention[0].device))
    result = result.expand(B, -1, -1)
    for weights, gradient in zip(attention, gradients, strict=True):
        step = (upcast(gradient) * upcast(weights)).clamp(min=0).mean(dim=1)  # (B, N, N)
        result = result + step @ result
    return result


def subtract_identity(matrix: Tensor) -> Tensor:
    """Subtract the initial identity from `relevance` (..., N, N).

    The identity does not change the class token's row over the patches. It adds 1 / P to each patch
    in the mean of the patches' rows, which would hide the contribution of attention.
    """
    return matrix - torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def class_token_map(matrix: Tensor, num_prefix_tokens: int) -> Tensor:
    """Return the class token's row of `matrix` (B, N, N) over the patches, (B, P).

    Without prefix tokens, this is the mean of all rows. If the model is available, use
    `classifier_map` with `classifier_rows` instead. Raises `ValueError` if there is no patch.
    """
    rows = slice(0, 1 if num_prefix_tokens else None)
    return classifier_map(matrix, num_prefix_tokens, rows)


def reads_class_token(model: nn.Module) -> bool:
    """Return whether the classifier reads a class token, not the mean of the patch tokens."""
    has_one = getattr(model, "cls_token", None) is not None
    return has_one and getattr(model, "global_pool", "token") == "token"


def classifier_rows(model: nn.Module) -> slice:
    """Return the tokens that the classifier reads, as rows of a matrix (B, N, N).

    These are the class token or all patch tokens. A distilled model averages two classifier heads,
    so the distillation token is included.
    """
    if not reads_class_token(model):
        return slice(model.num_prefix_tokens, None)
    return slice(0, 1 if getattr(model, "head_dist", None) is None else 2)


def classifier_map(matrix: Tensor, num_prefix_tokens: int, rows: slice) -> Tensor:
    """Return the mean of `rows` of `matrix` (B, N, N) over the patches, (B, P).

    `rows` are those of `classifier_rows`. Raises `ValueError` if there is no patch.
    """
    _check_prefix(matrix, num_prefix_tokens)
    return upcast(matrix[:, rows, num_prefix_tokens:]).mean(dim=1)


class _ForwardPass(NamedTuple):
    """Results of a forward pass, as lists: a stacked copy would receive no gradient."""

    logits: Tensor
    tokens: list[Tensor]
    attention: list[Tensor]
    features: Tensor  # as in `ClassGradients`


def _forward(model: nn.Module, images: Tensor) -> _ForwardPass:
    x = _embed(model, images)  # (B, N, D)
    tokens, attention = [x], []
    for block in model.blocks:
        x, weights, features = _run_block(block, x)
        tokens.append(x)
        attention.append(weights)
    return _ForwardPass(_classify_tokens(model, x), tokens, attention, features)


def _embed(model: nn.Module, images: Tensor) -> Tensor:
    """Compute the input (B, N, D) of the first block from images (B, 3, height, width)."""
    check_plain_vit(model)
    x = model._pos_embed(model.patch_embed(images))  # (B, N, D)
    return _apply_optional(model, "norm_pre", _apply_optional(model, "patch_drop", x))


def _run_block(
    block: nn.Module,
    x: Tensor,
    head_mask: Tensor | None = None,
    replacement: Tensor | None = None,
    barred: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Run one block on tokens (B, N, D).

    Returns the block's output (B, N, D), its attention (B, H, N, N), and the normalised tokens
    (B, N, D) that enter the attention. `keep` (B, H) multiplies the output of each head. If it is
    0, the head is off and its output is `instead` (H, N or 1, D/H), or zeros. `barred` is as in
    `_compute_heads`.
    """
    features = block.norm1(x)
    update, weights = _attend(block.attn, features, head_mask, replacement, barred)
    x = x + _apply_optional(block, "drop_path1", _apply_optional(block, "ls1", update))
    update = block.mlp(block.norm2(x))
    return (
        x + _apply_optional(block, "drop_path2", _apply_optional(block, "ls2", update)),
        weights,
        features,
    )


def _classify_tokens(model: nn.Module, x: Tensor) -> Tensor:
    """Compute logits (B, C) from a block's output (B, N, D) by the model's final norm and head."""
    logits = model.forward_head(model.norm(x))  # (B, C)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise TypeError(
            f"Cannot explain {type(model).__name__}: its head returns no (B, C) tensor."
        )
    return upcast(logits)


def _attend(
    attn: nn.Module,
    x: Tensor,
    head_mask: Tensor | None,
    replacement: Tensor | None,
    barred: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the attention's update (B, N, D) and weights (B, H, N, N) for tokens (B, N, D)."""
    x, weights = _compute_heads(attn, x, barred)
    if head_mask is not None:
        head_mask = head_mask[..., None, None].to(x.dtype)  # (B, H, 1, 1)
        x = (
            x * head_mask
            if replacement is None
            else x * head_mask + (1 - head_mask) * replacement.to(x.dtype)
        )
    x = _apply_optional(attn, "norm", x.transpose(1, 2).flatten(2))  # (B, N, D)
    return _apply_optional(attn, "proj_drop", attn.proj(x)), weights


def _compute_heads(
    attn: nn.Module, x: Tensor, barred: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the heads' outputs (B, H, N, D/H) and weights (B, H, N, N) for tokens (B, N, D).

    Where `barred`, a bool tensor that broadcasts to (B, H, N, N), is True, the weight is 0; the
    other weights of the row still sum to one.
    """
    q, k, v = _compute_qkv(attn, x)
    # Scores are float32, as in fused kernels. In half precision, rows would not sum to one, and
    # scores above 65504 would be infinite.
    scores = (upcast(q) * attn.scale) @ upcast(k).mT  # (B, H, N, N)
    if barred is not None:
        scores = scores.masked_fill(barred, -math.inf)
    weights = scores.softmax(dim=-1)
    return _apply_optional(attn, "attn_drop", weights.to(v.dtype)) @ v, weights


def _compute_qkv(attn: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute queries, keys and values, each (B, H, N, D/H), from tokens (B, N, D)."""
    B, N, _ = x.shape
    qkv = attn.qkv(x).reshape(B, N, 3, attn.num_heads, attn.head_dim)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    return _apply_optional(attn, "q_norm", q), _apply_optional(attn, "k_norm", k), v


def _apply_optional(module: nn.Module, name: str, x: Tensor) -> Tensor:
    # Not getattr, because torch handles a missing attribute slowly.
    part = module._modules.get(name)
    return x if part is None else part(x)


def upcast(x: Tensor) -> Tensor:
    """Convert `x` to float32, or keep float64. Half precision is not enough for the sums."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _rollout_matrices(
    attention: Tensor,
    fusion: str,
    discard_ratio: float,
    residual: bool,
    start_layer: int,
    num_prefix_tokens: int,
) -> Tensor:
    """Return the factors of the rollout (L-start, B, N, N), whose rows sum to one."""
    _check_rollout(attention, discard_ratio, start_layer, num_prefix_tokens)
    matrices = fuse_heads(attention[start_layer:], fusion)  # (L-start, B, N, N)
    matrices = _discard_lowest(matrices, discard_ratio, num_prefix_tokens)
    return _normalise_rows(matrices, residual)


def _multiply_layer(result: Tensor, matrix: Tensor) -> Tensor:
    return matrix @ result  # a later layer reads the output of earlier layers


def _discard_lowest(matrices: Tensor, discard_ratio: float, num_prefix_tokens: int) -> Tensor:
    patches = matrices[..., num_prefix_tokens:]  # (L, B, N, P)
    count = math.floor(discard_ratio * patches.shape[-1])
    if count == 0:
        return matrices
    # A stable sort breaks ties in the same way on every device. A threshold instead of a count
    # would discard too many weights in case of ties.
    lowest = patches.argsort(dim=-1, stable=True)[..., :count]  # (L, B, N, count)
    return matrices.scatter(-1, lowest + num_prefix_tokens, 0.0)


def _normalise_rows(matrices: Tensor, residual: bool) -> Tensor:
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    if residual:
        matrices = (matrices + identity) / 2
    total = matrices.sum(dim=-1, keepdim=True)  # (L, B, N, 1)
    # With "min", a row can be all zeros. It is replaced by the identity, as with the residual.
    empty = total <= torch.finfo(matrices.dtype).tiny
    return torch.where(empty, identity, matrices / total.masked_fill(empty, 1.0))


def _check_rollout(
    attention: Tensor, discard_ratio: float, start_layer: int, num_prefix_tokens: int
) -> None:
    if attention.ndim != 5:
        raise ValueError(f"attention has shape {tuple(attention.shape)}, not (L, B, H, N, N).")
    if not 0 <= discard_ratio < 1:
        raise ValueError(f"discard_ratio {discard_ratio} is not in 0 <= ratio < 1.")
    if start_layer not in range(len(attention)):
        raise ValueError(f"start_layer {start_layer} is not in 0..{len(attention) - 1}.")
    _check_prefix(attention, num_prefix_tokens)


def _check_prefix(matrix: Tensor, num_prefix_tokens: int) -> None:
    if matrix.ndim < 3 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"A matrix of shape {tuple(matrix.shape)} does not end in (B, N, N).")
    if num_prefix_tokens not in range(matrix.shape[-1]):
        raise ValueError(
            f"num_prefix_tokens {num_prefix_tokens} is not in 0..{matrix.shape[-1] - 1}."
        )


def check_target(target: int | Tensor, batch: int, count: int, device: torch.device) -> Tensor:
    """Return the class of each image as a LongTensor (B,), from one class or one per image.

    `count` is the number of classes. Raises `ValueError` or `TypeError` as in `relevance`.
    """
    classes = torch.as_tensor(target, device=device)
    if classes.is_floating_point() or classes.dtype == torch.bool:
        raise TypeError(f"target is {classes.dtype}, not an integer or a LongTensor.")
    if classes.shape not in ((), (batch,)):
        raise ValueError(f"target has shape {tuple(classes.shape)}, not () or ({batch},).")
    if ((classes < 0) | (classes >= count)).any():
        raise ValueError(f"target {classes.tolist()} is out of range: classes are 0..{count - 1}.")
    # A copy, because a tensor created under `inference_mode` cannot be saved for backward.
    return classes.long().expand(batch).clone()  # (B,)


def check_plain_vit(model: nn.Module) -> None:
    """Raise `TypeError` naming the unsupported part, unless `model` is a plain ViT."""
    places = [("it", model, _MODEL_PARTS)]
    for block in getattr(model, "blocks", ()):
        places.append(("a block", block, _BLOCK_PARTS))
        places.append(("an attention", getattr(block, "attn", None), _ATTENTION_PARTS))
    for place, module, (needed, optional) in places:
        fault = _find_unsupported_part(module, needed, optional)
        if fault:
            raise TypeError(
                f"Cannot explain {type(model).__name__}: {place} {fault}; "
                "use a plain Vision Transformer (vitdemo's or timm's VisionTransformer)."
            )


def _find_unsupported_part(
    module: nn.Module, needed: tuple[str, ...], optional: tuple[str, ...]
) -> str | None:
    missing = [name for name in needed if not hasattr(module, name)]
    if missing:
        return f"has no '{missing[0]}'"
    own = module._modules | module._parameters  # named_children() would be slow
    parts = [name for name, part in own.items() if part is not None]
    unknown = [name for name in parts if name not in needed + optional]
    if unknown:
        return f"has an unknown '{unknown[0]}'"
    # timm's ResPostBlock differs from a pre-norm block only in the order of registration.
    if "norm1" in parts and parts.index("norm1") > parts.index("attn"):
        return "has its norm after the attention"
    return None
