"""Groups of near-identical images, and folds that keep them together."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.making import noise
from vitdemo.metrics.intervals import wilson, wilson_share
from vitdemo.near_duplicates import (
    count_groups,
    deal_groups,
    effective_size,
    group_images,
)


def scene(seed: int) -> Image.Image:
    """A smooth coloured scene, 224 pixels wide."""
    return noise(seed, (7, 7)).resize((224, 224), Image.Resampling.BICUBIC)


def frames(image: Image.Image, count: int, seed: int = 0) -> list[Image.Image]:
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
    images = [frame for seed in range(5) for frame in frames(scene(seed), 6, seed)]
    labels = np.repeat([0, 1], [18, 12])  # three bursts of one class, two of the other
    alike = np.eye(2)[labels]  # different images of a class that the model knows
    assert group_images(images, alike, labels).tolist() == np.repeat(range(5), 6).tolist()
    unlike = np.eye(30)
    assert group_images(images, unlike, labels).tolist() == list(range(30))


def test_the_first_and_the_last_frame_of_a_pan_are_one_group():
    wide = noise(3, (12, 7)).resize((480, 224), Image.Resampling.BICUBIC)
    images = [wide.crop((x, 0, x + 224, 224)) for x in range(0, 241, 20)]
    images, labels = [*images, scene(9)], np.repeat([0, 1], [13, 1])
    assert group_images(images, np.eye(2)[labels], labels).tolist() == [0] * 13 + [1]
    ends = [0, 12, 13]
    found = group_images([images[i] for i in ends], np.eye(2)[labels[ends]], labels[ends])
    assert found.tolist() == [0, 1, 2]


def test_a_background_that_all_images_share_does_not_make_them_near_identical():
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


def test_one_long_burst_beside_a_few_images_is_one_group():
    burst = frames(scene(1), 30)
    images, labels = [*burst, *(scene(seed) for seed in range(2, 6))], np.repeat([0, 1], [30, 4])
    random = np.random.default_rng(0)
    features = random.normal(size=(5, 64))[[0] * 30 + [1, 2, 3, 4]]
    features = features + 0.2 * random.normal(size=features.shape)
    assert group_images(images, features, labels).tolist() == [0] * 30 + [1, 2, 3, 4]


def test_whole_groups_are_dealt_and_each_class_is_in_every_fold():
    random = np.random.default_rng(0)
    for _ in range(50):
        sizes = random.integers(1, 9, 14)
        groups = np.repeat(np.arange(14), sizes)
        labels = np.repeat(np.arange(14) % 3, sizes)
        folds = int(random.integers(2, 5))
        found = deal_groups(labels, groups, folds)
        for group in range(14):
            assert len(set(found[groups == group])) == 1
        for fold in range(folds):
            assert set(labels[found == fold]) == set(labels[found != fold]) == {0, 1, 2}


def test_single_images_are_dealt_as_evenly_as_can_be():
    labels = np.repeat([0, 1], [12, 7])
    found = deal_groups(labels, np.arange(19), 5)
    counts = np.array([np.bincount(found[labels == c], minlength=5) for c in (0, 1)])
    assert (np.ptp(counts, axis=1) <= 1).all() and np.ptp(counts.sum(0)) <= 1


def test_too_few_groups_are_refused_and_a_mixed_one_counts_for_its_main_class():
    labels = np.array([0, 0, 1, 1, 1, 1])
    groups = np.array([0, 1, 1, 1, 2, 2])
    assert count_groups(labels, groups).tolist() == [1, 2]
    with pytest.raises(ValueError, match="fewer than 2 groups"):
        deal_groups(labels, groups, 2)


def test_groups_are_worth_as_many_images_as_there_are_groups():
    assert effective_size(np.arange(7)) == 7
    assert effective_size(np.repeat(range(10), 12)) == pytest.approx(10)
    assert effective_size(np.repeat([0, 1], [9, 1])) == pytest.approx(100 / 82)
    # All images of a group have one outcome: the interval is that of as many single images.
    np.testing.assert_allclose(wilson_share(0.7, 10), wilson(7, 10), atol=1e-12)
    np.testing.assert_allclose(wilson_share(1, 20), wilson(20, 20), atol=1e-12)
