"""Batched augmentation on the device, with parameters drawn for each picture.

(torchvision's v2 transforms draw theirs once for a whole batch.) Every function takes float
pictures in 0..255, draws from torch's global generator, which the trainer seeds for each epoch,
and returns new tensors. Letters: B pictures of a batch, S their side, C classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def random_flip(images: Tensor) -> Tensor:
    """Mirror each picture (B, 3, S, S) left to right with a chance of one half."""
    flip = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    return torch.where(flip, images.flip(-1), images)


def random_crop(images: Tensor, padding: int) -> Tensor:
    """Shift each picture (B, 3, S, S) by up to `padding` pixels, over reflected borders."""
    B, _, S, _ = images.shape
    device = images.device
    padded = F.pad(images, (padding,) * 4, mode="reflect")  # (B, 3, S+2p, S+2p)
    top, left = torch.randint(0, 2 * padding + 1, (2, B, 1), device=device)
    span = torch.arange(S, device=device)
    picture = torch.arange(B, device=device).view(B, 1, 1)
    crop = padded.permute(0, 2, 3, 1)[
        picture, (top + span)[:, :, None], (left + span)[:, None, :]
    ]  # (B, S, S, 3)
    return crop.permute(0, 3, 1, 2)


def random_erasing(images: Tensor, chance: float) -> Tensor:
    """Fill a rectangle of 2 to 33 % of a picture (B, 3, S, S) with noise (Zhong et al. 2020)."""
    B, _, S, _ = images.shape
    device = images.device
    area = S * S * torch.empty(B, device=device).uniform_(0.02, 0.33)
    aspect = torch.empty(B, device=device).uniform_(-1.2, 1.2).exp()  # about 0.3 to 3.3
    inside = _random_box(S, (area * aspect).sqrt(), (area / aspect).sqrt())  # (B, 1, S, S)
    chosen = torch.rand(B, 1, 1, 1, device=device) < chance
    return torch.where(inside & chosen, 255 * torch.rand_like(images), images)


def _random_box(size: int, height: Tensor, width: Tensor) -> Tensor:
    """Masks (B, 1, S, S) of boxes of the given sides (B,), each wholly inside its picture."""
    height, width = height.clamp(max=size), width.clamp(max=size)
    masks = []
    for length in (height, width):
        start = torch.rand_like(length) * (size - length + 1)
        start = start.floor()[:, None]  # (B, 1)
        line = torch.arange(size, device=length.device)
        masks.append((line >= start) & (line < start + length[:, None]))  # (B, S)
    return (masks[0][:, :, None] & masks[1][:, None, :])[:, None]


def mix(images: Tensor, targets: Tensor, *, mixup: float, cutmix: float) -> tuple[Tensor, Tensor]:
    """MixUp (Zhang et al. 2018) or CutMix (Yun et al. 2019), chosen and drawn for each picture.

    Args:
        images: (B, 3, S, S).
        targets: (B, C) class probabilities.
        mixup, cutmix: alpha of the Beta distribution of the share; 0 switches one off, and with
            both above 0 each picture takes one of them with a chance of one half.

    Returns the mixed pictures and targets, of the same shapes.
    """
    if not mixup and not cutmix:
        return images, targets
    B, _, S, _ = images.shape
    device = images.device
    partner = torch.randperm(B, device=device)
    cut = torch.rand(B, device=device) < (0.5 if mixup and cutmix else float(cutmix > 0))
    share = torch.where(cut, _beta(cutmix, B, device), _beta(mixup, B, device))  # (B,) of oneself
    side = S * (1 - share).sqrt()
    box = _random_box(S, side.round(), side.round())  # (B, 1, S, S)
    share = torch.where(cut, 1 - box.float().mean((1, 2, 3)), share)  # the box's true area
    blend = share.view(B, 1, 1, 1) * images + (1 - share.view(B, 1, 1, 1)) * images[partner]
    pasted = torch.where(box, images[partner], images)
    images = torch.where(cut.view(B, 1, 1, 1), pasted, blend)
    return images, share[:, None] * targets + (1 - share[:, None]) * targets[partner]


def _beta(alpha: float, count: int, device: torch.device) -> Tensor:
    if not alpha:
        return torch.ones(count, device=device)
    concentration = torch.full((count,), float(alpha), device=device)
    return torch.distributions.Beta(concentration, concentration, validate_args=False).sample()


# Random policies. Every operation is computed for the whole batch and chosen by `torch.where`, so
# that shapes stay static; the operations and their ranges are torchvision's.
GEOMETRY = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
BLENDS = ("brightness", "colour", "contrast", "sharpness")
TONES = ("posterize", "solarize", "autocontrast", "equalize")
OPERATIONS = ("identity", *GEOMETRY, *BLENDS, *TONES)
# Largest magnitude: shear as a slope, translation as a share of the side, rotation in degrees,
# blends around 1, bits that posterize takes away, share of 255 that solarize goes down.
WIDE = {"shear": 0.99, "translate": 1.0, "rotate": 135.0, "blend": 0.99, "posterize": 6}
NARROW = {"shear": 0.3, "translate": 150 / 331, "rotate": 30.0, "blend": 0.9, "posterize": 4}


def trivial_augment(images: Tensor) -> Tensor:
    """TrivialAugmentWide (Mueller & Hutter 2021): one operation a picture, at any magnitude.

    (B, 3, S, S) float in 0..255 to the same. The translation's range is the picture's own side.
    """
    strength = torch.rand(len(images), device=images.device)  # (B,)
    return _apply_random_operation(images, strength, WIDE)


def rand_augment(images: Tensor, operations: int = 2, magnitude: int = 9) -> Tensor:
    """RandAugment (Cubuk et al. 2020): `operations` a picture, at `magnitude` of 30.

    (B, 3, S, S) float in 0..255 to the same.
    """
    strength = torch.full((len(images),), magnitude / 30, device=images.device)  # (B,)
    for _ in range(operations):
        images = _apply_random_operation(images, strength, NARROW)
    return images


def _apply_random_operation(images: Tensor, strength: Tensor, ranges: dict) -> Tensor:
    B, device = len(images), images.device
    chosen = torch.randint(len(OPERATIONS), (B,), device=device)
    sign = torch.randint(2, (B,), device=device) * 2.0 - 1
    return apply_operations(images, chosen, strength, sign, ranges)


def apply_operations(
    images: Tensor, chosen: Tensor, strength: Tensor, sign: Tensor, ranges: dict
) -> Tensor:
    """Apply to each picture (B, 3, S, S) the operation `OPERATIONS[chosen]`.

    Args:
        chosen: (B,) int64.
        strength: (B,) in 0..1, share of the range.
        sign: (B,) +1 or -1: left or right, darker or brighter.
        ranges: `WIDE` or `NARROW`.
    """

    def turn(name: str) -> Tensor:  # (B, 1, 1, 1)
        return (chosen == OPERATIONS.index(name)).view(-1, 1, 1, 1)

    moved = _move(images, chosen, sign * strength, ranges)
    for name, operation in {
        "posterize": lambda: _posterize(images, strength * ranges["posterize"]),
        "solarize": lambda: _solarize(images, 255 * (1 - strength)),
        "autocontrast": lambda: _autocontrast(images),
        "equalize": lambda: _equalize(images),
    }.items():
        moved = torch.where(turn(name), operation(), moved)
    factor = (1 + sign * strength * ranges["blend"]).view(-1, 1, 1, 1)
    grey = _grey(images)  # (B, 1, S, S)
    for name, start in {
        "brightness": torch.zeros_like(grey),
        "colour": grey,
        "contrast": grey.mean((2, 3), keepdim=True),
        "sharpness": _smooth(images),
    }.items():
        blended = (start + factor * (images - start)).clamp(0, 255)
        moved = torch.where(turn(name), blended, moved)
    return moved


def _move(images: Tensor, chosen: Tensor, amount: Tensor, ranges: dict) -> Tensor:
    """Shear, shift or turn each picture by `amount` (B,) of its range; black comes in."""
    S = images.shape[-1]

    def part(name: str, value: Tensor) -> Tensor:
        return torch.where(chosen == OPERATIONS.index(name), value, 0.0)  # (B,)

    angle = part("rotate", amount * ranges["rotate"]).deg2rad()
    shear_x, shear_y = (part(f"shear_{axis}", amount * ranges["shear"]) for axis in "xy")
    shift_x, shift_y = (
        part(f"translate_{axis}", (amount * ranges["translate"] * S).trunc()) for axis in "xy"
    )
    # Where each pixel comes from, in units of half the side around the centre. A shear holds the
    # first row (or column) in place, as in torchvision, so it also shifts.
    row_x = torch.stack([angle.cos(), -angle.sin() + shear_x, -2 * shift_x / S + shear_x], 1)
    row_y = torch.stack([angle.sin() + shear_y, angle.cos(), -2 * shift_y / S + shear_y], 1)
    grid = F.affine_grid(torch.stack([row_x, row_y], 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", align_corners=False)


def _grey(images: Tensor) -> Tensor:
    """Luma (B, 1, S, S) of ITU-R 601."""
    weights = torch.tensor((0.2989, 0.587, 0.114), device=images.device).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def _smooth(images: Tensor) -> Tensor:
    """Each pixel with its eight neighbours, the border as it is."""
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
    """Invert what is at or above the threshold (B,)."""
    return torch.where(images >= threshold.view(-1, 1, 1, 1), 255 - images, images)


def _autocontrast(images: Tensor) -> Tensor:
    """Stretch each channel to 0..255; a channel of one value stays."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    stretched = 255 * (images - low) / (high - low).clamp_min(1)
    return torch.where(high > low, stretched, images)


def _equalize(images: Tensor) -> Tensor:
    """Spread each channel's histogram evenly, as Pillow does; a channel of one value stays."""
    B, _, S, _ = images.shape
    values = images.round().long().clamp(0, 255).flatten(2)  # (B, 3, S*S)
    counts = torch.zeros(B, 3, 256, device=images.device)
    counts.scatter_add_(2, values, torch.ones_like(values, dtype=counts.dtype))
    top = values.amax(2, keepdim=True)  # (B, 3, 1)
    step = ((S * S - counts.gather(2, top)) / 255).floor()  # (B, 3, 1): the last bin is left out
    table = ((counts.cumsum(2) - counts + (step / 2).floor()) / step.clamp_min(1)).floor()
    spread = table.clamp(0, 255).gather(2, values).view_as(images)
    return torch.where(step.view(B, 3, 1, 1) > 0, spread, images)


POLICIES = {"none": lambda images: images, "trivial": trivial_augment, "rand": rand_augment}
