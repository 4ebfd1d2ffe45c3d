"""Batched augmentation on the device, with parameters drawn for each picture.

(torchvision's v2 transforms draw theirs once for a whole batch.) What is random is drawn first, for
a whole epoch at once (`Augmentation.draw`), and is then a value: what is done to the pictures is a
pure function of it (`Augmentation.apply`, `mix`), so it can be compiled, and each of several
processes can take its own share of the same draws. Pictures are float in 0..255 and never changed
in place.

Letters: N pictures drawn for, B pictures of a batch, S their side, K operations of a policy.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from vitdemo.augment.drawing import integers, uniform
from vitdemo.augment.policies import POLICIES, apply_policy

NOISES = 64  # pictures of noise an epoch, that erased boxes are filled from


@dataclass(frozen=True)
class Augmentation:
    """What is done to the pictures of a training, in this order; the fields are a recipe's."""

    crop_padding: int = 0
    flip: bool = False
    policy: str = "none"
    erasing: float = 0.0
    cutout: int = 0
    mixup: float = 0.0
    cutmix: float = 0.0

    @property
    def mixes(self) -> bool:
        return self.mixup > 0 or self.cutmix > 0

    def draw(self, count: int, size: int, generator: Generator) -> dict[str, Tensor]:
        """All that is random for `count` pictures of side `size`, on the generator's device.

        Each tensor has a row a picture, but for "noise" (64, 3, S, S), which they share.
        """
        draws = {}
        if self.crop_padding:
            draws["corner"] = draw_crop(count, self.crop_padding, generator)
        if self.flip:
            draws["flip"] = draw_flip(count, generator)
        if self.policy != "none":
            draws |= POLICIES[self.policy].draw(count, generator)._asdict()
        if self.erasing:
            draws["erased"] = draw_erasing(count, size, self.erasing, generator)
            draws["which_noise"] = integers(NOISES, count, generator)
            draws["noise"] = 255 * uniform((NOISES, 3, size, size), generator)
        if self.cutout:
            draws["cut_out"] = draw_cutout(count, size, self.cutout, generator)
        if self.mixes:
            draws |= draw_mix(count, size, self.mixup, self.cutmix, generator)._asdict()
        return draws

    def apply(self, images: Tensor, draws: dict[str, Tensor], fill: Tensor) -> Tensor:
        """Pictures (B, 3, S, S), uint8 or float, and their rows of `draws` -> float, not mixed.

        `fill` (3, 1, 1) is the colour of what `cutout` cuts out.
        """
        images = images.float()
        if self.crop_padding:
            images = crop(images, draws["corner"], self.crop_padding)
        if self.flip:
            images = flip(images, draws["flip"])
        if self.policy != "none":
            operations, ranges = (
                POLICIES[self.policy].taken_from(draws),
                POLICIES[self.policy].ranges,
            )
            images = apply_policy(images, operations, ranges)
        if self.erasing:
            images = paste(images, draws["erased"], draws["noise"][draws["which_noise"]])
        if self.cutout:
            images = paste(images, draws["cut_out"], fill)
        return images


def take(draws: dict[str, Tensor], rows: Tensor | slice) -> dict[str, Tensor]:
    """The draws of some pictures alone."""
    return {name: t if name == "noise" else t[rows] for name, t in draws.items()}


def draw_flip(count: int, generator: Generator) -> Tensor:
    """(N,) bool, true for about one half."""
    return uniform((count,), generator) < 0.5


def flip(images: Tensor, chosen: Tensor) -> Tensor:
    """Mirror the chosen (B,) pictures (B, 3, S, S) left to right."""
    return torch.where(chosen.view(-1, 1, 1, 1), images.flip(-1), images)


def draw_crop(count: int, padding: int, generator: Generator) -> Tensor:
    """Top and left (N, 2) of each window in its padded picture."""
    return integers(2 * padding + 1, (count, 2), generator)


def crop(images: Tensor, corner: Tensor, padding: int) -> Tensor:
    """Windows (B, 3, S, S) at `corner` (B, 2) of pictures padded with their reflection."""
    B, _, S, _ = images.shape
    padded = F.pad(images, (padding,) * 4, mode="reflect")  # (B, 3, S+2p, S+2p)
    span = torch.arange(S, device=images.device)
    picture = torch.arange(B, device=images.device).view(B, 1, 1)
    rows, columns = corner[:, :1] + span, corner[:, 1:] + span  # each (B, S)
    window = padded.permute(0, 2, 3, 1)[picture, rows[:, :, None], columns[:, None, :]]
    return window.permute(0, 3, 1, 2)  # (B, 3, S, S)


def draw_erasing(count: int, size: int, chance: float, generator: Generator) -> Tensor:
    """Boxes (N, 4) of 2 to 33 % of a picture (Zhong et al. 2020); empty where none is erased."""
    area = size * size * (0.02 + 0.31 * uniform((count,), generator))
    aspect = (2.4 * uniform((count,), generator) - 1.2).exp()  # about 0.3 to 3.3
    box = _draw_box(size, (area * aspect).sqrt(), (area / aspect).sqrt(), generator)
    return box * (uniform((count, 1), generator) < chance)


def draw_cutout(count: int, size: int, side: int, generator: Generator) -> Tensor:
    """Boxes (N, 4) of `side` pixels around any pixel, cut at the border (DeVries & Taylor 2017)."""
    corner = integers(size, (count, 2), generator) - side // 2  # top, left
    return torch.cat([corner, corner + side], 1).float()


def _draw_box(size: int, height: Tensor, width: Tensor, generator: Generator) -> Tensor:
    """Top, left, bottom, right (N, 4) of boxes of the given sides (N,), wholly in the picture."""
    sides = torch.stack([height, width], 1).clamp(max=size)  # (N, 2)
    start = (uniform(tuple(sides.shape), generator) * (size - sides + 1)).floor()
    return torch.cat([start, start + sides], 1)


def inside(box: Tensor, size: int) -> Tensor:
    """Masks (B, 1, S, S) of the pixels in boxes (B, 4): top, left, bottom, right."""
    line = torch.arange(size, device=box.device)
    top, left, bottom, right = box[:, :, None].unbind(1)  # each (B, 1)
    rows, columns = (line >= top) & (line < bottom), (line >= left) & (line < right)  # (B, S)
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def paste(images: Tensor, box: Tensor, filling: Tensor) -> Tensor:
    """Put `filling`, as large as a picture or one colour, in each picture's box (B, 4)."""
    return torch.where(inside(box, images.shape[-1]), filling, images)


class Mixture(NamedTuple):
    """How each picture is mixed with its partner; each has N rows."""

    share: Tensor  # (N,) of the picture itself in what comes out
    blend: Tensor  # (N,) its weight where it is blended; 1 under CutMix
    pasted: Tensor  # (N, 4) box that comes from the partner; empty under MixUp


def draw_mix(count: int, size: int, mixup: float, cutmix: float, generator: Generator) -> Mixture:
    """MixUp (Zhang et al. 2018) or CutMix (Yun et al. 2019), chosen and drawn for each picture.

    `mixup`, `cutmix`: alpha of the Beta distribution of the share; 0 switches one off, and with
    both above 0 each picture takes one of them with a chance of one half.
    """
    cut = uniform((count,), generator) < (0.5 if mixup and cutmix else float(cutmix > 0))
    chance = uniform((count,), generator)
    share = torch.where(cut, _beta(cutmix, chance), _beta(mixup, chance))  # (N,)
    side = (size * (1 - share).sqrt()).round()
    pasted = _draw_box(size, side, side, generator) * cut[:, None]
    blend = torch.where(cut, 1.0, share)
    return Mixture(blend * (1 - (side / size) ** 2 * cut), blend, pasted)


def mix(images: Tensor, targets: Tensor, theirs: Tensor, mixture: Mixture) -> tuple[Tensor, Tensor]:
    """Mix the first B of pictures (R, 3, S, S) and targets (R, C) with those at `theirs` (B,).

    Where all pictures of the batch are here, R is B and `theirs` a permutation. Returns the mixed
    (B, 3, S, S) and (B, C).
    """
    B = len(theirs)
    share, weight = mixture.share[:B, None], mixture.blend[:B].view(B, 1, 1, 1)
    weight = torch.where(inside(mixture.pasted[:B], images.shape[-1]), 0.0, weight)  # (B, 1, S, S)
    mixed = weight * images[:B] + (1 - weight) * images[theirs]
    return mixed, share * targets[:B] + (1 - share) * targets[theirs]


def _beta(alpha: float, chance: Tensor) -> Tensor:
    """Beta(alpha, alpha) from numbers (N,) uniform in 0..1, by a fine table of its quantiles."""
    if not alpha:
        return torch.ones_like(chance)
    table = _beta_quantiles(alpha).to(chance.device)  # (Q,)
    place = chance * (len(table) - 1)
    low = place.floor().long().clamp(max=len(table) - 2)
    return torch.lerp(table[low], table[low + 1], place - low)


@lru_cache
def _beta_quantiles(alpha: float, count: int = 4097) -> Tensor:
    from scipy.stats import beta  # half a second that the page need not wait for

    return torch.from_numpy(
        beta.ppf(torch.linspace(0, 1, count).double().numpy(), alpha, alpha)
    ).float()
