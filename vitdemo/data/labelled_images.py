"""Sets of images in memory, as one (N, 3, S, S) uint8 tensor, and their preprocessing.

Letters: B images of a batch, N images of a set, S image side in pixels.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

# Mean and standard deviation of all pixels of the training images. Many repositories instead use
# the mean of the images' standard deviations, (0.2023, 0.1994, 0.2010), which is smaller.
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class LabelledImages:
    """Images (N, 3, S, S) uint8 with class indices `labels` (N,) int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> "LabelledImages":
        return LabelledImages(self.images[indices], self.labels[indices])

    def to(self, device: torch.device) -> "LabelledImages":
        return LabelledImages(self.images.to(device), self.labels.to(device))


def compute_fingerprint(pictures: LabelledImages, classes: tuple[str, ...]) -> str:
    """Return a hash of pixels, labels, order and class names: 16 hexadecimal digits."""
    digest = hashlib.blake2b("\0".join(classes).encode(), digest_size=8)
    digest.update(pictures.labels.cpu().numpy().tobytes())
    digest.update(pictures.images.cpu().numpy().tobytes())
    return digest.hexdigest()


def pixel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and standard deviation per channel of (N, 3, S, S) uint8 pixels, 0 to 1."""
    total, square = torch.zeros(2, 3, dtype=torch.float64)
    for part in images.split(1024):
        values = part.double().transpose(0, 1).flatten(1) / 255  # (3, B*S*S)
        total += values.sum(1)
        square += values.square().sum(1)
    mean, square = total * 3 / images.numel(), square * 3 / images.numel()
    std = (square - mean.square()).clamp_min(1e-6).sqrt()
    return tuple(round(v, 4) for v in mean.tolist()), tuple(round(v, 4) for v in std.tolist())


def preprocess_images(
    images: Tensor, size: int, mean: tuple[float, ...], std: tuple[float, ...]
) -> Tensor:
    """Convert square images to the model input: resized (bicubic, antialiased) and normalised.

    Args:
        images: (B, 3, S, S), uint8 or float, 0 to 255.
        size: width of the model input in pixels.
        mean, std: values per channel, for pixels in 0 to 1.

    Returns (B, 3, size, size) float32, as from `image_files.crop_and_resize` (within a grey level).
    """
    pixels = images.float()
    if pixels.shape[-1] != size:
        pixels = F.interpolate(pixels, (size, size), mode="bicubic", antialias=True).clamp(0, 255)
    shift, scale = _grey_levels(mean, images.device), _grey_levels(std, images.device)
    return (pixels - shift) / scale  # (B, 3, size, size)


@lru_cache(maxsize=32)  # A new copy to the device would wait for all queued work.
@torch.inference_mode(False)
def _grey_levels(channels: tuple[float, ...], device: torch.device) -> Tensor:
    return 255 * torch.tensor(channels, device=device).view(3, 1, 1)
