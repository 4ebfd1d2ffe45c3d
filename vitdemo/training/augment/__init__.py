"""Batched augmentation on the device, with separate random parameters for each image.

(torchvision's v2 transforms draw one set of parameters per batch.) `Augmentation.draw` draws all
random numbers of an epoch first. `Augmentation.apply` and `mix_images` are pure functions of images
and draws. These functions can therefore be compiled, and each process can use a part of the same
draws. Images are float values in 0..255 and are never changed in place.

Letters: N images per epoch, B images per batch, S side of an image in pixels, K operations per
image.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from vitdemo.training.augment.policies import (
    POLICIES,
    Operations,
    apply_policy,
    draw_integers,
    draw_uniform,
)

NUM_NOISE_IMAGES = 64  # number of noise images per epoch, which fill the erased boxes


@dataclass(frozen=True)
class Augmentation:
    """Augmentation of training images; the fields are as in `Recipe` and applied in this order."""

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
        """Draw all random parameters for `count` images of side `size`.

        The tensors are on the generator's device and have one row per image, except "noise"
        (64, 3, S, S), which all images share.
        """
        draws = {}
        if self.crop_padding:  # the top and left pixel of each crop in the padded image
            draws["corner"] = draw_integers(2 * self.crop_padding + 1, (count, 2), generator)
        if self.flip:
            draws["flip"] = draw_flip(count, generator)
        if self.policy != "none":
            draws |= POLICIES[self.policy].draw(count, generator)._asdict()
        if self.erasing:
            draws["erased"] = draw_erasing(count, size, self.erasing, generator)
            draws["which_noise"] = draw_integers(NUM_NOISE_IMAGES, (count,), generator)
            draws["noise"] = 255 * draw_uniform((NUM_NOISE_IMAGES, 3, size, size), generator)
        if self.cutout:
            draws["cut_out"] = draw_cutout(count, size, self.cutout, generator)
        if self.mixes:
            draws |= draw_mix(count, size, self.mixup, self.cutmix, generator)._asdict()
        return draws

    def apply(self, images: Tensor, draws: dict[str, Tensor], fill: Tensor) -> Tensor:
        """Augment images (B, 3, S, S), uint8 or float, with their `draws`, but do not mix.

        `fill` (3, 1, 1) is the colour of the squares that `cutout` masks. Returns float images.
        """
        images = images.float()
        if self.crop_padding:
            images = crop_images(images, draws["corner"], self.crop_padding)
        if self.flip:
            images = flip_images(images, draws["flip"])
        if self.policy != "none":
            operations = Operations(*(draws[name] for name in Operations._fields))
            images = apply_policy(images, operations, POLICIES[self.policy].ranges)
        if self.erasing:
            images = paste_box(images, draws["erased"], draws["noise"][draws["which_noise"]])
        if self.cutout:
            images = paste_box(images, draws["cut_out"], fill)
        return images


def select_draws(draws: dict[str, Tensor], rows: Tensor | slice) -> dict[str, Tensor]:
    """Return the draws of an epoch for the images at `rows`; all images share "noise"."""
    return {name: t if name == "noise" else t[rows] for name, t in draws.items()}


def draw_flip(count: int, generator: Generator) -> Tensor:
    """Draw a mask (N,) of the images to flip, each with probability 0.5."""
    return draw_uniform((count,), generator) < 0.5


def flip_images(images: Tensor, chosen: Tensor) -> Tensor:
    """Flip images (B, 3, S, S) left to right where the mask `chosen` (B,) is True."""
    return torch.where(chosen.view(-1, 1, 1, 1), images.flip(-1), images)


def crop_images(images: Tensor, corner: Tensor, padding: int) -> Tensor:
    """Cut out crops (B, 3, S, S) at `corner` (B, 2) from images padded by reflection."""
    B, _, S, _ = images.shape
    padded = F.pad(images, (padding,) * 4, mode="reflect")  # (B, 3, S+2p, S+2p)
    span = torch.arange(S, device=images.device)
    index = torch.arange(B, device=images.device).view(B, 1, 1)
    rows, columns = corner[:, :1] + span, corner[:, 1:] + span  # each (B, S)
    window = padded.permute(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]]
    return window.permute(0, 3, 1, 2)  # (B, 3, S, S)


def draw_erasing(count: int, size: int, probability: float, generator: Generator) -> Tensor:
    """Draw a box (N, 4) per image for random erasing (Zhong et al. 2020).

    With `probability`, the box covers 2% to 33% of the image; otherwise, the box is empty.
    """
    area = size * size * (0.02 + 0.31 * draw_uniform((count,), generator))
    aspect = (2.4 * draw_uniform((count,), generator) - 1.2).exp()  # about 0.3 to 3.3
    box = _draw_box(size, (area * aspect).sqrt(), (area / aspect).sqrt(), generator)
    return box * (draw_uniform((count, 1), generator) < probability)


def draw_cutout(count: int, size: int, side: int, generator: Generator) -> Tensor:
    """Draw Cutout boxes (N, 4), `side` pixels wide, around random pixels (DeVries & Taylor 2017).

    A box may extend beyond the border of the image.
    """
    corner = draw_integers(size, (count, 2), generator) - side // 2  # top, left
    return torch.cat([corner, corner + side], 1).float()


def _draw_box(size: int, height: Tensor, width: Tensor, generator: Generator) -> Tensor:
    """Draw random boxes (N, 4) with the given sides (N,) inside an image of side `size`."""
    sides = torch.stack([height, width], 1).clamp(max=size)  # (N, 2)
    start = (draw_uniform(tuple(sides.shape), generator) * (size - sides + 1)).floor()
    return torch.cat([start, start + sides], 1)


def box_mask(box: Tensor, size: int) -> Tensor:
    """Return masks (B, 1, S, S) of the pixels in boxes (B, 4): top, left, bottom, right."""
    line = torch.arange(size, device=box.device)
    top, left, bottom, right = box[:, :, None].unbind(1)  # each (B, 1)
    rows, columns = (line >= top) & (line < bottom), (line >= left) & (line < right)  # (B, S)
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def paste_box(images: Tensor, box: Tensor, fill: Tensor) -> Tensor:
    """Replace the pixels in each image's box (B, 4) by `fill`, an image or one colour."""
    return torch.where(box_mask(box, images.shape[-1]), fill, images)


class Mixture(NamedTuple):
    """Mixing parameters of each image and its partner; each field has N rows."""

    share: Tensor  # (N,) fraction of the image in the mixture, and weight of its label
    blend: Tensor  # (N,) weight of the image in each pixel; 1 with CutMix
    pasted: Tensor  # (N, 4) box that comes from the partner; empty with MixUp


def draw_mix(count: int, size: int, mixup: float, cutmix: float, generator: Generator) -> Mixture:
    """Draw MixUp (Zhang et al. 2018) or CutMix (Yun et al. 2019) parameters for each image.

    `mixup` and `cutmix` are the alphas of the Beta distribution of the mixing fraction; 0 is off.
    If both are above 0, each image uses MixUp or CutMix with equal probability.
    """
    cut = draw_uniform((count,), generator) < (0.5 if mixup and cutmix else float(cutmix > 0))
    uniform = draw_uniform((count,), generator)
    cutmix_share, mixup_share = (_beta_from_uniform(a, uniform) for a in (cutmix, mixup))
    share = torch.where(cut, cutmix_share, mixup_share)  # (N,)
    side = (size * (1 - share).sqrt()).round()
    pasted = _draw_box(size, side, side, generator) * cut[:, None]
    blend = torch.where(cut, 1.0, share)
    return Mixture(blend * (1 - (side / size) ** 2 * cut), blend, pasted)


def mix_images(
    images: Tensor, targets: Tensor, partners: Tensor, mixture: Mixture
) -> tuple[Tensor, Tensor]:
    """Mix the first B images (R, 3, S, S) and targets (R, C) with their `partners` (B,).

    With one process, R equals B and `partners` is a permutation. Returns mixed images (B, 3, S, S)
    and targets (B, C).
    """
    B = len(partners)
    share, weight = mixture.share[:B, None], mixture.blend[:B].view(B, 1, 1, 1)
    pasted = box_mask(mixture.pasted[:B], images.shape[-1])
    weight = torch.where(pasted, 0.0, weight)  # (B, 1, S, S)
    mixed = weight * images[:B] + (1 - weight) * images[partners]
    return mixed, share * targets[:B] + (1 - share) * targets[partners]


def _beta_from_uniform(alpha: float, uniform: Tensor) -> Tensor:
    """Map uniform numbers (N,) in 0..1 to Beta(alpha, alpha) numbers with a table of quantiles."""
    if not alpha:
        return torch.ones_like(uniform)
    table = _beta_quantiles(alpha).to(uniform.device)  # (Q,)
    position = uniform * (len(table) - 1)
    low = position.floor().long().clamp(max=len(table) - 2)
    return torch.lerp(table[low], table[low + 1], position - low)


@lru_cache
def _beta_quantiles(alpha: float) -> Tensor:
    from scipy.stats import beta  # the import takes 0.5 s

    levels = torch.linspace(0, 1, 4097).double().numpy()
    return torch.from_numpy(beta.ppf(levels, alpha, alpha)).float()
