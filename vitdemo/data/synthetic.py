"""Synthetic images of stripes, which a model learns in seconds."""

from pathlib import Path

import torch

from vitdemo.data.datasets import ImageDataset
from vitdemo.data.labelled_images import LabelledImages


class SyntheticDataset(ImageDataset):
    """Synthetic images of stripes for `--smoke`, which a model learns in seconds."""

    def find_part(self, part: str) -> None:
        return None

    def load(self, part: str, size: int = 32) -> LabelledImages:
        return make_synthetic_images(len(self.classes), seed=int(part == "test"))

    def check_images(self, part: str) -> None:
        """Do nothing, because synthetic images are never invalid."""

    def list_notes(self) -> list[str]:
        return []


SYNTHETIC_DATASET = SyntheticDataset("synthetic", Path(), ("one", "two", "three", "four"))


def make_synthetic_images(
    num_classes: int = 4, images_per_class: int = 24, size: int = 32, seed: int = 0
) -> LabelledImages:
    """Draw coloured stripes with noise: angle and colour by class, noise by `seed`."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_classes).repeat(images_per_class)  # (N,)
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    angle = labels * torch.pi / num_classes
    wave = torch.sin(
        (angle.cos().view(-1, 1, 1) * columns + angle.sin().view(-1, 1, 1) * rows) * 0.8
    )  # (N, S, S)
    colour = torch.rand(num_classes, 3, 1, 1, generator=torch.Generator().manual_seed(0))[labels]
    noise = 0.2 * torch.randn(len(labels), 3, size, size, generator=generator)
    images = 255 * (0.5 + 0.4 * wave[:, None] * colour + noise).clamp(0, 1)
    return LabelledImages(images.to(torch.uint8), labels)
