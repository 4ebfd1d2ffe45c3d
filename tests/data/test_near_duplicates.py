"""Groups of near-identical images, and folds that keep each group together."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.support.factories import noise
from vitdemo.data.near_duplicates import (
    assign_folds,
    count_groups,
    effective_sample_size,
    group_images,
)


def make_scene(seed: int) -> Image.Image:
    """Return a smooth coloured scene, 224 pixels wide."""
    return noise(seed, (7, 7)).resize((224, 224), Image.Resampling.BICUBIC)


def make_burst_frames(image: Image.Image, count: int, seed: int = 0) -> list[Image.Image]:
    """Return frames of a hand-held burst, which differ in crop, brightness, noise and JPEG loss."""
    rng, side, frames = np.random.default_rng(seed), image.width, []
    for _ in range(count):
        width = int(side * rng.uniform(0.92, 1))
        x, y = rng.integers(0, side - width + 1, 2)
        crop = image.crop((x, y, x + width, y + width)).resize((side, side))
        pixels = np.asarray(crop, float) * rng.uniform(0.92, 1.08)
        pixels += rng.normal(0, 3, pixels.shape)
        buffer = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=85)
        frames.append(Image.open(buffer).convert("RGB"))
    return frames


def test_frames_of_a_burst_are_one_group_and_different_images_are_not():
    images = [frame for seed in range(5) for frame in make_burst_frames(make_scene(seed), 6, seed)]
    labels = np.repeat([0, 1], [18, 12])  # three bursts of class 0, two of class 1
    same_class = np.eye(2)[labels]  # features that only depend on the class
    assert group_images(images, same_class, labels).tolist() == np.repeat(range(5), 6).tolist()
    distinct = np.eye(30)
    assert group_images(images, distinct, labels).tolist() == list(range(30))


def test_frames_of_a_pan_are_one_group_linked_by_neighbours():
    wide = noise(3, (12, 7)).resize((480, 224), Image.Resampling.BICUBIC)
    images = [wide.crop((x, 0, x + 224, 224)) for x in range(0, 241, 20)]
    images, labels = [*images, make_scene(9)], np.repeat([0, 1], [13, 1])
    assert group_images(images, np.eye(2)[labels], labels).tolist() == [0] * 13 + [1]
    ends = [0, 12, 13]
    groups = group_images([images[i] for i in ends], np.eye(2)[labels[ends]], labels[ends])
    assert groups.tolist() == [0, 1, 2]


def test_shared_background_does_not_make_images_near_identical():
    images = []
    for place in range(12):  # a dark object at different places on white paper
        pixels = np.full((224, 224, 3), 255, np.uint8)
        x, y = 20 + 60 * (place % 3), 10 + 50 * (place // 3)
        pixels[y : y + 45, x : x + 45] = 20 * place
        images.append(Image.fromarray(pixels))
    labels = np.arange(12) % 2
    rng = np.random.default_rng(0)
    features = 5 + rng.normal(size=(12, 64))  # raw cosines are above 0.95
    assert len(set(group_images(images, features, labels))) == 12


def test_long_burst_among_few_images_is_one_group():
    burst = make_burst_frames(make_scene(1), 30)
    images, labels = (
        [*burst, *(make_scene(seed) for seed in range(2, 6))],
        np.repeat([0, 1], [30, 4]),
    )
    rng = np.random.default_rng(0)
    features = rng.normal(size=(5, 64))[[0] * 30 + [1, 2, 3, 4]]
    features = features + 0.2 * rng.normal(size=features.shape)
    assert group_images(images, features, labels).tolist() == [0] * 30 + [1, 2, 3, 4]


def test_folds_contain_whole_groups_and_all_classes():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(1, 9, 14)
        groups = np.repeat(np.arange(14), sizes)
        labels = np.repeat(np.arange(14) % 3, sizes)
        folds = int(rng.integers(2, 5))
        assigned = assign_folds(labels, groups, folds)
        for group in range(14):
            assert len(set(assigned[groups == group])) == 1
        for fold in range(folds):
            assert set(labels[assigned == fold]) == set(labels[assigned != fold]) == {0, 1, 2}


def test_single_images_are_distributed_evenly_over_folds():
    labels = np.repeat([0, 1], [12, 7])
    folds = assign_folds(labels, np.arange(19), 5)
    counts = np.array([np.bincount(folds[labels == c], minlength=5) for c in (0, 1)])
    assert (np.ptp(counts, axis=1) <= 1).all() and np.ptp(counts.sum(0)) <= 1


def test_too_few_groups_are_rejected_and_mixed_ones_count_once():
    labels = np.array([0, 0, 1, 1, 1, 1])
    groups = np.array([0, 1, 1, 1, 2, 2])
    assert count_groups(labels, groups).tolist() == [1, 2]
    with pytest.raises(ValueError, match="fewer than 2 groups"):
        assign_folds(labels, groups, 2)


def test_effective_size_counts_groups_instead_of_images():
    assert effective_sample_size(np.arange(7)) == 7
    assert effective_sample_size(np.repeat(range(10), 12)) == pytest.approx(10)
    assert effective_sample_size(np.repeat([0, 1], [9, 1])) == pytest.approx(100 / 82)
