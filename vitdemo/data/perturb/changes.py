"""Combinations of image changes that users can set, and presets.

    changed = apply_changes(picture, ImageChanges(pieces=4))

Letters: S side of the image, rows and columns of a patch grid.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from PIL import Image
from torch import Tensor

from vitdemo.data import image_files
from vitdemo.data.perturb import (
    add_noise,
    apply_perturbation,
    blur,
    make_patch_mask,
    remove_patches,
    rotate,
    scale_brightness,
    shuffle_patches,
)
from vitdemo.errors import DataError

PIECE_CHOICES = (1, 2, 4, 8, 16)  # choices of pieces per side for shuffling
SLIDER_NAMES = ("rotate", "brightness", "blur", "noise", "jpeg")  # order of application
MAX_GRID_ROWS = 64  # maximum rows or columns of a grid for removed patches
MAX_SEED = 999


@dataclass(frozen=True)
class RemovedPatches:
    """Patches removed from an image: `cells`, counted from 0 in reading order, on a `grid`."""

    grid: tuple[int, int] = (8, 8)
    cells: tuple[int, ...] = ()

    def on_grid(self, grid: tuple[int, int]) -> "RemovedPatches":
        """Return the same removed patches, or no patches if `grid` is another grid."""
        return self if self.grid == grid else RemovedPatches(grid)

    @property
    def encode(self) -> str:
        """Code for a URL: rows, columns and a bit per patch ("8.8.3f"); "" without removals."""
        bits = sum(1 << cell for cell in self.cells)
        return f"{self.grid[0]}.{self.grid[1]}.{bits:x}" if bits else ""

    @classmethod
    def decode(cls, code: object) -> "RemovedPatches":
        """Decode removed patches from a URL; an invalid code means no removed patches."""
        text = code if isinstance(code, str) else ""
        found = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.([0-9a-f]{1,1024})", text, re.ASCII)
        if not found:
            return cls()
        rows, columns, bits = int(found[1]), int(found[2]), int(found[3], 16)
        fits = 0 < rows <= MAX_GRID_ROWS and 0 < columns <= MAX_GRID_ROWS
        if not fits or bits >> rows * columns:
            return cls()
        return cls((rows, columns), tuple(i for i in range(rows * columns) if bits >> i & 1))


@dataclass(frozen=True)
class ImageChanges:
    """Settings of all image changes, in order of application; default values change nothing."""

    pieces: int = 1
    rotate: float = 0
    brightness: float = 1
    blur: float = 0
    noise: float = 0
    jpeg: float = 100
    seed: int = 0
    removed: RemovedPatches = field(default_factory=RemovedPatches)

    @property
    def is_identity(self) -> bool:
        return self == ImageChanges(seed=self.seed, removed=RemovedPatches(self.removed.grid))


@dataclass(frozen=True)
class Preset:
    """A combination of image changes with a title and a question about its effect."""

    title: str
    description: str
    changes: ImageChanges


CHEQUERBOARD = RemovedPatches((8, 8), tuple(i for i in range(64) if (i // 8 + i % 8) % 2))
CENTRE = RemovedPatches((8, 8), tuple(i for i in range(64) if 2 <= i // 8 < 6 and 2 <= i % 8 < 6))
PRESETS = {
    preset.title: preset
    for preset in (
        Preset(
            "Remove half",
            "Every second patch is removed, but people still recognise the object. Which models "
            "still predict its class?",
            ImageChanges(removed=CHEQUERBOARD),
        ),
        Preset(
            "Block the centre",
            "The object is often in the centre. If a prediction does not change, the rest of the "
            "image is sufficient for this prediction.",
            ImageChanges(removed=CENTRE),
        ),
        Preset(
            "Shuffle patches",
            "The pieces do not change, but their arrangement is lost. A model that still predicts "
            "the class does not need this arrangement.",
            ImageChanges(pieces=8),
        ),
        Preset(
            "Turn upside down",
            "No information is lost, but most training images are upright. Which models still "
            "predict the class?",
            ImageChanges(rotate=180),
        ),
    )
}


def apply_tensor_changes(pixels: Tensor, pieces: Tensor, strengths: Mapping[str, Tensor]) -> Tensor:
    """Apply changes of seed 0 to an image (3, S, S) uint8 without reading their values.

    S must be a multiple of each of `PIECE_CHOICES`. `pieces` () is one of them, and `strengths` are
    the strengths () of all changes in `SLIDER_NAMES` but "jpeg".
    """
    images = changed = pixels[None]
    for count in PIECE_CHOICES[1:]:
        changed = torch.where(pieces == count, shuffle_patches(images, count, [0]), changed)
    changed = rotate(changed, strengths["rotate"])
    changed = scale_brightness(changed, strengths["brightness"])
    changed = blur(changed, strengths["blur"])
    return add_noise(changed, strengths["noise"], [0])[0]


def apply_changes(picture: Image.Image, changes: ImageChanges) -> Image.Image:
    """Apply all `changes` to a square RGB image; without changes, the pixels stay the same.

    Patches are removed last, so that gaps stay where the user clicked. Raises `DataError` for a
    patch outside its grid.
    """
    pixels = torch.from_numpy(image_files.to_uint8(picture))[None]  # (1, 3, S, S)
    changed = change_pixels(pixels, changes)[0]
    return Image.fromarray(changed.permute(1, 2, 0).numpy())


def change_pixels(pixels: Tensor, changes: ImageChanges) -> Tensor:
    """Apply all `changes` to images (B, 3, S, S) uint8. Raises `DataError` as `apply_changes`."""
    pixels = apply_perturbation("shuffle", pixels, changes.pieces, changes.seed)
    for name in SLIDER_NAMES:
        pixels = apply_perturbation(name, pixels, getattr(changes, name), changes.seed)
    if not changes.removed.cells:
        return pixels
    try:
        mask = make_patch_mask(changes.removed.cells, changes.removed.grid)
    except ValueError as error:
        raise DataError(str(error)) from error
    return remove_patches(pixels, mask)
