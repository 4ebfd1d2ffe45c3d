"""Augmentation policies: TrivialAugment, RandAugment and AutoAugment for CIFAR-10.

Letters: N images per epoch, B images per batch, S side of an image in pixels, K operations per
image.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

# Every operation is applied to the whole batch, and `torch.where` selects one result per image, so
# that shapes stay static. The operations and their ranges are the same as in torchvision.
GEOMETRY = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
BLENDS = ("brightness", "colour", "contrast", "sharpness")
TONES = ("posterize", "solarize", "autocontrast", "equalize")
RANDOM_OPERATIONS = ("identity", *GEOMETRY, *BLENDS, *TONES)  # for TrivialAugment, RandAugment
OPERATIONS = (*RANDOM_OPERATIONS, "invert")
# Maximum magnitudes: shear as a slope, translation as a fraction of the side, rotation in degrees,
# blend factor minus 1, number of bits that posterize removes.
WIDE_RANGES = {"shear": 0.99, "translate": 1.0, "rotate": 135.0, "blend": 0.99, "posterize": 6}
NARROW_RANGES = {"shear": 0.3, "translate": 150 / 331, "rotate": 30.0, "blend": 0.9, "posterize": 4}


# AutoAugment for CIFAR-10 (Cubuk et al. 2019, table 7): 25 pairs of operations, each with its
# probability in tenths and its magnitude in ninths. One random pair is applied to each image.
CIFAR10_PAIRS = (
    (("invert", 1, 7), ("contrast", 2, 6)),
    (("rotate", 7, 2), ("translate_x", 3, 9)),
    (("sharpness", 8, 1), ("sharpness", 9, 3)),
    (("shear_y", 5, 8), ("translate_y", 7, 9)),
    (("autocontrast", 5, 8), ("equalize", 9, 2)),
    (("shear_y", 2, 7), ("posterize", 3, 7)),
    (("colour", 4, 3), ("brightness", 6, 7)),
    (("sharpness", 3, 9), ("brightness", 7, 9)),
    (("equalize", 6, 5), ("equalize", 5, 1)),
    (("contrast", 6, 7), ("sharpness", 6, 5)),
    (("colour", 7, 7), ("translate_x", 5, 8)),
    (("equalize", 3, 7), ("autocontrast", 4, 8)),
    (("translate_y", 4, 3), ("sharpness", 2, 6)),
    (("brightness", 9, 6), ("colour", 2, 8)),
    (("solarize", 5, 2), ("invert", 0, 3)),
    (("equalize", 2, 0), ("autocontrast", 6, 0)),
    (("equalize", 2, 8), ("equalize", 6, 4)),
    (("colour", 9, 9), ("equalize", 6, 6)),
    (("autocontrast", 8, 4), ("solarize", 2, 8)),
    (("brightness", 1, 3), ("colour", 7, 0)),
    (("solarize", 4, 5), ("autocontrast", 9, 3)),
    (("translate_y", 9, 9), ("translate_y", 7, 9)),
    (("autocontrast", 9, 2), ("solarize", 8, 3)),
    (("equalize", 8, 8), ("invert", 1, 3)),
    (("translate_y", 7, 9), ("autocontrast", 9, 1)),
)


class Operations(NamedTuple):
    """Operations that a policy applies to each image, K in sequence; each field is (N, K)."""

    operation: Tensor  # int64, index into OPERATIONS
    strength: Tensor  # 0 to 1, fraction of the operation's maximum magnitude
    sign: Tensor  # +1 or -1: left or right, darker or brighter


class Policy(NamedTuple):
    """Augmentation policy: a function that draws operations, and the maximum magnitudes."""

    draw: Callable[[int, Generator], Operations]
    ranges: dict[str, float]


def draw_uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform random numbers from 0 to 1 on the generator's device."""
    return torch.rand(shape, generator=generator, device=generator.device)


def draw_integers(top: int, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform random integers from 0 to `top` - 1 on the generator's device."""
    return torch.randint(top, shape, generator=generator, device=generator.device)


def draw_trivial(count: int, generator: Generator) -> Operations:
    """Draw TrivialAugmentWide (Mueller & Hutter 2021): one operation of random magnitude."""
    strength = draw_uniform((count, 1), generator)
    chosen = draw_integers(len(RANDOM_OPERATIONS), (count, 1), generator)
    return Operations(chosen, strength, _draw_signs(strength, generator))


def draw_rand(count: int, generator: Generator) -> Operations:
    """Draw RandAugment (Cubuk et al. 2020): two operations per image, magnitude 9 of 30."""
    chosen = draw_integers(len(RANDOM_OPERATIONS), (count, 2), generator)
    strength = torch.full(chosen.shape, 9 / 30, device=chosen.device)
    return Operations(chosen, strength, _draw_signs(strength, generator))


def draw_auto(count: int, generator: Generator) -> Operations:
    """Draw AutoAugment (Cubuk et al. 2019): one of the 25 CIFAR-10 pairs per image."""
    rows = [[(OPERATIONS.index(n), c / 10, m / 9) for n, c, m in pair] for pair in CIFAR10_PAIRS]
    pairs = torch.tensor(rows, device=generator.device)  # (25, 2, 3)
    chosen = pairs[draw_integers(len(rows), (count,), generator)]  # (N, 2, 3)
    operation, probability, strength = chosen.unbind(2)  # each (N, 2)
    is_applied = draw_uniform((count, 2), generator) < probability
    operation = torch.where(is_applied, operation.long(), OPERATIONS.index("identity"))
    return Operations(operation, strength, _draw_signs(strength, generator))


def _draw_signs(like: Tensor, generator: Generator) -> Tensor:
    return draw_integers(2, tuple(like.shape), generator) * 2.0 - 1


def apply_policy(images: Tensor, operations: Operations, ranges: dict[str, float]) -> Tensor:
    """Apply K `operations` (B, K) to each image (B, 3, S, S) in sequence."""
    for k in range(operations.operation.shape[1]):
        images = apply_operations(images, *(part[:, k] for part in operations), ranges)
    return images


def apply_operations(
    images: Tensor, chosen: Tensor, strength: Tensor, sign: Tensor, ranges: dict
) -> Tensor:
    """Apply the operation `OPERATIONS[chosen]` to each image (B, 3, S, S).

    Args:
        chosen: (B,) int64.
        strength: (B,) in 0..1, fraction of the maximum magnitude.
        sign: (B,) +1 or -1: left or right, darker or brighter.
        ranges: `WIDE_RANGES` or `NARROW_RANGES`.
    """

    def is_chosen(name: str) -> Tensor:  # (B, 1, 1, 1)
        return (chosen == OPERATIONS.index(name)).view(-1, 1, 1, 1)

    augmented = _transform_geometry(images, chosen, sign * strength, ranges)
    for name, operation in {
        "posterize": lambda: _posterize(images, strength * ranges["posterize"]),
        "solarize": lambda: _solarize(images, 255 * (1 - strength)),
        "autocontrast": lambda: _autocontrast(images),
        "equalize": lambda: _equalize(images),
        "invert": lambda: 255 - images,
    }.items():
        augmented = torch.where(is_chosen(name), operation(), augmented)
    factor = (1 + sign * strength * ranges["blend"]).view(-1, 1, 1, 1)
    grey = _grey(images)  # (B, 1, S, S)
    for name, start in {
        "brightness": torch.zeros_like(grey),
        "colour": grey,
        "contrast": grey.mean((2, 3), keepdim=True),
        "sharpness": _smooth(images),
    }.items():
        blended = (start + factor * (images - start)).clamp(0, 255)
        augmented = torch.where(is_chosen(name), blended, augmented)
    return augmented


def _transform_geometry(images: Tensor, chosen: Tensor, amount: Tensor, ranges: dict) -> Tensor:
    """Shear, shift or rotate each image by `amount` (B,) of the maximum; new pixels are black."""
    S = images.shape[-1]

    def select(name: str, value: Tensor) -> Tensor:
        return torch.where(chosen == OPERATIONS.index(name), value, 0.0)  # (B,)

    angle = select("rotate", amount * ranges["rotate"]).deg2rad()
    shear_x, shear_y = (select(f"shear_{axis}", amount * ranges["shear"]) for axis in "xy")
    shift_x, shift_y = (
        select(f"translate_{axis}", (amount * ranges["translate"] * S).trunc()) for axis in "xy"
    )
    # Each pixel's source position is relative to the centre, in units of half the side. As in
    # torchvision, a shear keeps the first row (or column) in place, so it also shifts the image.
    row_x = torch.stack([angle.cos(), -angle.sin() + shear_x, -2 * shift_x / S + shear_x], 1)
    row_y = torch.stack([angle.sin() + shear_y, angle.cos(), -2 * shift_y / S + shear_y], 1)
    grid = F.affine_grid(torch.stack([row_x, row_y], 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", align_corners=False)


def _grey(images: Tensor) -> Tensor:
    """Return the ITU-R 601 luma (B, 1, S, S)."""
    red, green, blue = images.split(1, 1)
    return 0.2989 * red + 0.587 * green + 0.114 * blue


def _smooth(images: Tensor) -> Tensor:
    """Average each pixel with its eight neighbours; the border is unchanged."""
    kernel = torch.ones(3, 1, 3, 3, device=images.device)
    kernel[:, :, 1, 1] = 5
    inner = F.conv2d(images, kernel / 13, groups=3)  # (B, 3, S-2, S-2)
    smooth = images.clone()
    smooth[:, :, 1:-1, 1:-1] = inner
    return smooth


def _posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the 8 - `bits` (B,) highest bits."""
    step = (2.0 ** bits.round()).view(-1, 1, 1, 1)
    return (images / step).floor() * step


def _solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert all values at or above the threshold (B,)."""
    return torch.where(images >= threshold.view(-1, 1, 1, 1), 255 - images, images)


def _autocontrast(images: Tensor) -> Tensor:
    """Stretch each channel to 0..255; a constant channel is unchanged."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    stretched = 255 * (images - low) / (high - low).clamp_min(1)
    return torch.where(high > low, stretched, images)


def _equalize(images: Tensor) -> Tensor:
    """Equalise each channel's histogram as Pillow does; a constant channel is unchanged."""
    B, _, S, _ = images.shape
    values = images.round().long().clamp(0, 255).flatten(2)  # (B, 3, S*S)
    counts = torch.zeros(B, 3, 256, device=images.device)
    counts.scatter_add_(2, values, torch.ones_like(values, dtype=counts.dtype))
    top = values.amax(2, keepdim=True)  # (B, 3, 1)
    step = ((S * S - counts.gather(2, top)) / 255).floor()  # (B, 3, 1), without the last bin
    table = ((counts.cumsum(2) - counts + (step / 2).floor()) / step.clamp_min(1)).floor()
    spread = table.clamp(0, 255).gather(2, values).view_as(images)
    return torch.where(step.view(B, 3, 1, 1) > 0, spread, images)


POLICIES = {
    "none": None,
    "trivial": Policy(draw_trivial, WIDE_RANGES),
    "rand": Policy(draw_rand, NARROW_RANGES),
    "auto": Policy(draw_auto, NARROW_RANGES),
}
