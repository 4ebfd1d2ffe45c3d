"""Hands on the picture: change it, and see what every model says and where the chosen one looks.

    canvas = hands.canvas(workbench, image)
    changed = hands.change(canvas, Changes(pieces=4))
    shifts, problems = hands.shifts(workbench, canvas, changed)  # before and after, for every model

The change is made once, on one picture, before each model's own preprocessing: all models see the
same. Letters: S side of that picture, C classes, rows and columns of a patch grid.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from vitdemo import inputs, perturb
from vitdemo.errors import DataError
from vitdemo.perturb import PERTURBATIONS
from vitdemo.runs import Run
from vitdemo.traced import Traced
from vitdemo.workbench import Workbench

PIECES = (1, 2, 4, 8, 16)  # along a side, when patches change places
MULTIPLE = PIECES[-1]  # every canvas can be cut into any of them
SLIDERS = ("rotate", "brightness", "blur", "noise", "jpeg")  # in the order they are applied
MOST_ROWS = 64  # of a grid to take patches from
LAST_SEED = 999
MAPS = ("rollout", "mean")  # what "attends to most" may go by


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
        said = [f"{self.pieces} × {self.pieces} pieces shuffled"] if self.pieces > 1 else []
        for name in SLIDERS:
            change, value = PERTURBATIONS[name], getattr(self, name)
            if value != change.neutral:
                said.append(f"{change.title.lower()} {value:g} {change.unit}")
        count = len(self.removed.cells)
        if count:
            rows, columns = self.removed.grid
            said.append(f"{count} of {rows * columns} patches removed")
        return ", ".join(said).replace("jpeg", "JPEG") or "untouched"


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
            "The pieces are all there, the shape is not: a model that still names the class goes "
            "by colour and texture. Compare 2, 4 and 8 pieces a side.",
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
            "Fine texture goes first, the outline stays: the opposite of shuffling.",
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


@dataclass(frozen=True)
class Shift:
    """What one model said (C,) of the untouched picture and says of the changed one."""

    run: Run
    before: np.ndarray
    after: np.ndarray

    @property
    def was(self) -> str:
        return self.run.classes[int(self.before.argmax())]

    @property
    def now(self) -> str:
        return self.run.classes[int(self.after.argmax())]

    def classes(self, most: int = 3) -> list[int]:
        """The `most` likely classes before, then those that came among them since."""
        first, then = (np.argsort(-row, kind="stable")[:most] for row in (self.before, self.after))
        return list(dict.fromkeys([*first.tolist(), *then.tolist()]))


def within(change: perturb.Perturbation, value: float | None) -> float:
    """The strength next to `value` that `change` has; neutral for none and for NaN."""
    if value is None or math.isnan(value):
        return change.neutral
    return min(max(value, change.low), change.high)


def canvas(workbench: Workbench, image: Image.Image) -> Image.Image:
    """The picture that hands work on: as large as the largest input of the trained models.

    An RGB square; a smaller picture stays as it is where its side can be cut into all `PIECES`,
    so that one of CIFAR-10 reaches the models with its own 32 pixels.
    """
    largest = max((run.preprocessing.size for run in workbench.trained_runs()), default=32)
    side = max(min(*image.size, largest), 32)
    side = -(-side // MULTIPLE) * MULTIPLE
    return image if image.size == (side, side) else inputs.square_crop(image, side)


def change(canvas: Image.Image, changes: Changes) -> Image.Image:
    """`canvas` after all `changes`; the very pixels of `canvas` where there are none.

    Patches are removed last, so that a hole is where the hand was. Raises `DataError` for a patch
    that its grid does not have.
    """
    picture = torch.from_numpy(inputs.to_uint8(canvas))[None]  # (1, 3, S, S)
    picture = perturb.apply("shuffle", picture, changes.pieces, changes.seed)
    for name in SLIDERS:
        picture = perturb.apply(name, picture, getattr(changes, name), changes.seed)
    try:
        mask = perturb.patch_mask(changes.removed.cells, changes.removed.grid)
    except ValueError as error:
        raise DataError(str(error)) from error
    picture = perturb.remove_patches(picture, mask) if mask.any() else picture
    return Image.fromarray(picture[0].permute(1, 2, 0).numpy())


def shifts(
    workbench: Workbench, before: Image.Image, after: Image.Image
) -> tuple[list[Shift], list[str]]:
    """Every trained model's two answers, and a sentence for each model that has none."""
    first, problems = workbench.answers(before)
    then = {answer.run.name: answer for answer in workbench.answers(after)[0]}
    found = [
        Shift(answer.run, answer.probabilities, then[answer.run.name].probabilities)
        for answer in first
        if answer.run.name in then
    ]
    return found, problems


def grid_of(workbench: Workbench, run: Run) -> tuple[int, int]:
    """Rows and columns of the model's patches; 8 x 8 for a model without. Raises `RunError`."""
    model = workbench.model(run)
    return tuple(model.patch_embed.grid_size) if workbench.layers(run) else (8, 8)


def most_attended(
    look: Traced, layer: int, removed: Removed, count: int, by: str = "rollout"
) -> list[int]:
    """The `count` patches of `removed.grid` still there that the class token attends to most.

    `by` is "rollout" up to the layer 1..L or "mean", that of its heads. On another grid than the
    model's a patch has the mean of what it covers. Fewer, where fewer are left.
    """
    values = torch.from_numpy(attended(look, layer, by))[None]  # (1, rows, columns)
    values = F.adaptive_avg_pool2d(values, removed.grid).flatten()  # (P,)
    order = values.argsort(descending=True, stable=True).tolist()
    return [cell for cell in order if cell not in removed.cells][:count]


def attended(look: Traced, layer: int, by: str) -> np.ndarray:
    """Attention of the class token (rows, columns): `by` "rollout" or "mean" of the heads."""
    if by not in MAPS:
        raise DataError(f"Unknown map '{by}': choose one of {', '.join(MAPS)}.")
    if by == "mean":
        return look.head_maps(layer).mean(0)
    return look.rollout_map(layer, fusion="mean", discard_ratio=0.0)


def at_random(removed: Removed, count: int, seed: int) -> list[int]:
    """`count` of the patches still there, each as likely: what `most_attended` must beat."""
    rows, columns = removed.grid
    order = np.random.default_rng(seed).permutation(rows * columns).tolist()
    return [cell for cell in order if cell not in removed.cells][:count]
