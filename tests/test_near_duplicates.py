"""Groups of near-identical images, and folds that keep them together."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.factories import noise
from vitdemo.data.near_duplicates import (
    assign_folds,
    count_groups,
    effective_sample_size,
    group_images,
)
from vitdemo.metrics.intervals import wilson_interval, wilson_interval_of_fraction


def make_scene(seed: int) -> Image.Image:
    """A smooth coloured scene, 224 pixels wide."""
    return noise(seed, (7, 7)).resize((224, 224), Image.Resampling.BICUBIC)


def make_burst_frames(image: Image.Image, count: int, seed: int = 0) -> list[Image.Image]:
    """Frames of a hand-held burst: shifted, zoomed, brightened, noisy, compressed as JPEG."""
    random, side, found = np.random.default_rng(seed), image.width, []
    for _ in range(count):
        width = int(side * random.uniform(0.92, 1))
        x, y = random.integers(0, side - width + 1, 2)
        crop = image.crop((x, y, x + width, y + width)).resize((side, side))
        pixels = np.asarray(crop, float) * random.uniform(0.92, 1.08)
        pixels += random.normal(0, 3, pixels.shape)
        buffer = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=85)
        found.append(Image.open(buffer).convert("RGB"))
    return found


def test_frames_of_a_burst_are_one_group_and_different_images_are_not():
    images = [frame for seed in range(5) for frame in make_burst_frames(make_scene(seed), 6, seed)]
    labels = np.repeat([0, 1], [18, 12])  # three bursts of one class, two of the other
    alike = np.eye(2)[labels]  # different images of a class that the model knows
    assert group_images(images, alike, labels).tolist() == np.repeat(range(5), 6).tolist()
    unlike = np.eye(30)
    assert group_images(images, unlike, labels).tolist() == list(range(30))


def test_frames_of_a_pan_are_one_group_linked_by_neighbours():
    wide = noise(3, (12, 7)).resize((480, 224), Image.Resampling.BICUBIC)
    images = [wide.crop((x, 0, x + 224, 224)) for x in range(0, 241, 20)]
    images, labels = [*images, make_scene(9)], np.repeat([0, 1], [13, 1])
    assert group_images(images, np.eye(2)[labels], labels).tolist() == [0] * 13 + [1]
    ends = [0, 12, 13]
    found = group_images([images[i] for i in ends], np.eye(2)[labels[ends]], labels[ends])
    assert found.tolist() == [0, 1, 2]


def test_shared_background_does_not_make_images_near_identical():
    images = []
    for place in range(12):  # a dark object somewhere on white paper
        pixels = np.full((224, 224, 3), 255, np.uint8)
        x, y = 20 + 60 * (place % 3), 10 + 50 * (place // 3)
        pixels[y : y + 45, x : x + 45] = 20 * place
        images.append(Image.fromarray(pixels))
    labels = np.arange(12) % 2
    random = np.random.default_rng(0)
    features = 5 + random.normal(size=(12, 64))  # raw cosines are above 0.95
    assert len(set(group_images(images, features, labels))) == 12


def test_long_burst_among_few_images_is_one_group():
    burst = make_burst_frames(make_scene(1), 30)
    images, labels = (
        [*burst, *(make_scene(seed) for seed in range(2, 6))],
        np.repeat([0, 1], [30, 4]),
    )
    random = np.random.default_rng(0)
    features = random.normal(size=(5, 64))[[0] * 30 + [1, 2, 3, 4]]
    features = features + 0.2 * random.normal(size=features.shape)
    assert group_images(images, features, labels).tolist() == [0] * 30 + [1, 2, 3, 4]


def test_folds_contain_whole_groups_and_all_classes():
    random = np.random.default_rng(0)
    for _ in range(50):
        sizes = random.integers(1, 9, 14)
        groups = np.repeat(np.arange(14), sizes)
        labels = np.repeat(np.arange(14) % 3, sizes)
        folds = int(random.integers(2, 5))
        found = assign_folds(labels, groups, folds)
        for group in range(14):
            assert len(set(found[groups == group])) == 1
        for fold in range(folds):
            assert set(labels[found == fold]) == set(labels[found != fold]) == {0, 1, 2}


def test_single_images_are_distributed_evenly_over_folds():
    labels = np.repeat([0, 1], [12, 7])
    found = assign_folds(labels, np.arange(19), 5)
    counts = np.array([np.bincount(found[labels == c], minlength=5) for c in (0, 1)])
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
    # All images of a group have one outcome: the interval is that of as many single images.
    np.testing.assert_allclose(
        wilson_interval_of_fraction(0.7, 10), wilson_interval(7, 10), atol=1e-12
    )
    np.testing.assert_allclose(
        wilson_interval_of_fraction(1, 20), wilson_interval(20, 20), atol=1e-12
    )
