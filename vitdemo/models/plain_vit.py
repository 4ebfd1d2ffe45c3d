"""Check whether the explicit forward pass (`explain.forward_pass`) supports a model."""

from torch import nn

# Parts that the explicit pass supports, by timm's names: (needed, optional). A model with another
# part, such as a gate, is rejected, because its attention would be incorrect.
_MODEL_PARTS = (
    ("patch_embed", "_pos_embed", "blocks", "norm", "forward_head"),
    (
        *("cls_token", "dist_token", "reg_token", "pos_embed", "pos_drop", "patch_drop"),
        *("norm_pre", "fc_norm", "head_drop", "head", "head_dist"),
    ),
)
_BLOCK_PARTS = (("norm1", "attn", "norm2", "mlp"), ("ls1", "drop_path1", "ls2", "drop_path2"))
_ATTENTION_PARTS = (("qkv", "proj"), ("q_norm", "k_norm", "attn_drop", "norm", "proj_drop"))


def check_plain_vit(model: nn.Module) -> None:
    """Raise `TypeError` with the unsupported part, unless `model` is a plain Vision Transformer."""
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
    own = module._modules | module._parameters  # `named_children()` would be slower
    parts = [name for name, part in own.items() if part is not None]
    unknown = [name for name in parts if name not in needed + optional]
    if unknown:
        return f"has an unknown '{unknown[0]}'"
    # timm's ResPostBlock differs from a pre-norm block only in the order of registration.
    if "norm1" in parts and parts.index("norm1") > parts.index("attn"):
        return "has its norm after the attention"
    return None
