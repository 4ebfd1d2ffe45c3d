"""Models that start from trained weights: timm's, and our own."""

from pathlib import Path

import timm
from safetensors.torch import load_file
from torch import Tensor, nn

from vitdemo.errors import ModelError


def build_timm(
    name: str,
    num_classes: int,
    image_size: int,
    *,
    pretrained: bool = False,
    weights: Path | str | None = None,
    **options,
) -> nn.Module:
    """timm's model `name` for pictures (B, 3, S, S), S = `image_size`.

    Args:
        pretrained: start from timm's weights, from the hub or from `weights`; position embeddings
            are interpolated to the new grid and the head is new. A finished run is never loaded
            through this door: it drops a trained head whose size it does not expect.
        weights: a local file of the weights in timm's names, in place of the download.

    Raises `ModelError` where the name is unknown, where the weights cannot be had, or where the
    patches of a Vision Transformer would leave a part of the picture out.
    """
    if not timm.is_model(name):
        raise ModelError(f"timm has no model '{name}': see timm.list_models('*vit*').")
    overlay = {"file": str(_existing(weights))} if weights is not None else None
    try:
        model = timm.create_model(
            name,
            pretrained=pretrained,
            num_classes=num_classes,
            img_size=image_size,
            pretrained_cfg_overlay=overlay,
            **options,
        )
    except Exception as error:  # hub, network and safetensors errors share no base
        if not pretrained:
            raise
        reason = next(iter(str(error).splitlines()), "")[:200]  # a timeout may say nothing
        raise ModelError(
            f"The pretrained weights of '{name}' could not be loaded "
            f"({type(error).__name__}: {reason}): check the network, or "
            "pass --weights a local file of them."
        ) from error
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", (1,))
    if any(image_size % side for side in patch):
        raise ModelError(
            f"'{name}' cannot cut {image_size} pixels into patches of {patch[0]}: choose a "
            "multiple of that as image size."
        )
    return model


def start_from(model: nn.Module, weights: Path | str | None, keep_head: bool = False) -> nn.Module:
    """`model` with all of the file `weights`, but for the head unless it is kept; float32.

    Raises `ModelError` where there is no such file, or it is of another model.
    """
    if weights is None:
        raise ModelError(
            "This recipe starts from a training without labels: pass --weights its "
            "model.safetensors."
        )
    path = _existing(weights)
    try:
        trained = read_weights(path)
        new = {name: t for name, t in model.state_dict().items() if name.startswith("head.")}
        model.load_state_dict(trained if keep_head else trained | new, strict=True)
    except Exception as error:  # safetensors has its own base; load_state_dict a bare RuntimeError
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"The weights in '{weights}' are not of this model: {reason}") from error
    return model


def read_weights(path: Path) -> dict[str, Tensor]:
    """A safetensors file's tensors: floats in float32, integers as they are."""
    return {name: t.float() if t.is_floating_point() else t for name, t in load_file(path).items()}


def _existing(weights: Path | str) -> Path:
    path = Path(weights)
    if not path.is_file():
        inside = " It is a folder: name the file in it." if path.is_dir() else ""
        raise ModelError(f"The weights file '{weights}' does not exist.{inside}")
    return path
