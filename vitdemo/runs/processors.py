"""Preprocessing that a model's files describe: transformers' processors and timm's configs.

vitdemo applies the number range, the resizing filter, the size and the centre crop. A notice
reports each difference from the model's own preprocessing, and each default.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PIL import Image
from timm.data.constants import (
    IMAGENET_DEFAULT_MEAN,
    IMAGENET_DEFAULT_STD,
    IMAGENET_INCEPTION_MEAN,
    IMAGENET_INCEPTION_STD,
    OPENAI_CLIP_MEAN,
    OPENAI_CLIP_STD,
)

from vitdemo.errors import ModelError
from vitdemo.training import Preprocessing

FILTERS = {filter.value: filter.name.lower() for filter in Image.Resampling}  # `resample`: name
DEFAULT_CROP = 0.875  # timm's default
# default values of transformers' image processors, for the fields that affect the pixels
_CLIP = {
    "size": {"shortest_edge": 224},
    "crop_size": 224,
    "do_center_crop": True,
    "resample": 3,
    "image_mean": OPENAI_CLIP_MEAN,
    "image_std": OPENAI_CLIP_STD,
}
_PROCESSORS = {
    "ViT": {
        "size": {"height": 224, "width": 224},
        "resample": 2,
        "image_mean": IMAGENET_INCEPTION_MEAN,
        "image_std": IMAGENET_INCEPTION_STD,
    },
    "DeiT": {
        "size": {"height": 256, "width": 256},
        "crop_size": 224,
        "do_center_crop": True,
        "resample": 3,
        "image_mean": IMAGENET_INCEPTION_MEAN,
        "image_std": IMAGENET_INCEPTION_STD,
    },
    "Bit": _CLIP,
    "CLIP": _CLIP,
}
_PROCESSOR_OF_MODEL = {
    "vit": "ViT",
    "deit": "DeiT",
    "dinov2": "Bit",
    "dinov2_with_registers": "Bit",
}
_KNOWN_STEPS = ("do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb")

# All images are cropped to a square before any preprocessing, so the shape need not change.
STRETCH_NOTICE = (
    "The model's own preprocessing stretches images to squares. vitdemo crops each image to a "
    "square first."
)
WHOLE_IMAGE_NOTICE = (
    "The model's own preprocessing keeps the whole image. vitdemo crops each image to a square "
    "first, and keeps the whole square."
)
NO_RESIZE_NOTICE = (
    "The model's own preprocessing does not resize images, but vitdemo resizes images."
)
PADDING_NOTICE = (
    "The model's own preprocessing adds a margin to the image, but vitdemo adds no margin."
)
RANGE_NOTICE = (
    "The model's own preprocessing multiplies pixels of 0 to 255 by {:.4g}, as vitdemo does."
)
UNKNOWN_STEP_NOTICE = "The step '{}' of the model's own preprocessing is unknown and omitted."
UNKNOWN_PROCESSOR_NOTICE = (
    "The processor '{}' is unknown. The fields of the file are read as for {}ImageProcessor."
)
DEFAULTS_NOTICE = "{} does not state {}: the defaults of {} are used."
OTHER_SIZE_NOTICE = (
    "The model's own preprocessing resizes images to {} pixels, but the position embeddings fit "
    "{} pixels."
)
NORMALISATION_NOTICE = (
    "Mean and standard deviation of the pixels are not stored with the model: the usual values of "
    "this architecture are used. To change them, add ?mean=M&std=S to the model address."
)
RESIZING_NOTICE = (
    "The resizing filter {} and a crop of {:g} are assumed. To change them, add "
    "?interpolation=NAME or ?crop=FRACTION to the model address."
)


def read_processor(
    processor: Mapping[str, Any], kind: str, options: Mapping[str, str], *, is_clip: bool = False
) -> tuple[Preprocessing, list[str]]:
    """Return the preprocessing of preprocessor_config.json, and its notices.

    The size is 0 if it is unknown. `kind` is the `model_type` of transformers, or "". `options`
    come from the model's address. `is_clip` selects CLIP's values for a model without files.
    """
    if not processor:
        return _assume_preprocessing(kind, options, is_clip)
    name, notices = _find_processor(processor, kind)
    fields = _PROCESSORS[name] | {k: v for k, v in processor.items() if v is not None}
    notices += _list_defaults(processor, fields, options, f"transformers' {name}ImageProcessor")
    notices += [
        UNKNOWN_STEP_NOTICE.format(step)
        for step, value in processor.items()
        if step.startswith("do_") and value and step not in _KNOWN_STEPS
    ]
    has_crop = bool(fields.get("do_center_crop") and _side(fields.get("crop_size")))
    size, crop = fields["size"], _side(fields.get("crop_size")) if has_crop else 0
    if not fields.get("do_resize", True):
        notices.append(NO_RESIZE_NOTICE)
    elif _stretches(size, name):
        notices.append(STRETCH_NOTICE)
    elif not has_crop:
        notices.append(WHOLE_IMAGE_NOTICE)
    resized = _side(size)
    if crop > resized:
        notices.append(PADDING_NOTICE)
    mean, std = fields["image_mean"], fields["image_std"]
    if not fields.get("do_normalize", True):
        mean, std = 0.0, 1.0
    mean, std, notice = _rescale(fields, read_numbers(mean, "mean"), read_numbers(std, "std"))
    return apply_options(
        Preprocessing(
            crop or resized,
            mean,
            std,
            min(crop / resized, 1.0) if crop and resized else 1.0,
            _read_filter(fields["resample"]),
        ),
        options,
    ), [*notices, *notice]


def read_timm_config(
    details: Mapping[str, Any], size: int, options: Mapping[str, str] | None = None
) -> tuple[Preprocessing, list[str]]:
    """Return the preprocessing of timm's config for inputs of `size` pixels, and its notices."""
    options, notices = options or {}, []
    fields = ("mean", "std", "crop_pct", "interpolation")
    missing = [n for n in fields if not details.get(n) and n.removesuffix("_pct") not in options]
    if missing:
        names = ", ".join(missing)
        notices.append(DEFAULTS_NOTICE.format("config.json", names, "timm"))
    mode = details.get("crop_mode") or "center"
    if mode == "squash":
        notices.append(STRETCH_NOTICE)
    elif mode != "center":
        notices.append(PADDING_NOTICE)
    fraction = min(read_positive(details.get("crop_pct") or DEFAULT_CROP, "crop_pct"), 1.0)
    pixels = Preprocessing(
        size,
        read_numbers(details.get("mean") or IMAGENET_DEFAULT_MEAN, "mean"),
        read_numbers(details.get("std") or IMAGENET_DEFAULT_STD, "std"),
        size / math.floor(size / fraction),  # timm rounds the resized side down
        _check_filter(details.get("interpolation") or "bicubic"),
    )
    return apply_options(pixels, options), notices


def apply_options(pixels: Preprocessing, options: Mapping[str, str]) -> Preprocessing:
    """Replace parts of `pixels` by the options of a model's address. Raises `ModelError`."""
    changes = {
        name: read_numbers(options[name].split(","), name)
        for name in ("mean", "std")
        if name in options
    }
    if "crop" in options:
        changes["crop"] = min(read_positive(options["crop"], "crop"), 1.0)
    if "interpolation" in options:
        changes["interpolation"] = _check_filter(options["interpolation"])
    return replace(pixels, **changes)


def read_numbers(values: Any, name: str) -> tuple[float, ...]:
    """Return one number per colour channel. Raises `ModelError` for other values."""
    try:
        numbers = [float(v) for v in ([values] if isinstance(values, int | float) else values)]
        if len(numbers) not in (1, 3):
            raise ValueError(f"{len(numbers)} numbers")
        if name == "std" and min(numbers) <= 0:
            raise ValueError("a number that is not positive")
    except (TypeError, ValueError) as error:
        raise ModelError(f"'{name}' must be one or three numbers ({error}).") from error
    return tuple(numbers * (3 // len(numbers)))


def read_positive(value: Any, name: str) -> float:
    """Return `value` as a positive number. Raises `ModelError`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:  # the comparison is also False for NaN
        raise ModelError(f"'{name}={value}' is not valid. Choose a number above 0.")
    return number


def _assume_preprocessing(
    kind: str, options: Mapping[str, str], is_clip: bool
) -> tuple[Preprocessing, list[str]]:
    """Return the usual preprocessing of `kind` without a crop, and notices about it."""
    mean, std = IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
    if kind == "vit":  # ViT uses 0.5; DeiT and DINOv2 use ImageNet's values
        mean, std = IMAGENET_INCEPTION_MEAN, IMAGENET_INCEPTION_STD
    if is_clip:
        mean, std = OPENAI_CLIP_MEAN, OPENAI_CLIP_STD
    resample = _PROCESSORS[_PROCESSOR_OF_MODEL[kind]]["resample"] if kind else 3
    pixels = apply_options(Preprocessing(0, mean, std, 1.0, FILTERS[resample]), options)
    notices = [] if {"mean", "std"} & set(options) else [NORMALISATION_NOTICE]
    if not {"crop", "interpolation"} <= set(options):
        notices.append(RESIZING_NOTICE.format(pixels.interpolation, pixels.crop))
    return pixels, notices


def _find_processor(processor: Mapping[str, Any], kind: str) -> tuple[str, list[str]]:
    """Return the processor's name in `_PROCESSORS`, and a notice about an unknown processor."""
    default = _PROCESSOR_OF_MODEL.get(kind, "ViT")
    stated = processor.get("image_processor_type") or processor.get("feature_extractor_type")
    if not isinstance(stated, str):
        return default, []
    known = next((name for name in _PROCESSORS if stated.startswith(name)), None)
    return (known, []) if known else (default, [UNKNOWN_PROCESSOR_NOTICE.format(stated, default)])


def _list_defaults(
    processor: Mapping[str, Any],
    fields: Mapping[str, Any],
    options: Mapping[str, str],
    owner: str,
) -> list[str]:
    """Return a notice about missing fields that affect the pixels."""
    needed = []
    if fields.get("do_normalize", True):
        needed += [f"image_{name}" for name in ("mean", "std") if name not in options]
    if fields.get("do_resize", True):
        needed += ["size"] + ["resample"] * ("interpolation" not in options)
    if fields.get("do_center_crop"):
        needed.append("crop_size")
    missing = ", ".join(name for name in needed if processor.get(name) is None)
    return [DEFAULTS_NOTICE.format("preprocessor_config.json", missing, owner)] if missing else []


def _rescale(
    fields: Mapping[str, Any], mean: tuple[float, ...], std: tuple[float, ...]
) -> tuple[tuple[float, ...], tuple[float, ...], list[str]]:
    """Return `mean` and `std` for pixels of 0 to 1, adapted to the processor's rescale factor.

    The processor computes (factor * p - mean) / std for a pixel p of 0 to 255.
    """
    factor = 1.0
    if fields.get("do_rescale", True):
        factor = read_numbers(fields.get("rescale_factor", 1 / 255), "rescale_factor")[0]
    if factor <= 0:
        raise ModelError(f"'rescale_factor' is {factor}, but it must be positive.")
    if math.isclose(255 * factor, 1, rel_tol=1e-4):
        return mean, std, []
    scaled = (tuple(value / (255 * factor) for value in values) for values in (mean, std))
    return *scaled, [RANGE_NOTICE.format(factor)]


def _stretches(size: Any, name: str) -> bool:
    """Return whether `size` sets both sides, as a number does in the processors ViT and DeiT."""
    return "height" in size if isinstance(size, Mapping) else name in ("ViT", "DeiT")


def _side(size: Any) -> int:
    """Return the side in pixels in a processor's size: a number or an object; 0 if unknown."""
    if isinstance(size, Mapping):
        size = size.get("shortest_edge") or size.get("height") or 0
    return size if isinstance(size, int) else 0


def _read_filter(resample: Any) -> str:
    if resample not in FILTERS:
        raise ModelError(
            f"'resample' in preprocessor_config.json has the unknown value {resample!r}."
        )
    return FILTERS[resample]


def _check_filter(name: Any) -> str:
    if name == "random":  # timm's value for training
        return "bicubic"
    if name not in FILTERS.values():
        raise ModelError(f"Unknown interpolation '{name}': choose {', '.join(FILTERS.values())}.")
    return name
