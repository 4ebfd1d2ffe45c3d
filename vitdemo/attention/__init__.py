"""What a Vision Transformer looks at: its attention, read in one pass, and the maps made from it.

`trace` runs the model once with the softmax written out and hands out every layer's attention as a
value: no hook, no flag, nothing left on a model that other threads use at the same moment.
`rollout` and `relevance` turn attention into one matrix an image, `class_map` takes from it one
number a patch. Attention and rollout do not depend on the class and can mislead; `relevance` does
depend on it, as does all that is made of `class_gradients`.

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

# The parts, by timm's names, that the pass below knows: (needed, optional). Any other part would
# change the result unseen (a gate, rope, relative positions), so a model that has one is refused.
_MODEL = (
    ("patch_embed", "_pos_embed", "blocks", "norm", "forward_head"),
    (
        *("cls_token", "dist_token", "reg_token", "pos_embed", "pos_drop", "patch_drop"),
        *("norm_pre", "fc_norm", "head_drop", "head", "head_dist"),
    ),
)
_BLOCK = (("norm1", "attn", "norm2", "mlp"), ("ls1", "drop_path1", "ls2", "drop_path2"))
_ATTENTION = (("qkv", "proj"), ("q_norm", "k_norm", "attn_drop", "norm", "proj_drop"))


class ClassGradients(NamedTuple):
    """One explicit pass and the way back from a class's logit, all detached."""

    logits: Tensor  # (B, C)
    attention: tuple[Tensor, ...]  # L of (B, H, N, N), the first layer first
    attention_gradients: tuple[Tensor, ...]  # L of (B, H, N, N), in the same order
    features: Tensor  # (B, N, D): the output of `blocks[-1].norm1`, which the last attention reads
    feature_gradients: Tensor  # (B, N, D)


class Trace(NamedTuple):
    """One explicit pass: the answer and all that led to it, on the model's device."""

    logits: Tensor  # (B, C)
    tokens: Tensor  # (L+1, B, N, D): what enters the first block, then what leaves each block
    attention: Tensor  # (L, B, H, N, N): row = the token that looks, column = what it looks at


def trace(model: nn.Module, images: Tensor) -> Trace:
    """Run `model` once on normalised `images` (B, 3, height, width), keeping tokens and attention.

    Serves `vitdemo.models.vit.VisionTransformer` and timm's `VisionTransformer` with a class token,
    a distillation token, registers or average pooling, LayerScale, query/key norm, on any device.
    Differentiable; safe on a model shared between threads. Modules act in the mode they are in:
    switching a shared model to eval would be seen by others, so call `model.eval()` once, first.
    In train mode dropout acts on what attention does; the weights handed out are those before it.

    Returns `Trace(logits (B, C), tokens (L+1, B, N, D), attention (L, B, H, N, N))`. Rows of
    `attention` sum to one. Logits and attention are float32 where the model is float16 or bfloat16;
    tokens have the model's own precision, since its parts read them again.
    Raises `TypeError` for a model whose attention would be read wrongly (convolutional, parallel or
    post-norm blocks, rotary or relative positions, attention pooling, no pooling).
    """
    found = _forward(model, images)
    return Trace(found.logits, torch.stack(found.tokens), torch.stack(found.attention))


def fuse_heads(attention: Tensor, fusion: str = "mean") -> Tensor:
    """Join the heads of `attention` (..., H, N, N) into (..., N, N), entry by entry, in float32.

    `fusion` is "mean", "max" or "min"; anything else raises `ValueError`. Rows of a maximum sum to
    one or more, of a minimum to one or less.
    """
    if fusion not in FUSIONS:
        raise ValueError(f"Unknown fusion '{fusion}': choose one of {', '.join(FUSIONS)}.")
    attention = widen(attention)
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
    """Attention rollout: the layers' `attention` (L, B, H, N, N) multiplied up, as (B, N, N).

    Abnar & Zuidema 2020, https://arxiv.org/abs/2005.00928, section 3.

    Args:
        fusion: how heads join: "mean", "max" or "min".
        discard_ratio: share of patches, 0 <= ratio < 1, that each row forgets, weakest first;
            `floor(discard_ratio * P)` of them, never a prefix token, each image on its own.
        residual: add the identity and halve, for the skip connection around attention.
        start_layer: first layer of the product, 0 to L-1.
        num_prefix_tokens: tokens before the patches: class, distillation, registers.

    Rows of the result sum to one. Raises `ValueError` for a value outside the above.
    """
    matrices = _layer_matrices(
        attention, fusion, discard_ratio, residual, start_layer, num_prefix_tokens
    )
    return functools.reduce(_roll, matrices)  # (B, N, N)


def rollout_steps(
    attention: Tensor,
    *,
    fusion: str = "mean",
    discard_ratio: float = 0.0,
    residual: bool = True,
    start_layer: int = 0,
    num_prefix_tokens: int = 1,
) -> Tensor:
    """The rollout after each layer from `start_layer` on, (L-start, B, N, N).

    Arguments and errors are those of `rollout`, which is the last step.
    """
    matrices = _layer_matrices(
        attention, fusion, discard_ratio, residual, start_layer, num_prefix_tokens
    )
    return torch.stack(list(itertools.accumulate(matrices, _roll)))


def relevance(model: nn.Module, images: Tensor, target: int | Tensor) -> Tensor:
    """How much each token bears on class `target` through all layers, as (B, N, N).

    Chefer et al. 2021, https://arxiv.org/abs/2103.15679, equations 5 and 6 (self-attention).
    R = I, then R += mean over heads of (dy/dA * A)+ @ R, from the first layer to the last.

    Args:
        model, images: as in `trace`; works under `no_grad` and `inference_mode` too, and leaves
            no `.grad` anywhere.
        target: one class for all images, or a LongTensor (B,) with one for each.

    Raises `ValueError` for a class out of range or a wrong number of them, `TypeError` for a target
    that is not whole or a model that `trace` refuses.
    """
    found = class_gradients(model, images, target)
    return accumulate_relevance(found.attention, found.attention_gradients)


def class_gradients(model: nn.Module, images: Tensor, target: int | Tensor) -> ClassGradients:
    """What the logit of class `target` takes from attention and features, by one way back.

    Every map that is made of gradients comes from this one result. Arguments, modes and errors as
    in `relevance`.
    """
    with torch.inference_mode(False), torch.enable_grad():
        # A copy that asks for a gradient: reaches every layer even where all weights are frozen.
        images = images.clone().detach().requires_grad_()
        found = _forward(model, images)
        classes = check_target(target, *found.logits.shape, images.device)  # (B,)
        score = found.logits.gather(1, classes[:, None]).sum()  # images do not meet each other
        gradients = torch.autograd.grad(score, [*found.attention, found.features])
    return ClassGradients(
        found.logits.detach(),
        tuple(weights.detach() for weights in found.attention),
        gradients[:-1],
        found.features.detach(),
        gradients[-1],
    )


def gradients_of_classes(
    model: nn.Module, image: Tensor, targets: Sequence[int]
) -> Iterator[ClassGradients]:
    """Yield `class_gradients` of one image (1, 3, S, S) for each of several classes in turn.

    All share one forward pass, so a class costs half of what `class_gradients` takes. Errors as
    there.
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
    """`relevance` from L attentions and their gradients, each (B, H, N, N), as (B, N, N)."""
    B, _, N, _ = attention[0].shape
    result = widen(torch.eye(N, dtype=attention[0].dtype, device=attention[0].device))
    result = result.expand(B, -1, -1)
    for weights, gradient in zip(attention, gradients, strict=True):
        step = (widen(gradient) * widen(weights)).clamp(min=0).mean(dim=1)  # (B, N, N)
        result = result + step @ result
    return result


def without_itself(matrix: Tensor) -> Tensor:
    """`relevance` (..., N, N) less the identity that it starts from.

    A class token's row over the patches is the same with it; the mean of the patches' rows has
    1 / P of it in each patch, in which all that attention did drowns.
    """
    return matrix - torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def class_map(matrix: Tensor, num_prefix_tokens: int) -> Tensor:
    """Return the prediction's row of `matrix` (B, N, N) over the patches, (B, P).

    The class token's row (row 0) over the patches; with no prefix token, the mean of all rows,
    which are the patches'. Of a model at hand, `answer_map` takes the rows that its answer is read
    from. Raises `ValueError` where no patch would be left.
    """
    rows = slice(0, 1 if num_prefix_tokens else None)
    return answer_map(matrix, num_prefix_tokens, rows)


def reads_class_token(model: nn.Module) -> bool:
    """Whether the answer is read from a class token, rather than from the mean of the patches."""
    has_one = getattr(model, "cls_token", None) is not None
    return has_one and getattr(model, "global_pool", "token") == "token"


def answer_rows(model: nn.Module) -> slice:
    """The tokens that the answer is read from, as rows of a matrix (B, N, N).

    The class token; of a distilled model, whose two heads are averaged, the distillation token
    too; or all patches.
    """
    if not reads_class_token(model):
        return slice(model.num_prefix_tokens, None)
    return slice(0, 1 if getattr(model, "head_dist", None) is None else 2)


def answer_map(matrix: Tensor, num_prefix_tokens: int, rows: slice) -> Tensor:
    """Return the mean of `rows` of `matrix` (B, N, N) over the patches, (B, P).

    `rows` are those of `answer_rows`. Raises `ValueError` where no patch would be left.
    """
    _check_prefix(matrix, num_prefix_tokens)
    return widen(matrix[:, rows, num_prefix_tokens:]).mean(dim=1)


class _Pass(NamedTuple):
    """Lists, since gradients reach the parts of a stack only where the stack itself is used."""

    logits: Tensor
    tokens: list[Tensor]
    attention: list[Tensor]
    features: Tensor  # as in `ClassGradients`


def _forward(model: nn.Module, images: Tensor) -> _Pass:
    x = _embed(model, images)  # (B, N, D)
    tokens, attention = [x], []
    for block in model.blocks:
        x, weights, features = _step(block, x)
        tokens.append(x)
        attention.append(weights)
    return _Pass(_answer(model, x), tokens, attention, features)


def _embed(model: nn.Module, images: Tensor) -> Tensor:
    """Images (B, 3, height, width) -> what enters the first block (B, N, D)."""
    check_model(model)
    x = model._pos_embed(model.patch_embed(images))  # (B, N, D)
    return _part(model, "norm_pre", _part(model, "patch_drop", x))


def _step(
    block: nn.Module,
    x: Tensor,
    keep: Tensor | None = None,
    instead: Tensor | None = None,
    barred: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Run one block on tokens (B, N, D).

    Returns the block's output (B, N, D), its attention (B, H, N, N), and the normed tokens
    (B, N, D) that enter the attention. `keep` (B, H) multiplies the output of each head: where it
    is 0 the head is off, and its output is `instead` (H, N or 1, D/H), or zeros. `barred` is as in
    `_heads`.
    """
    features = block.norm1(x)
    update, weights = _attend(block.attn, features, keep, instead, barred)
    x = x + _part(block, "drop_path1", _part(block, "ls1", update))
    update = block.mlp(block.norm2(x))
    return x + _part(block, "drop_path2", _part(block, "ls2", update)), weights, features


def _answer(model: nn.Module, x: Tensor) -> Tensor:
    """Tokens (B, N, D) as a block leaves them -> logits (B, C), by the model's norm and head."""
    logits = model.forward_head(model.norm(x))  # (B, C)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise TypeError(f"Cannot explain {type(model).__name__}: its head gives no (B, C) tensor.")
    return widen(logits)


def _attend(
    attn: nn.Module,
    x: Tensor,
    keep: Tensor | None,
    instead: Tensor | None,
    barred: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Tokens (B, N, D) to the attention's update (B, N, D) and its weights (B, H, N, N)."""
    x, weights = _heads(attn, x, barred)
    if keep is not None:
        keep = keep[..., None, None].to(x.dtype)  # (B, H, 1, 1)
        x = x * keep if instead is None else x * keep + (1 - keep) * instead.to(x.dtype)
    x = _part(attn, "norm", x.transpose(1, 2).flatten(2))  # (B, N, D)
    return _part(attn, "proj_drop", attn.proj(x)), weights


def _heads(attn: nn.Module, x: Tensor, barred: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the heads' outputs (B, H, N, D/H) and weights (B, H, N, N) for tokens (B, N, D).

    Where `barred`, a bool tensor that broadcasts to (B, H, N, N), is True, the weight is 0; the
    other weights of the row still sum to one.
    """
    q, k, v = _queries_keys_values(attn, x)
    # Fused kernels keep scores in float32 too; in half precision rows would not sum to one, and
    # scores beyond 65504 would be infinite.
    scores = (widen(q) * attn.scale) @ widen(k).mT  # (B, H, N, N)
    if barred is not None:
        scores = scores.masked_fill(barred, -math.inf)
    weights = scores.softmax(dim=-1)
    return _part(attn, "attn_drop", weights.to(v.dtype)) @ v, weights


def _queries_keys_values(attn: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (B, N, D) to queries, keys and values, each (B, H, N, D/H)."""
    B, N, _ = x.shape
    qkv = attn.qkv(x).reshape(B, N, 3, attn.num_heads, attn.head_dim)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    return _part(attn, "q_norm", q), _part(attn, "k_norm", k), v


def _part(module: nn.Module, name: str, x: Tensor) -> Tensor:
    # Not getattr: torch makes a missing attribute cost more than most parts that are there.
    part = module._modules.get(name)
    return x if part is None else part(x)


def widen(x: Tensor) -> Tensor:
    """`x` in float32; float64 stays. Maps are sums, in which 8 or 11 bits would not be enough."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _layer_matrices(
    attention: Tensor,
    fusion: str,
    discard_ratio: float,
    residual: bool,
    start_layer: int,
    num_prefix_tokens: int,
) -> Tensor:
    """The factors of the rollout (L-start, B, N, N), their rows summing to one."""
    _check_rollout(attention, discard_ratio, start_layer, num_prefix_tokens)
    matrices = fuse_heads(attention[start_layer:], fusion)  # (L-start, B, N, N)
    matrices = _discard_lowest(matrices, discard_ratio, num_prefix_tokens)
    return _normalise_rows(matrices, residual)


def _roll(result: Tensor, matrix: Tensor) -> Tensor:
    return matrix @ result  # a later layer reads what earlier ones wrote


def _discard_lowest(matrices: Tensor, discard_ratio: float, num_prefix_tokens: int) -> Tensor:
    patches = matrices[..., num_prefix_tokens:]  # (L, B, N, P)
    count = math.floor(discard_ratio * patches.shape[-1])
    if count == 0:
        return matrices
    # Stable, so that ties fall the same way on every device; an exact count, which a threshold
    # would miss on ties.
    lowest = patches.argsort(dim=-1, stable=True)[..., :count]  # (L, B, N, count)
    return matrices.scatter(-1, lowest + num_prefix_tokens, 0.0)


def _normalise_rows(matrices: Tensor, residual: bool) -> Tensor:
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    if residual:
        matrices = (matrices + identity) / 2
    total = matrices.sum(dim=-1, keepdim=True)  # (L, B, N, 1)
    # Heads that share no token leave a row of zeros under "min": it stays where it is, as it
    # would with the residual.
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
    """One class of `count` for all of a batch, or one for each image, as a LongTensor (B,).

    Raises `ValueError` or `TypeError` as told in `relevance`.
    """
    classes = torch.as_tensor(target, device=device)
    if classes.is_floating_point() or classes.dtype == torch.bool:
        raise TypeError(f"target is {classes.dtype}, not a whole number or a LongTensor.")
    if classes.shape not in ((), (batch,)):
        raise ValueError(f"target has shape {tuple(classes.shape)}, not () or ({batch},).")
    if ((classes < 0) | (classes >= count)).any():
        raise ValueError(f"target {classes.tolist()} is out of range: classes are 0..{count - 1}.")
    # A copy: a tensor that was made under `inference_mode` cannot be kept for the way back.
    return classes.long().expand(batch).clone()  # (B,)


def check_model(model: nn.Module) -> None:
    """Raise `TypeError` naming what `trace` would read wrongly, unless `model` is a plain ViT."""
    places = [("it", model, _MODEL)]
    for block in getattr(model, "blocks", ()):
        places.append(("a block", block, _BLOCK))
        places.append(("an attention", getattr(block, "attn", None), _ATTENTION))
    for place, module, (needed, optional) in places:
        fault = _fault(module, needed, optional)
        if fault:
            raise TypeError(
                f"Cannot explain {type(model).__name__}: {place} {fault}; "
                "give a plain Vision Transformer (ours, or timm's VisionTransformer)."
            )


def _fault(module: nn.Module, needed: tuple[str, ...], optional: tuple[str, ...]) -> str | None:
    missing = [name for name in needed if not hasattr(module, name)]
    if missing:
        return f"has no '{missing[0]}'"
    own = module._modules | module._parameters  # named_children() and its like take much longer
    parts = [name for name, part in own.items() if part is not None]
    unknown = [name for name in parts if name not in needed + optional]
    if unknown:
        return f"has an unknown '{unknown[0]}'"
    # Nothing but the order of registration tells timm's ResPostBlock from a pre-norm block.
    if "norm1" in parts and parts.index("norm1") > parts.index("attn"):
        return "norms after its attention"
    return None
