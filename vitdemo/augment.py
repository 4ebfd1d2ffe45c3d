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
    return torch.distributions.Beta(concentration, concentration).sample()
