"""Several changes of one picture at once, as a person sets them, and some that are worth a look.

    changed = change(picture, Changes(pieces=4))

Letters: S side of the picture, rows and columns of a patch grid.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from PIL import Image

from vitdemo import inputs
from vitdemo.errors import DataError
from vitdemo.perturb import (
    PERTURBATIONS,
    Perturbation,
    apply,
    patch_mask,
    remove_patches,
)

PIECES = (1, 2, 4, 8, 16)  # along a side, when patches change places
SLIDERS = ("rotate", "brightness", "blur", "noise", "jpeg")  # in the order they are applied
MOST_ROWS = 64  # of a grid to take patches from
LAST_SEED = 999


@dataclass(frozen=True)
class Removed:
    """Patches taken from a picture: `cells` count in reading order from 0, on a `grid`."""

    grid: tuple[int, int] = (8, 8)
    cells: tuple[int, ...] = ()

    def on(self, grid: tuple[int, int]) -> "Removed":
        """These on `grid`: none, where they were taken from another."""
        return self if self.grid == grid else Removed(grid)

    def plus(self, cells: Sequence[int]) -> "Removed":
        return Removed(self.grid, tuple(dict.fromkeys((*self.cells, *cells))))

    @property
    def code(self) -> str:
        """For an address: rows, columns, and a bit for each patch, "8.8.3f"; of none, nothing."""
        bits = sum(1 << cell for cell in self.cells)
        return f"{self.grid[0]}.{self.grid[1]}.{bits:x}" if bits else ""

    @classmethod
    def decoded(cls, code: str | None) -> "Removed":
        """What `code` stands for; of anything else, no patch."""
        found = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.([0-9a-f]{1,1024})", code or "", re.ASCII)
        if not found:
            return cls()
        rows, columns, bits = int(found[1]), int(found[2]), int(found[3], 16)
        if not (0 < rows <= MOST_ROWS and 0 < columns <= MOST_ROWS and bits >> rows * columns == 0):
            return cls()
        return cls((rows, columns), tuple(i for i in range(rows * columns) if bits >> i & 1))


@dataclass(frozen=True)
class Changes:
    """All that is done to a picture, in this order; what a field has by default does nothing."""

    pieces: int = 1
    rotate: float = 0
    brightness: float = 1
    blur: float = 0
    noise: float = 0
    jpeg: float = 100
    seed: int = 0
    removed: Removed = field(default_factory=Removed)

    @classmethod
    def wished(cls, pieces, rotate, brightness, blur, noise, jpeg, seed, removed) -> "Changes":
        """From what a page sends: an empty field does nothing, too large is as large as can be."""
        sliders = zip(SLIDERS, (rotate, brightness, blur, noise, jpeg), strict=True)
        strengths = {name: within(PERTURBATIONS[name], value) for name, value in sliders}
        pieces = pieces if pieces in PIECES else 1
        seed = 0 if seed is None or math.isnan(seed) else int(min(max(seed, 0), LAST_SEED))
        return cls(pieces=pieces, seed=seed, removed=removed or Removed(), **strengths)

    @property
    def untouched(self) -> bool:
        return self == Changes(seed=self.seed, removed=Removed(self.removed.grid))

    def words(self) -> str:
        """The changes in one line, for a caption: "4 × 4 pieces shuffled, blur 2 % of the side"."""
        words = [f"{self.pieces} × {self.pieces} pieces shuffled"] if self.pieces > 1 else []
        for name in SLIDERS:
            change, value = PERTURBATIONS[name], getattr(self, name)
            if value != change.neutral:
                words.append(f"{change.title.lower()} {value:g} {change.unit}")
        count = len(self.removed.cells)
        if count:
            rows, columns = self.removed.grid
            words.append(f"{count} of {rows * columns} patches removed")
        return ", ".join(words).replace("jpeg", "JPEG") or "untouched"


@dataclass(frozen=True)
class Preset:
    """Changes worth a look, and what to look for."""

    title: str
    sentence: str
    changes: Changes


CHEQUERED = Removed((8, 8), tuple(i for i in range(64) if (i // 8 + i % 8) % 2))
PRESETS = {
    preset.title: preset
    for preset in (
        Preset(
            "What survives shuffling?",
            "The pieces stay, their arrangement does not. A model that still predicts the class "
            "did not need the arrangement of this image. Compare 2, 4, 8 and 16 pieces a side.",
            Changes(pieces=4),
        ),
        Preset(
            "Half of it gone",
            "Every second patch is painted over, and you still see what it is: which model does, "
            "and does its attention leave the empty patches?",
            Changes(removed=CHEQUERED),
        ),
        Preset(
            "Upside down",
            "Nothing is lost, all is turned; but most photos stand upright, in training too. Which "
            "model minds, and does the attention turn with the object?",
            Changes(rotate=180),
        ),
        Preset(
            "A grainy night",
            "Little light and much noise: look for a model that is as sure as before, and wrong.",
            Changes(brightness=0.4, noise=25),
        ),
        Preset(
            "Out of focus",
            "Blur removes fine texture first and keeps coarse outlines. Shuffling keeps fine "
            "texture.",
            Changes(blur=4),
        ),
        Preset(
            "Squeezed as JPEG",
            "Blocks of 8 pixels appear, as in a picture that was sent on too often: you hardly "
            "mind. Which model does?",
            Changes(jpeg=8),
        ),
    )
}


def within(change: Perturbation, value: float | None) -> float:
    """The strength next to `value` that `change` has; neutral for none and for NaN."""
    if value is None or math.isnan(value):
        return change.neutral
    return min(max(value, change.low), change.high)


def change(picture: Image.Image, changes: Changes) -> Image.Image:
    """An RGB square after all `changes`; its very pixels where there are none.

    Patches are removed last, so that a hole is where the hand was. Raises `DataError` for a patch
    that its grid does not have.
    """
    pixels = torch.from_numpy(inputs.to_uint8(picture))[None]  # (1, 3, S, S)
    pixels = apply("shuffle", pixels, changes.pieces, changes.seed)
    for name in SLIDERS:
        pixels = apply(name, pixels, getattr(changes, name), changes.seed)
    try:
        mask = patch_mask(changes.removed.cells, changes.removed.grid)
    except ValueError as error:
        raise DataError(str(error)) from error
    pixels = remove_patches(pixels, mask) if mask.any() else pixels
    return Image.fromarray(pixels[0].permute(1, 2, 0).numpy())
