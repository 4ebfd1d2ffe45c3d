"""Capabilities of a model, whatever its class: attention, features, patches, classifier heads.

Models have timm's names: `forward_features` and `forward_head`, `num_classes` and `get_classifier`.
A Vision Transformer also has `patch_embed` and `blocks`.
"""

import itertools

from torch import Tensor, nn


def has_attention(model: nn.Module) -> bool:
    """Return whether `model` consists of attention blocks on patch tokens."""
    return hasattr(model, "blocks") and hasattr(model, "patch_embed")


def has_features(model: nn.Module) -> bool:
    """Return whether the forward pass of `model` is split into features and classifier head."""
    return hasattr(model, "forward_features") and hasattr(model, "forward_head")


def has_separate_patches(model: nn.Module) -> bool:
    """Return whether each token of a Vision Transformer is a projection of a single patch.

    The result is False for a convolutional stem, whose tokens also depend on pixels around the
    patch.
    """
    embed = model.patch_embed
    proj = getattr(embed, "proj", None)
    is_linear = isinstance(proj, nn.Conv2d) and proj.kernel_size == proj.stride
    return is_linear and not hasattr(embed, "backbone")  # timm's hybrids project ResNet features


def has_overlapping_convolutions(model: nn.Module) -> bool:
    """Return whether a convolution of `model` reads pixels or features more than once.

    The patch embedding of a plain Vision Transformer reads each pixel once.
    """
    convolutions = (each for each in model.modules() if isinstance(each, nn.Conv2d))
    return any(k > s for c in convolutions for k, s in zip(c.kernel_size, c.stride, strict=True))


def patch_sides(patch_embed: nn.Module) -> tuple[int, int]:
    """Return height and width, in pixels, of the image region that a token represents.

    In a hybrid model, the patches are cut from features with a lower resolution than the image.
    """
    if hasattr(patch_embed, "feat_ratio"):
        return tuple(patch_embed.feat_ratio(as_scalar=False))
    return tuple(patch_embed.patch_size)


def patch_side(model: nn.Module) -> int:
    """Return the side of a Vision Transformer's patches in pixels."""
    return patch_sides(model.patch_embed)[0]


def prefix_token_names(model: nn.Module) -> tuple[str, ...]:
    """Return the names of a model's special tokens: "class token", "register 1", ..."""
    names = {"cls_token": "class token", "dist_token": "distillation token"}
    found = [name for attr, name in names.items() if getattr(model, attr, None) is not None]
    registers = getattr(model, "reg_token", None)  # (1, number, D)
    if registers is not None:
        found += [f"register {i + 1}" for i in range(registers.shape[1])]
    return tuple(found)


def list_classifier_heads(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return the classifier heads of `model`; without classes, a head is an identity.

    A distilled model has two classifier heads, whose logits are averaged. Other models have one.
    """
    heads = model.get_classifier()
    return heads if isinstance(heads, tuple) else (heads,)


def list_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of `model` from first to last.

    The layers of a Vision Transformer are its blocks. Other models have one layer for each child
    that has parameters and no classifier head. A sequence counts as its children.
    """
    if has_attention(model):
        return [*model.blocks]
    heads = list_classifier_heads(model)
    children = [each for each in model.children() if not any(m in heads for m in each.modules())]
    parts = [[*each.children()] if isinstance(each, nn.Sequential) else [each] for each in children]
    return [part for part in itertools.chain(*parts) if any(True for _ in part.parameters())]


def replace_classifier(model: nn.Module, weight: Tensor, bias: Tensor) -> None:
    """Give `model` new classes: logits of features (B, D) are `weight` (C, D) times them + `bias`.

    A distilled model averages the logits of two heads, so both heads get the same weights.
    """
    like = next(model.parameters())
    heads = list_classifier_heads(model)
    for name in [name for name, part in model.named_children() if part in heads]:
        options = {"device": like.device, "dtype": like.dtype}
        head = nn.Linear(weight.shape[1], weight.shape[0], **options)
        head.load_state_dict({"weight": weight, "bias": bias})
        setattr(model, name, head)
    model.num_classes = len(weight)


def extract_features(model: nn.Module, images: Tensor) -> Tensor:
    """Compute the input (B, D) of the classifier head for normalised `images` (B, 3, S, S).

    The input is the class token after the final norm, or the mean of the patch tokens. For a
    convolutional model, the input is the vector of channels after pooling.
    """
    return features_and_logits(model, images)[0]


def features_and_logits(model: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Compute features (B, D) and logits (B, C) of `images` (B, 3, S, S) in one forward pass."""
    found = model.forward_features(images)
    return model.forward_head(found, pre_logits=True), model.forward_head(found)
