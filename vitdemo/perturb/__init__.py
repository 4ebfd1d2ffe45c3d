"""Changes of a picture that a model should survive: seeded, pure functions on uint8 pictures.

Each takes (B, 3, S, S) uint8 and returns a new tensor of the same shape; at its neutral strength
`apply` returns the picture bit for bit. What a picture becomes depends on itself, the strength and
its own seed, never on the rest of its batch. Strengths mean the same at every S where that is
possible, so that models of different resolution are put to the same test.

Letters: B pictures of a batch, S their side, P patches of a grid.
"""

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

GRAINS = 32  # of noise along a side: finer ones would vanish where a model shrinks the picture
REMOVAL_GRID = 8  # rows and columns of the patches that `apply("remove", ...)` takes


@dataclass(frozen=True)
class Perturbation:
    """One change: strengths from `low` to `high` in `unit`, `neutral` changes nothing.

    `strengths` are those of a robustness curve, in the order of its axis, the neutral one among
    them.
    """

    name: str
    title: str
    low: float
    high: float
    neutral: float
    unit: str
    sentence: str
    strengths: tuple[float, ...]


PERTURBATIONS = {
    change.name: change
    for change in (
        Perturbation(
            *("noise", "Noise", 0, 100, 0, "grey levels"),
            "Random grain on every colour; the strength is its standard deviation, of 255 levels.",
            (0, 10, 20, 40, 80),
        ),
        Perturbation(
            *("blur", "Blur", 0, 15, 0, "% of the side"),
            "Each point becomes a mean of those around it; the strength is how far that reaches.",
            (0, 1, 2, 4, 8),
        ),
        Perturbation(
            *("jpeg", "JPEG quality", 1, 100, 100, "of 100"),
            "Saved as a small JPEG file and read again; 100 leaves the picture as it is.",
            (100, 50, 25, 10, 5),
        ),
        Perturbation(
            *("rotate", "Rotation", -180, 180, 0, "degrees"),
            "Turned to the left around its centre; the corners get the picture's mean colour.",
            (0, 15, 30, 60, 90, 180),
        ),
        Perturbation(
            *("brightness", "Brightness", 0, 3, 1, "times"),
            "Every value times a number: below 1 is darker, above 1 brighter, until white is full.",
            (0.2, 0.5, 1, 1.5, 2, 3),
        ),
        Perturbation(
            *("shuffle", "Shuffled patches", 1, 16, 1, "pieces a side"),
            "Cut into equal squares that change places: what is in them stays, the shape is lost.",
            (1, 2, 4, 8, 16),
        ),
        Perturbation(
            *("remove", "Removed patches", 0, 100, 0, "% of the patches"),
            "Random squares of an 8 × 8 grid are painted over with the picture's mean colour.",
            (0, 25, 50, 75, 90),
        ),
    )
}


def apply(name: str, images: Tensor, strength: float, seed: int | Sequence[int] = 0) -> Tensor:
    """`images` (B, 3, S, S) uint8 after the change `name` at `strength`.

    `seed` is one number for all pictures, which then meet the same draw, or one for each.
    Raises `ValueError` naming the choices for an unknown name, a strength out of range, a number
    of seeds that is not B, or pieces that S cannot be cut into.
    """
    if name not in PERTURBATIONS:
        raise ValueError(f"Unknown change '{name}': choose one of {', '.join(PERTURBATIONS)}.")
    change = PERTURBATIONS[name]
    if not change.low <= strength <= change.high:
        raise ValueError(
            f"{change.title} of {strength} is not in {change.low} to {change.high} {change.unit}."
        )
    seeds = _seeds(seed, len(images))
    if strength == change.neutral:
        return images.clone()
    return {
        "noise": lambda: add_noise(images, strength, seeds),
        "blur": lambda: blur(images, strength),
        "jpeg": lambda: compress(images, round(strength)),
        "rotate": lambda: rotate(images, strength),
        "brightness": lambda: brighten(images, strength),
        "shuffle": lambda: shuffle_patches(images, round(strength), seeds),
        "remove": lambda: remove_patches(images, random_mask(strength / 100, seeds)),
    }[name]()


def _seeds(seed: int | Sequence[int], count: int) -> list[int]:
    seeds = [seed] * count if isinstance(seed, int) else list(seed)
    if len(seeds) != count:
        raise ValueError(f"{len(seeds)} seeds for {count} pictures: give one, or one for each.")
    return seeds


def add_noise(images: Tensor, deviation: float, seeds: Sequence[int]) -> Tensor:
    """Gaussian noise, `deviation` in grey levels, on each channel of each of 32 x 32 grains.

    On pictures of up to 32 pixels a grain is a pixel. A seed's noise only grows with `deviation`.
    """
    S = images.shape[-1]
    side = min(S, GRAINS)
    grains = [torch.randn(3, side, side, generator=_generator(seed)) for seed in seeds]
    place = torch.arange(S) * side // S  # (S,) the grain of each pixel
    noise = torch.stack(grains)[:, :, place[:, None], place]  # (B, 3, S, S)
    return _to_uint8(images.float() + deviation * noise.to(images.device))


def blur(images: Tensor, percent: float) -> Tensor:
    """Gaussian blur with a standard deviation of `percent` of the side, over reflected borders."""
    S = images.shape[-1]
    sigma = percent / 100 * S
    reach = min(math.ceil(3 * sigma), S - 1)  # a border is reflected once at most
    return tv.gaussian_blur(images, 2 * reach + 1, sigma) if reach else images.clone()


def compress(images: Tensor, quality: int) -> Tensor:
    """Through a JPEG file of Pillow's `quality`, colours at half resolution as usual."""
    return torch.stack([_through_jpeg(image, quality) for image in images.cpu()]).to(images.device)


def _through_jpeg(image: Tensor, quality: int) -> Tensor:
    buffer = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=quality)
    return torch.from_numpy(np.array(Image.open(buffer))).permute(2, 0, 1)  # (3, S, S)


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Turned counter-clockwise, bilinear; what comes in has the mean colour of its picture."""
    mean = images.float().mean((2, 3), keepdim=True)  # (B, 3, 1, 1)
    # torchvision fills all pictures of a batch with one colour; around its mean each has its own.
    turned = tv.rotate(images - mean, degrees, InterpolationMode.BILINEAR)
    return _to_uint8(turned + mean)


def brighten(images: Tensor, factor: float) -> Tensor:
    """Every value times `factor`, at most 255."""
    return _to_uint8(images.float() * factor)


def shuffle_patches(images: Tensor, pieces: int, seeds: Sequence[int]) -> Tensor:
    """Cut into `pieces` x `pieces` squares and put together in another order.

    Raises `ValueError` where S is no multiple of `pieces`.
    """
    B, _, S, _ = images.shape
    if S % pieces:
        raise ValueError(f"A side of {S} pixels cannot be cut into {pieces} equal pieces.")
    side = S // pieces
    cut = images.view(B, 3, pieces, side, pieces, side).permute(0, 2, 4, 1, 3, 5)
    patches = cut.reshape(B, pieces**2, 3, side, side)  # (B, P, 3, side, side)
    orders = torch.stack([_other_order(pieces**2, seed) for seed in seeds])  # (B, P)
    mixed = patches[torch.arange(B)[:, None], orders]  # (B, P, 3, side, side)
    joined = mixed.view(B, pieces, pieces, 3, side, side).permute(0, 3, 1, 4, 2, 5)
    return joined.reshape(B, 3, S, S)


def _other_order(count: int, seed: int) -> Tensor:
    """A random permutation (count,) that is not the given order, unless there is no other."""
    generator = _generator(seed)
    while True:
        order = torch.randperm(count, generator=generator)
        if count == 1 or (order != torch.arange(count)).any():
            return order


def remove_patches(images: Tensor, removed: Tensor) -> Tensor:
    """Paint patches over with the mean colour of their picture.

    `removed` is bool, (B, rows, columns) or (rows, columns) for all pictures. Where S is no
    multiple of the rows, patches differ by a pixel.
    """
    S = images.shape[-1]
    mask = removed.to(images.device).expand(len(images), *removed.shape[-2:])
    rows, columns = (
        torch.arange(S, device=images.device) * count // S for count in mask.shape[-2:]
    )  # (S,) the patch of each pixel
    mean = _to_uint8(images.float().mean((2, 3), keepdim=True))  # (B, 3, 1, 1)
    return torch.where(mask[:, None, rows[:, None], columns], mean, images)


def patch_mask(cells: Iterable[int], grid: tuple[int, int]) -> Tensor:
    """A mask (rows, columns) of the patches `cells`, counted from 0 in reading order.

    Raises `ValueError` naming a cell that the grid does not have.
    """
    mask = torch.zeros(grid[0] * grid[1], dtype=torch.bool)
    for cell in cells:
        if cell not in range(len(mask)):
            raise ValueError(f"There is no patch {cell} in a grid of {grid[0]} x {grid[1]}.")
        mask[cell] = True
    return mask.view(grid)


def random_mask(share: float, seeds: Sequence[int], grid: int = REMOVAL_GRID) -> Tensor:
    """Masks (B, grid, grid) of the nearest number of patches to `share`; a larger share adds."""
    count = round(share * grid**2)
    ranks = [torch.randperm(grid**2, generator=_generator(seed)) for seed in seeds]  # B of (P,)
    return (torch.stack(ranks) < count).view(-1, grid, grid)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _to_uint8(images: Tensor) -> Tensor:
    return images.round().clamp(0, 255).to(torch.uint8)
