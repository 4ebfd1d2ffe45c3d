"""Models with pretrained weights: timm's models and vitdemo's ViT."""

import inspect
import sys
from collections.abc import Mapping
from inspect import signature
from pathlib import Path

import timm
import torch
from safetensors.torch import load_file
from timm.models import get_pretrained_cfg
from torch import Tensor, nn

from vitdemo.errors import ModelError
from vitdemo.installation import APP_NAME, TRAIN_NAME
from vitdemo.models.capabilities import patch_sides
from vitdemo.models.family import Colour, ModelFamily, ModelSpec
from vitdemo.models.vit import VisionTransformer
from vitdemo.models.weights import (
    VIT_HEAD_NAMES,
    NamedTensors,
    check_fit,
    count_saved_classes,
    describe_misfit,
    drop_extra_tensors,
    find_tensors,
    misfit_error,
    read_weights_file,
    upcast_tensors,
)

# An entry point of timm that accepts any size; the stored arguments replace its default sizes.
TIMM_ENTRY = "vit_tiny_patch16_224"
MAX_TAGS = 8  # maximum number of tags that an error message lists
OTHER_HEAD = -1  # timm drops the file's classifier head, because no model has -1 classes


def build_timm(
    name: str,
    num_classes: int,
    image_size: int,
    *,
    pretrained: bool = False,
    weights: Path | str | None = None,
    downloaded: Path | None = None,
    keep_head: bool = False,
    **options,
) -> nn.Module:
    """Build timm's model `name` for images (B, 3, S, S), S = `image_size`.

    Args:
        pretrained: download timm's weights. Position embeddings are interpolated to the new grid.
            The classifier head is new unless `num_classes` equals timm's number of classes.
        weights: file with other initial weights, in any layout that `find_tensors` supports. The
            file must contain all of the model except its head, and nothing else.
        downloaded: local copy of timm's weights file.
        keep_head: also load the classifier head from `weights`, which must fit `num_classes`.

    Raises `ModelError` for an unknown name, for an `image_size` that is not a multiple of the patch
    size, and for missing or unsuitable weights.
    """
    check_name(name)
    args = {"num_classes": num_classes, "img_size": image_size, **options}
    patch_embed = getattr(_without_memory(name, args), "patch_embed", None)
    sides = patch_sides(patch_embed) if hasattr(patch_embed, "patch_size") else (1,)
    if any(image_size % side for side in sides):
        raise ModelError(
            f"'{name}' cannot divide {image_size} pixels into patches of {sides[0]} pixels: use "
            f"an image size that is a multiple of {sides[0]}."
        )
    if weights is not None:
        return _from_file(name, Path(weights), args, keep_head)
    if not pretrained and downloaded is None:
        return timm.create_model(name, pretrained=False, **args)
    check_has_weights(name)
    overlay = {"file": str(downloaded)} if downloaded else None
    try:
        return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay, **args)
    except Exception as error:  # hub, network and safetensors errors have no common base class
        raise ModelError(
            f"The pretrained weights of '{name}' could not be loaded ({_reason(error)}). Check the "
            f"network, or use a local weights file ({TRAIN_NAME} --weights FILE, {APP_NAME} "
            "--model timm:NAME=FILE)."
        ) from error


def check_name(name: str) -> None:
    """Raise `ModelError` unless timm has the model `name`, "architecture" or "architecture.tag"."""
    architecture, _, tag = name.partition(".")
    if not timm.is_model(name):
        raise ModelError(f"timm has no model '{name}': see timm.list_models('*vit*').")
    try:
        get_pretrained_cfg(name)
    except RuntimeError as error:
        pattern = f"{architecture}.*"
        tags = [weights.partition(".")[2] for weights in timm.list_models(pattern, pretrained=True)]
        listed = ", ".join(tags[:MAX_TAGS]) + (", ..." if len(tags) > MAX_TAGS else "")
        choices = f"choose one of {listed}" if tags else "choose another model"
        raise ModelError(f"timm has no weights '{tag}' for '{architecture}': {choices}.") from error


def check_has_weights(name: str) -> None:
    """Raise `ModelError` if timm has no weights for the model `name`."""
    if not get_pretrained_cfg(name).has_weights:
        raise ModelError(
            f"timm has no pretrained weights for '{name}': choose another model, or use a local "
            f"weights file ({TRAIN_NAME} --weights FILE, {APP_NAME} --model timm:NAME=FILE)."
        )


def _without_memory(name: str, args: dict) -> nn.Module:
    """Build timm's model `name` on the meta device, with shapes but without values."""
    with torch.device("meta"):
        return timm.create_model(name, pretrained=False, **args)


def _from_file(name: str, file: Path, args: dict, keep_head: bool) -> nn.Module:
    tensors = _fitting(name, file, _without_memory(name, args), keep_head)
    classes = args["num_classes"]
    has_classes = count_saved_classes(tensors) == classes > 0
    keeps_head = has_classes and (keep_head or classes == get_pretrained_cfg(name).num_classes)
    # timm keeps the file's classifier head only if `num_classes` equals the model's own number.
    overlay = {"num_classes": classes if keeps_head else OTHER_HEAD, "classifier": VIT_HEAD_NAMES}
    overlay |= {"state_dict": tensors, "label_offset": 0}
    try:
        model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay, **args)
    except (RuntimeError, ValueError, KeyError) as error:  # timm's filter or load_state_dict
        raise misfit_error(file, _reason(error)) from error
    # A second copy of the weights would stay in memory.
    model.pretrained_cfg.pop("state_dict", None)
    return model


def _fitting(name: str, file: Path, model: nn.Module, keep_head: bool) -> NamedTensors:
    """Find the tensors of `model` in `file`, by their own names or by names from timm's filter."""
    content = read_weights_file(file)
    options = {"with_head": keep_head, "resize": True}
    has_classes = keep_head and model.num_classes > 0
    tensors = drop_extra_tensors(find_tensors(content, model), model, with_head=has_classes)
    misfit = describe_misfit(tensors, model, **options)
    if not misfit:
        return tensors
    renamed = _renamed(name, content, model)
    # If no tensor was renamed, timm only resized the patch embedding, and the tensors still do not
    # fit.
    if set(renamed) == set(tensors) or describe_misfit(renamed, model, **options):
        raise misfit_error(file, misfit)
    return renamed


def _renamed(name: str, content: Mapping, model: nn.Module) -> NamedTensors:
    """Rename tensors with timm's checkpoint filter (CLIP, DINOv2, I-JEPA); {} if it fails."""
    module = sys.modules[timm.model_entrypoint(name.partition(".")[0]).__module__]
    rename = getattr(module, "checkpoint_filter_fn", lambda content, model: {})
    parameters = inspect.signature(rename).parameters
    options = {"adapt_layer_scale": True} if "adapt_layer_scale" in parameters else {}
    try:
        renamed = rename(dict(content), model, **options)
        return drop_extra_tensors(upcast_tensors(renamed), model)
    except Exception:  # any error can occur, because the file may be of any kind
        return {}


def load_pretrained_weights(
    model: nn.Module, weights: Path | str | None, keep_head: bool = False
) -> nn.Module:
    """Load the file `weights` into `model` in float32, with the classifier head if `keep_head`.

    Raises `ModelError` if the file does not exist or belongs to another model.
    """
    if weights is None:
        raise ModelError(
            "This recipe starts from a self-supervised training run: pass its model.safetensors "
            "as --weights."
        )
    tensors = drop_extra_tensors(find_tensors(read_weights_file(Path(weights)), model), model)
    check_fit(tensors, model, file=weights, with_head=keep_head)
    initial = model.state_dict()
    head = {name: t for name, t in initial.items() if name.startswith("head.") and not keep_head}
    model.load_state_dict({name: t for name, t in tensors.items() if name in initial} | head)
    return model


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights of a run from its safetensors file, in float32."""
    return upcast_tensors(load_file(path))


def _reason(error: Exception) -> str:
    reason = next(iter(str(error).splitlines()), "")[:200]  # a timeout has no message
    return f"{type(error).__name__}: {reason}"


def _build_vit(spec: ModelSpec, num_classes: int) -> nn.Module:
    sizes = {"image_size": spec.image_size, "num_classes": num_classes}
    try:
        return VisionTransformer(**sizes, **spec.options)
    except ValueError as error:  # the image size may not be a multiple of the patch size
        raise ModelError(str(error)) from error


def _load_vit(
    spec: ModelSpec, num_classes: int, weights: Path | str | None, keep_head: bool
) -> nn.Module:
    return load_pretrained_weights(_build_vit(spec, num_classes), weights, keep_head)


def _build_timm(spec: ModelSpec, num_classes: int) -> nn.Module:
    return build_timm(spec.name, num_classes, spec.image_size, **spec.options)


def _load_timm(
    spec: ModelSpec, num_classes: int, weights: Path | str | None, keep_head: bool
) -> nn.Module:
    start = {"pretrained": True, "weights": weights}
    return build_timm(spec.name, num_classes, spec.image_size, **start, **spec.options)


def _get_timm_colours(spec: ModelSpec) -> tuple[Colour, Colour]:
    pretrained = timm.get_pretrained_cfg(spec.name)
    return tuple(pretrained.mean), tuple(pretrained.std)


def _get_vit_arguments(spec: ModelSpec) -> tuple[str, dict] | None:
    if spec.options.get("stem", "patch") != "patch":
        return None  # timm has no convolutional stem of this kind
    sizes = ("patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio")
    arguments = {name: spec.options.get(name, VIT.option_defaults[name]) for name in sizes}
    if spec.options.get("global_pool") == "avg":
        # vitdemo normalises all tokens before averaging. By default, timm normalises only the
        # average.
        arguments |= {"global_pool": "avg", "class_token": False, "fc_norm": False}
    if spec.options.get("pos_embed") == "none":
        arguments["pos_embed"] = "none"
    return TIMM_ENTRY, {"img_size": spec.image_size, **arguments}


def _get_own_arguments(spec: ModelSpec) -> tuple[str, dict]:
    return spec.name.partition(".")[0], {"img_size": spec.image_size, **spec.options}


VIT = ModelFamily(
    "vit",
    _build_vit,
    _load_vit,
    option_defaults={n: p.default for n, p in signature(VisionTransformer).parameters.items()},
    get_timm_arguments=_get_vit_arguments,
)
TIMM = ModelFamily(
    "timm",
    _build_timm,
    _load_timm,
    is_third_party=True,
    get_colours=_get_timm_colours,
    get_timm_arguments=_get_own_arguments,
)
