"""The random changes that a recipe applies to training images, step by step.

Letters: B images per batch, S image side in pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.data import CIFAR10_MEAN
from vitdemo.data.image_files import crop_and_resize, to_uint8
from vitdemo.metrics import format_with_noun
from vitdemo.training.augment import Augmentation
from vitdemo.training.batches import augment_batch
from vitdemo.training.recipes import Recipe

CUTOUT_FILL = 255 * torch.tensor(CIFAR10_MEAN).view(3, 1, 1)  # colour of the box that Cutout draws


@dataclass(frozen=True, eq=False)
class AugmentedImages:
    """Batch of images after one or all augmentation steps: `pictures` (B, S, S, 3) uint8.

    `targets` has one mapping per image, class name -> target probability. `targets` is empty if the
    step does not change the targets.
    """

    title: str
    description: str
    pictures: np.ndarray
    targets: tuple[dict[str, float], ...] = ()


def apply_augmentations(
    recipe: Recipe, images: Sequence[Image.Image], names: Sequence[str], *, side: int, seed: int
) -> list[AugmentedImages]:
    """Apply each augmentation step of `recipe` separately to the same RGB images, then all steps.

    `names` are the classes of the images, and `side` is the side of the training images. The same
    `seed` gives the same result on every machine. The first result contains the original images.
    """
    squares = [to_uint8(crop_and_resize(image, side)) for image in images]
    pixels = torch.from_numpy(np.stack(squares))  # (B, 3, S, S) uint8
    found = [AugmentedImages("Original images", "", _uint8(pixels))]
    for title, description, fields in _steps(recipe):
        alone = Augmentation(**{name: getattr(recipe, name) for name in fields})
        found.append(_apply_step(title, description, alone, pixels, names, seed))
    if len(found) > 2:
        description = f"The model is trained on these images.{describe_patch_dropout(recipe)}"
        whole = Augmentation(**{f.name: getattr(recipe, f.name) for f in fields_of(Augmentation)})
        found.append(_apply_step("All steps together", description, whole, pixels, names, seed))
    return found


def describe_patch_dropout(recipe: Recipe) -> str:
    """Return a sentence about the PatchDropout of `recipe`, or "" without PatchDropout."""
    if not recipe.patch_dropout:
        return ""
    until = f", except in the last {format_with_noun(recipe.whole_epochs, 'epoch')}"
    return (
        f" A random {100 * recipe.patch_dropout:.0f}% of each image's patch tokens are dropped "
        f"(PatchDropout, Liu et al. 2022){until if recipe.whole_epochs else ''}."
    )


def _apply_step(
    title: str,
    description: str,
    augmentation: Augmentation,
    pixels: Tensor,
    names: Sequence[str],
    seed: int,
) -> AugmentedImages:
    B, side = len(pixels), pixels.shape[-1]
    generator = torch.Generator().manual_seed(seed)
    draws = augmentation.draw(B, side, generator)
    partners = torch.rand((B,), generator=generator).argsort() if augmentation.mixes else None
    shares = torch.eye(B)  # (B, B), row i: weights of the images mixed into image i
    drawn, mixed = augment_batch(augmentation, pixels, shares, draws, partners, CUTOUT_FILL)
    targets = _class_proportions(mixed, names) if augmentation.mixes else ()
    return AugmentedImages(title, description, _uint8(drawn), targets)


def _uint8(pixels: Tensor) -> np.ndarray:
    """Convert images (B, 3, S, S) in 0..255 to (B, S, S, 3) uint8."""
    return pixels.float().clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def _class_proportions(shares: Tensor, names: Sequence[str]) -> tuple[dict[str, float], ...]:
    """Convert image weights (B, B) to class weights per image, the largest weight first."""
    found = []
    for row in shares.tolist():
        total: dict[str, float] = {}
        for name, share in zip(names, row, strict=True):
            total[name] = total.get(name, 0.0) + share
        largest = sorted(total.items(), key=lambda item: -item[1])
        found.append({name: share for name, share in largest if share > 0})
    return tuple(found)


POLICY_TEXTS = {
    "trivial": "TrivialAugmentWide: one operation per image (rotation, shear, shift, colour, "
    "contrast, ...), with random strength.",
    "rand": "RandAugment: two operations per image (rotation, shear, shift, colour, contrast, "
    "...), with magnitude 9 on a scale of 30.",
    "auto": "AutoAugment: one of 25 pairs of operations that were selected for CIFAR-10.",
}


def _steps(recipe: Recipe) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return title, description and recipe fields of each augmentation step of `recipe`."""
    steps = []
    if recipe.crop_padding:
        description = (
            f"The image is shifted by up to {recipe.crop_padding} pixels, with mirrored borders."
        )
        steps.append(("Random crop", description, ("crop_padding",)))
    if recipe.flip:
        description = "The image is mirrored horizontally with a probability of 50%."
        steps.append(("Random flip", description, ("flip",)))
    if recipe.policy != "none":
        steps.append(("Random operations", POLICY_TEXTS[recipe.policy], ("policy",)))
    if recipe.erasing:
        description = (
            f"With a probability of {100 * recipe.erasing:g}%, a box with 2% to 33% of the image "
            "area is replaced by noise."
        )
        steps.append(("Random erasing", description, ("erasing",)))
    if recipe.cutout:
        description = (
            f"A square of {recipe.cutout} × {recipe.cutout} pixels is replaced by the mean colour "
            "of the dataset."
        )
        steps.append(("Cutout", description, ("cutout",)))
    if recipe.mixup or recipe.cutmix:
        steps.append((*_describe_mixing(recipe), ("mixup", "cutmix")))
    return steps


def _describe_mixing(recipe: Recipe) -> tuple[str, str]:
    """Return title and description of MixUp and CutMix."""
    parts = {}
    if recipe.mixup:
        parts["MixUp"] = f"MixUp (alpha {recipe.mixup:g}) blends the image with another image"
    if recipe.cutmix:
        parts["CutMix"] = f"CutMix (alpha {recipe.cutmix:g}) pastes a box from another image"
    description = f"{', or '.join(parts.values())}. The targets are mixed in the same proportions."
    if recipe.unmixed_epochs:
        last = format_with_noun(recipe.unmixed_epochs, "epoch")
        description += f" The images are not mixed in the last {last}."
    return " or ".join(parts), description
