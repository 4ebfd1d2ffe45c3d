"""Synthetic images whose class depends only on planted marks, so the right patches are known.

An image has a noisy background and shapes of several colours and sizes, each on whole patches. Only
the red shapes, the marks, decide the class. In the task "one-mark", the shape of the mark is the
class. In "two-marks", the class is whether two marks have the same shape, so one mark alone gives
no information. Each image is drawn from its seed, so no image is stored.

The idea is from Zhou et al. 2022 (https://arxiv.org/abs/2104.14403), who plant features in natural
images.

    found = make_ground_truth_image("one-mark", seed=3)
    found.image  # PIL image, 64 x 64 pixels
    found.patches  # (8, 8) bool, true for the patches of the marks
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

IMAGE_SIZE, PATCH_SIZE = 64, 8  # pixels
GRID = IMAGE_SIZE // PATCH_SIZE  # patches per side
BLOCK = 2 * PATCH_SIZE  # side of the square in which one shape lies, in pixels
SHAPES = ("cross", "ring", "diamond", "frame")
MARK_COLOUR = (205, 45, 45)
OTHER_COLOURS = ((50, 85, 205), (45, 155, 75), (215, 215, 215))
MIN_OTHERS, MAX_OTHERS = 4, 8  # shapes of other colours
TRAINING_SEED = 100_000  # first seed of the training images; test images have seeds from 0


@dataclass(frozen=True)
class GroundTruthTask:
    """A task: its `name`, title, sorted classes and the number of marks that decide the class."""

    name: str
    title: str
    classes: tuple[str, ...]
    num_marks: int

    def choose_label(self, seed: int) -> int:
        """Return the class of the image `seed`; the classes of successive seeds alternate."""
        names = SHAPES if self.num_marks == 1 else self.classes
        return self.classes.index(names[seed % len(names)])


TASKS = {
    task.name: task
    for task in (
        GroundTruthTask("one-mark", "One mark", tuple(sorted(SHAPES)), 1),
        GroundTruthTask("two-marks", "Two marks", ("different", "same"), 2),
    )
}


def get_task(name: str) -> GroundTruthTask:
    """Return the task `name`. Raises `ValueError` for an unknown task."""
    if name not in TASKS:
        raise ValueError(f"Unknown task '{name}': choose one of {', '.join(TASKS)}.")
    return TASKS[name]


@dataclass(frozen=True)
class GroundTruthImage:
    """An RGB image of a task, with the index `label` of its class, and the mask of its marks.

    `patches` (rows, columns) is true for the patches that contain a part of a mark.
    """

    task: GroundTruthTask
    image: Image.Image
    label: int
    patches: np.ndarray

    @property
    def class_name(self) -> str:
        return self.task.classes[self.label]


def make_ground_truth_image(
    task_name: str, seed: int, label: int | None = None
) -> GroundTruthImage:
    """Draw the image `seed` of a task. Another `label` changes only the pixels of marks.

    Without `label`, the seed decides the class. Raises `ValueError` for an unknown task, and
    `IndexError` for an unknown class.
    """
    task = get_task(task_name)
    label = task.choose_label(seed) if label is None else label
    if not 0 <= label < len(task.classes):
        raise IndexError(f"Unknown class {label} of '{task_name}', which has {task.classes}.")
    rng = np.random.default_rng([seed, task.num_marks])
    pixels = _draw_background(rng)
    num_others = int(rng.integers(MIN_OTHERS, MAX_OTHERS + 1))
    blocks = rng.permutation((GRID // 2) ** 2)[: task.num_marks + num_others]
    patches = np.zeros((GRID, GRID), bool)
    marks = _choose_marks(task, label, rng)
    for k, block in enumerate(blocks):
        is_mark = k < task.num_marks
        other_shape = rng.integers(len(SHAPES))
        colour = MARK_COLOUR if is_mark else OTHER_COLOURS[rng.integers(len(OTHER_COLOURS))]
        place = _draw_shape(pixels, int(block), marks[k] if is_mark else other_shape, colour, rng)
        patches[place] |= is_mark
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    return GroundTruthImage(task, image, label, patches)


def write_ground_truth_images(folder: Path, task_name: str, num_train: int, num_test: int) -> None:
    """Write the images of a task as an image folder: train/CLASS/SEED.png and test/CLASS/SEED.png.

    `vitdemo.data.open_dataset` reads this folder.
    """
    seeds = {"train": range(TRAINING_SEED, TRAINING_SEED + num_train), "test": range(num_test)}
    for part, numbers in seeds.items():
        for name in TASKS[task_name].classes:
            (folder / part / name).mkdir(parents=True, exist_ok=True)
        for seed in numbers:
            found = make_ground_truth_image(task_name, seed)
            found.image.save(folder / part / found.class_name / f"{seed:06d}.png")


def _choose_marks(task: GroundTruthTask, label: int, rng: np.random.Generator) -> list[int]:
    """Return the shape of each mark. Each shape of a mark is equally frequent in both classes."""
    first, offset = rng.integers(len(SHAPES)), rng.integers(1, len(SHAPES))
    if task.num_marks == 1:
        return [SHAPES.index(task.classes[label])]
    is_same = task.classes[label] == "same"
    return [first, first if is_same else (first + offset) % len(SHAPES)]


def _draw_background(rng: np.random.Generator) -> np.ndarray:
    """Return a background (S, S, 3) float of smooth colours and noise."""
    coarse = rng.uniform(60, 150, (GRID // 2, GRID // 2, 1)) + rng.uniform(-20, 20, (4, 4, 3))
    large = Image.fromarray(coarse.clip(0, 255).astype(np.uint8))
    smooth = np.asarray(large.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC))
    return smooth + rng.normal(0, 12, (IMAGE_SIZE, IMAGE_SIZE, 3))


def _draw_shape(
    pixels: np.ndarray, block: int, shape: int, colour: tuple, rng: np.random.Generator
) -> tuple[slice, slice]:
    """Draw a shape of one or four patches into `pixels`, and return the slices of its patches."""
    row, column = 2 * (block // (GRID // 2)), 2 * (block % (GRID // 2))  # patches
    count = int(rng.integers(1, 3))  # patches per side
    shift = rng.integers(0, 3 - count, 2)
    top, left = row + int(shift[0]), column + int(shift[1])
    side = count * PATCH_SIZE
    y, x = (
        slice(top * PATCH_SIZE, top * PATCH_SIZE + side),
        slice(left * PATCH_SIZE, left * PATCH_SIZE + side),
    )
    ink = np.array(colour) + rng.uniform(-25, 25, 3) + rng.normal(0, 8, (side, side, 3))
    mask = _compute_mask(shape, side)
    pixels[y, x][mask] = ink[mask]
    return slice(top, top + count), slice(left, left + count)


def _compute_mask(shape: int, side: int) -> np.ndarray:
    """Return the pixels (side, side) bool of the shape `SHAPES[shape]`."""
    axis = (np.arange(side) + 0.5) / side * 2 - 1  # -1 to 1
    y, x = np.abs(axis[:, None]), np.abs(axis[None, :])
    radius = np.hypot(y, x)
    return (
        (y < 0.3) | (x < 0.3),
        (radius > 0.5) & (radius < 1.0),
        y + x < 0.95,
        np.maximum(y, x) > 0.7,
    )[shape]
