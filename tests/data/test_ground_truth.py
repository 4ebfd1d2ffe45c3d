"""Ground truth images: only the marks decide the class."""

import itertools

import numpy as np
import pytest

from vitdemo.data import open_dataset
from vitdemo.data.ground_truth import (
    GRID,
    PATCH_SIZE,
    SHAPES,
    TASKS,
    _choose_marks,
    make_ground_truth_image,
    write_ground_truth_images,
)

SEEDS = range(30)


def enlarge(patches: np.ndarray) -> np.ndarray:
    """Return the mask of patches as a mask of pixels (S, S)."""
    return patches.repeat(PATCH_SIZE, 0).repeat(PATCH_SIZE, 1)


def measure_red(image) -> np.ndarray:
    """Return red minus the larger of green and blue, (S, S)."""
    red, green, blue = np.moveaxis(np.asarray(image, dtype=int), -1, 0)
    return red - np.maximum(green, blue)


@pytest.mark.parametrize("task", TASKS)
def test_another_class_changes_only_pixels_of_marks(task):
    for seed in SEEDS:
        found = [make_ground_truth_image(task, seed, i) for i in range(len(TASKS[task].classes))]
        for one, other in itertools.combinations(found, 2):
            assert (one.patches == other.patches).all()
            changed = (np.asarray(one.image) != np.asarray(other.image)).any(axis=2)
            assert changed.any() and not changed[~enlarge(one.patches)].any()


@pytest.mark.parametrize("task", TASKS)
def test_the_mask_contains_all_red_pixels_and_no_other_shape(task):
    sizes = set()
    for seed in SEEDS:
        found = make_ground_truth_image(task, seed)
        red = measure_red(found.image)
        assert red[~enlarge(found.patches)].max() < 100
        assert found.patches.shape == (GRID, GRID)
        for row, column in np.argwhere(found.patches):
            rows = slice(row * PATCH_SIZE, (row + 1) * PATCH_SIZE)
            columns = slice(column * PATCH_SIZE, (column + 1) * PATCH_SIZE)
            assert red[rows, columns].max() > 100
        sizes.add(int(found.patches.sum()))
    assert sizes == ({1, 4} if task == "one-mark" else {2, 5, 8})


@pytest.mark.parametrize("task", TASKS)
def test_the_images_of_a_seed_are_equal_and_classes_are_balanced(task):
    one, other = (make_ground_truth_image(task, 7) for _ in range(2))
    assert one.image.tobytes() == other.image.tobytes() and one.label == other.label
    labels = [make_ground_truth_image(task, seed).label for seed in range(20)]
    assert len(set(np.bincount(labels))) == 1


def test_each_mark_alone_gives_no_information_about_same_and_different():
    task, rng = TASKS["two-marks"], np.random.default_rng(0)
    for label in range(2):
        marks = np.array([_choose_marks(task, label, rng) for _ in range(4000)])  # (N, 2)
        assert ((marks[:, 0] == marks[:, 1]) == (task.classes[label] == "same")).all()
        for column in marks.T:
            shares = np.bincount(column, minlength=len(SHAPES)) / len(column)
            assert np.abs(shares - 1 / len(SHAPES)).max() < 0.03  # 4 standard errors


def test_written_images_form_a_dataset(tmp_path):
    write_ground_truth_images(tmp_path, "one-mark", 8, 4)
    dataset = open_dataset(tmp_path)
    assert dataset.classes == TASKS["one-mark"].classes
    train, test = (dataset.load(part, 64) for part in ("train", "test"))
    assert (len(train), len(test)) == (8, 4)
    first = make_ground_truth_image("one-mark", 0)
    (index,) = np.flatnonzero(test.labels == first.label)
    assert (test.images[index].permute(1, 2, 0).numpy() == np.asarray(first.image)).all()


def test_unknown_tasks_and_classes_are_refused():
    with pytest.raises(ValueError, match="'none': choose one of one-mark, two-marks"):
        make_ground_truth_image("none", 0)
    with pytest.raises(IndexError, match="Unknown class 2"):
        make_ground_truth_image("two-marks", 0, 2)
