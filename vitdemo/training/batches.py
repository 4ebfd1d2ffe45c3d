"""Augmented batches of an epoch, drawn from images on the device.

Letters: B images per batch, R images that this process augments, N images in a dataset, S side of
an image in pixels, C classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from vitdemo.data import LabelledImages
from vitdemo.errors import VitdemoError
from vitdemo.training.augment import (
    Augmentation,
    Mixture,
    draw_flip,
    draw_mix,
    mix_images,
    select_draws,
)
from vitdemo.training.processes import Processes
from vitdemo.training.recipes import Recipe


def augment_batch(
    augmentation: Augmentation,
    images: Tensor,
    targets: Tensor,
    draws: dict[str, Tensor],
    partners: Tensor | None,
    fill: Tensor,
) -> tuple[Tensor, Tensor]:
    """Augment uint8 images (R, 3, S, S) and their targets (R, C) with the random `draws`.

    If `partners` (B,) is given, the first B images are mixed with the images at these indices (see
    `mix_images`). Returns float images and targets. The function is pure, so it can be compiled.
    """
    pixels = augmentation.apply(images, draws, fill)
    if partners is None:
        return pixels, targets
    mixture = Mixture(*(draws[name] for name in Mixture._fields))
    return mix_images(pixels, targets, partners, mixture)


class Batches:
    """Batches of the N `images`; the incomplete last batch of an epoch is left out.

    Args:
        mean: colour of masked squares, 0 to 1 per channel.
        processes: processes that share each batch.

    `augment` is `augment_batch` or a compiled version. Raises `VitdemoError` if a batch cannot be
    divided evenly among the processes.
    """

    def __init__(
        self,
        recipe: Recipe,
        images: LabelledImages,
        num_classes: int,
        mean: tuple[float, ...],
        processes: Processes,
    ):
        self.recipe, self.images, self.num_classes = recipe, images, num_classes
        self.processes, self.device = processes, images.labels.device
        self.batch_size = min(recipe.batch_size, len(images))
        self.images_per_process, rest = divmod(self.batch_size, processes.count)
        if rest:
            raise VitdemoError(
                f"A batch of {self.batch_size} images cannot be divided evenly among "
                f"{processes.count} processes: choose a --batch-size that is a multiple of "
                f"{processes.count}."
            )
        self.steps = len(images) // self.batch_size
        self.fill = 255 * torch.tensor(mean, device=self.device).view(3, 1, 1)
        self.augment = augment_batch

    def draw(self, epoch: int, seed: int, *, is_compiled: bool) -> None:
        """Draw order, augmentation and mixing partners of an epoch, the same in every process."""
        recipe, side = self.recipe, self.images.images.shape[-1]
        count = self.steps * self.batch_size
        generator = torch.Generator(self.device).manual_seed(seed)
        self.order = torch.randperm(len(self.images), generator=generator, device=self.device)
        is_mixing = epoch < recipe.total_epochs - recipe.unmixed_epochs
        self.augmentation = Augmentation(
            recipe.crop_padding,
            recipe.flip,
            recipe.policy,
            recipe.erasing,
            recipe.cutout,
            mixup=recipe.mixup * is_mixing,
            cutmix=recipe.cutmix * is_mixing,
        )
        self.draws = self.augmentation.draw(count, side, generator)
        if recipe.alternating_flip:
            # a mask (N,) of the training images; the next epoch flips the others
            fixed = torch.Generator(self.device).manual_seed(recipe.seed)
            flips = draw_flip(len(self.images), fixed) ^ bool(epoch % 2)
            self.draws["flip"] = flips[self.order[:count]]
        if is_compiled and not is_mixing and (recipe.mixup or recipe.cutmix):
            # In epochs without mixing, mixing weights of 1 keep the inputs of the compiled function
            # the same. Otherwise, torch would compile a second function for these epochs.
            self.draws |= draw_mix(count, side, 0, 0, generator)._asdict()
        self.mixing_partners = None
        if "share" in self.draws:
            shape = (self.steps, self.batch_size)
            keys = torch.rand(shape, generator=generator, device=self.device)
            self.mixing_partners = keys.argsort(1)  # one permutation per batch

    def find_rows(self, step: int) -> tuple[Tensor | slice, Tensor | None]:
        """Return the rows (R,) of the epoch that this process augments, and the mixing partners.

        The partners are indices (B,) into these rows, or None without mixing.
        """
        start, first = step * self.batch_size, self.processes.rank * self.images_per_process
        partners = None if self.mixing_partners is None else self.mixing_partners[step]
        if partners is None or self.processes.count == 1:
            return slice(start + first, start + first + self.images_per_process), partners
        own = torch.arange(first, first + self.images_per_process, device=self.device)
        rows = start + torch.cat([own, partners[own]])
        return rows, torch.arange(
            self.images_per_process, 2 * self.images_per_process, device=self.device
        )

    @torch.no_grad()
    def load(self, step: int) -> tuple[Tensor, Tensor]:
        """Return augmented pixels (B, 3, S, S) and label targets (B, C) for this process."""
        rows, partners = self.find_rows(step)
        indices = self.order[rows]  # (R,)
        return self.augment(
            self.augmentation,
            self.images.images[indices],
            F.one_hot(self.images.labels[indices], self.num_classes).float(),
            select_draws(self.draws, rows),
            partners,
            self.fill,
        )
