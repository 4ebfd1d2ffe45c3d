"""Image perturbations for robustness tests: seeded, pure functions on uint8 images.

Each function takes (B, 3, S, S) uint8 and returns a new tensor of the same shape. At the neutral
strength, `apply_perturbation` returns identical images. The result for an image does not depend on
other images of the batch. Where possible, a strength has the same effect at every S, so that models
of different resolution get the same test.

Letters: B images of a batch, S side of an image, P patches of a grid.
"""

import functools
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

NOISE_GRAINS = 32  # grains per side; a model that shrinks the image would average finer grains
MAX_CACHED_DRAWS = 64  # random numbers are drawn once, because graphs contain them as constants
REMOVAL_GRID = 8  # rows and columns of the patch grid for the perturbation "remove"


@dataclass(frozen=True)
class Perturbation:
    """A perturbation with strengths from `low` to `high` in `unit`; `neutral` changes nothing.

    `strengths` are the points of a robustness curve in plotting order, including `neutral`.
    """

    name: str
    title: str
    low: float
    high: float
    neutral: float
    unit: str
    description: str
    strengths: tuple[float, ...]


PERTURBATIONS = {
    change.name: change
    for change in (
        Perturbation(
            *("noise", "Noise", 0, 100, 0, "grey levels"),
            "Adds random noise to every colour. The strength is the noise's standard deviation.",
            (0, 10, 20, 40, 80),
        ),
        Perturbation(
            *("blur", "Blur", 0, 15, 0, "% of the side"),
            "Replaces each pixel by a mean of its neighbours. The strength is the radius.",
            (0, 1, 2, 4, 8),
        ),
        Perturbation(
            *("jpeg", "JPEG quality", 1, 100, 100, "of 100"),
            "Compresses the image as JPEG of this quality. 100 leaves the image unchanged.",
            (100, 50, 25, 10, 5),
        ),
        Perturbation(
            *("rotate", "Rotation", -180, 180, 0, "degrees"),
            "Rotates the image to the left. The corners are filled with the image's mean colour.",
            (0, 15, 30, 60, 90, 180),
        ),
        Perturbation(
            *("brightness", "Brightness", 0, 3, 1, "times"),
            "Multiplies every pixel value. Below 1, the image is darker; above 1, it is brighter.",
            (0.2, 0.5, 1, 1.5, 2, 3),
        ),
        Perturbation(
            *("shuffle", "Shuffled patches", 1, 16, 1, "pieces a side"),
            "Cuts the image into equal squares and shuffles them. Textures remain, but shapes "
            "larger than a square are lost.",
            (1, 2, 4, 8, 16),
        ),
        Perturbation(
            *("remove", "Removed patches", 0, 100, 0, "% of the patches"),
            "Paints random squares of an 8 × 8 grid with the image's mean colour.",
            (0, 25, 50, 75, 90),
        ),
    )
}


def apply_perturbation(
    name: str, images: Tensor, strength: float, seed: int | Sequence[int] = 0
) -> Tensor:
    """Return `images` (B, 3, S, S) uint8 after the change `name` at `strength`.

    `seed` is one seed for all images, or one seed for each image. Raises `ValueError` for an
    unknown name, a strength out of range, or a number of seeds other than B. Also raises
    `ValueError` if the number of pieces does not divide S.
    """
    if name not in PERTURBATIONS:
        raise ValueError(f"Unknown change '{name}': choose one of {', '.join(PERTURBATIONS)}.")
    change = PERTURBATIONS[name]
    if not change.low <= strength <= change.high:
        raise ValueError(
            f"{change.title} is {strength}: choose {change.low} to {change.high} {change.unit}."
        )
    seeds = [seed] * len(images) if isinstance(seed, int) else list(seed)
    if len(seeds) != len(images):
        raise ValueError(
            f"{len(seeds)} seeds for {len(images)} images: pass one, or one per image."
        )
    if strength == change.neutral:
        return images.clone()
    return {
        "noise": lambda: add_noise(images, strength, seeds),
        "blur": lambda: blur(images, strength),
        "jpeg": lambda: compress_jpeg(images, round(strength)),
        "rotate": lambda: rotate(images, strength),
        "brightness": lambda: scale_brightness(images, strength),
        "shuffle": lambda: shuffle_patches(images, round(strength), seeds),
        "remove": lambda: remove_patches(images, sample_patch_masks(strength / 100, seeds)),
    }[name]()


def scale_brightness(images: Tensor, factor: float | Tensor) -> Tensor:
    return _to_uint8(images.float() * factor)


def add_noise(images: Tensor, deviation: float | Tensor, seeds: Sequence[int]) -> Tensor:
    """Add Gaussian noise of `deviation` grey levels to each channel of each of 32 x 32 grains.

    In images of up to 32 pixels, a grain is one pixel. A larger `deviation` only scales the noise
    of a seed.
    """
    S = images.shape[-1]
    side = min(S, NOISE_GRAINS)
    grains = [_draw_grains(side, seed) for seed in seeds]
    place = torch.arange(S) * side // S  # (S,) the grain of each pixel
    noise = torch.stack(grains)[:, :, place[:, None], place]  # (B, 3, S, S)
    return _to_uint8(images.float() + deviation * noise.to(images.device))


def blur(images: Tensor, percent: float | Tensor) -> Tensor:
    """Blur images with a Gaussian whose standard deviation is `percent` of the side.

    `percent` (), at most that of `PERTURBATIONS`, can be a tensor; its value is then not read.
    """
    S = images.shape[-1]
    sigma = torch.as_tensor(percent, dtype=torch.float32, device=images.device) / 100 * S
    most = PERTURBATIONS["blur"].high if isinstance(percent, Tensor) else percent
    reach = min(math.ceil(3 * most / 100 * S), S - 1)  # reflected padding must be smaller than S
    places = torch.arange(-reach, reach + 1, device=images.device)  # pixels from the centre
    kernel = (-0.5 * (places / sigma.clamp(min=1e-6)) ** 2).exp()
    kernel = kernel * (places.abs() <= (3 * sigma).ceil())
    kernel = kernel / kernel.sum()
    padded = F.pad(images.float(), [reach] * 4, mode="reflect").flatten(0, 1)[:, None]
    blurred = F.conv2d(F.conv2d(padded, kernel.view(1, 1, 1, -1)), kernel.view(1, 1, -1, 1))
    return _to_uint8(blurred[:, 0].unflatten(0, images.shape[:2]))


def compress_jpeg(images: Tensor, quality: int) -> Tensor:
    """Compress images as JPEG with Pillow's `quality` and its default colour subsampling."""
    decoded = []
    for image in images.cpu():
        buffer = io.BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=quality)
        decoded.append(torch.from_numpy(np.array(Image.open(buffer))).permute(2, 0, 1))
    return torch.stack(decoded).to(images.device)


def rotate(images: Tensor, degrees: float | Tensor) -> Tensor:
    """Rotate images counter-clockwise; corners are filled with each image's mean colour.

    `degrees` () can be a tensor; its value is then not read.
    """
    mean = images.float().mean((2, 3), keepdim=True)  # (B, 3, 1, 1)
    angle = torch.as_tensor(degrees, dtype=torch.float32, device=images.device).deg2rad()
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    matrix = torch.stack([cosine, -sine, zero, sine, cosine, zero]).view(1, 2, 3)
    matrix = matrix.expand(len(images), -1, -1)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    turned = F.grid_sample(images - mean, grid, align_corners=False)  # corners are 0
    return _to_uint8(turned + mean)


def shuffle_patches(images: Tensor, pieces: int, seeds: Sequence[int]) -> Tensor:
    """Shuffle `pieces` x `pieces` squares per image. Raises `ValueError` if S is not divisible."""
    B, _, S, _ = images.shape
    if S % pieces:
        raise ValueError(f"pieces is {pieces}: choose a divisor of {S}, the side in pixels.")
    side = S // pieces
    cut = images.view(B, 3, pieces, side, pieces, side).permute(0, 2, 4, 1, 3, 5)
    patches = cut.reshape(B, pieces**2, 3, side, side)  # (B, P, 3, side, side)
    orders = torch.stack([_random_order(pieces**2, seed) for seed in seeds])  # (B, P)
    mixed = patches[torch.arange(B)[:, None], orders]  # (B, P, 3, side, side)
    joined = mixed.view(B, pieces, pieces, 3, side, side).permute(0, 3, 1, 4, 2, 5)
    return joined.reshape(B, 3, S, S)


@functools.lru_cache(MAX_CACHED_DRAWS)
def _draw_grains(side: int, seed: int) -> Tensor:
    return torch.randn(3, side, side, generator=_generator(seed))


@functools.lru_cache(MAX_CACHED_DRAWS)
def _random_order(count: int, seed: int) -> Tensor:
    """Draw a random permutation (count,) other than the identity; for count 1, the identity."""
    generator = _generator(seed)
    while True:
        order = torch.randperm(count, generator=generator)
        if count == 1 or (order != torch.arange(count)).any():
            return order


def remove_patches(images: Tensor, removed: Tensor) -> Tensor:
    """Paint removed patches with the mean colour of their image.

    `removed` is a bool mask (B, rows, columns), or (rows, columns) for all images. If S is not a
    multiple of the rows or columns, the sizes of patches differ by a pixel.
    """
    S = images.shape[-1]
    mask = removed.to(images.device).expand(len(images), *removed.shape[-2:])
    rows, columns = (
        torch.arange(S, device=images.device) * count // S for count in mask.shape[-2:]
    )  # (S,) the patch of each pixel
    mean = _to_uint8(images.float().mean((2, 3), keepdim=True))  # (B, 3, 1, 1)
    return torch.where(mask[:, None, rows[:, None], columns], mean, images)


def make_patch_mask(cells: Iterable[int], grid: tuple[int, int]) -> Tensor:
    """Build a mask (rows, columns) that is True for the patches `cells`, from 0 in reading order.

    Raises `ValueError` for a cell outside the grid.
    """
    mask = torch.zeros(grid[0] * grid[1], dtype=torch.bool)
    for cell in cells:
        if cell not in range(len(mask)):
            raise ValueError(f"There is no patch {cell}: choose 0 to {len(mask) - 1}.")
        mask[cell] = True
    return mask.view(grid)


def sample_patch_masks(share: float, seeds: Sequence[int]) -> Tensor:
    """Draw masks (B, 8, 8) of random patches; a larger `share` only adds patches."""
    P = REMOVAL_GRID**2
    ranks = [torch.randperm(P, generator=_generator(seed)) for seed in seeds]  # B of (P,)
    return (torch.stack(ranks) < round(share * P)).view(-1, REMOVAL_GRID, REMOVAL_GRID)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _to_uint8(images: Tensor) -> Tensor:
    return images.round().clamp(0, 255).to(torch.uint8)
