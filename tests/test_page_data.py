"""Class counts, colours and mean images of the dataset, and augmentation."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.factories import RESNET, make_run, noise
from tests.test_perturb import noise as batch
from vitdemo import data
from vitdemo.context import AppContext
from vitdemo.data import CIFAR10_MEAN, CIFAR10_STD, LabelledImages
from vitdemo.data.image_files import crop_and_resize, to_uint8
from vitdemo.errors import DataError, RunError
from vitdemo.page.data import classes, patches
from vitdemo.page.data.augmentation import apply_augmentations, order_recipes
from vitdemo.training import augment_batch
from vitdemo.training.augment import Augmentation, draw_flip, flip_images
from vitdemo.training.recipes import RECIPES, get_recipe

CPU = torch.device("cpu")
UNEQUAL_COUNTS = {
    "train/<b>ant": 5,
    "train/bee": 2,
    "train/cow": 9,
    "test/<b>ant": 3,
    "test/cow": 4,
}


def test_all_classes_and_pixels_are_counted(put_pictures, monkeypatch):
    unequal = AppContext([], put_pictures(UNEQUAL_COUNTS), CPU)
    counts = classes.count_classes(unequal)
    assert classes.count_classes(unequal) is counts  # the counts are cached
    assert counts.classes == ("<b>ant", "bee", "cow")
    assert counts.train.tolist() == [5, 2, 9]
    assert counts.test.tolist() == [3, 0, 4]
    note = "test/ has no folder for these classes: bee."
    assert counts.notes == (note,)
    assert note in [
        getattr(p, "text", "")
        for p in classes.class_blocks(counts, classes.colour_statistics(unequal))
    ]
    pixels = classes.colour_statistics(unequal)
    assert (pixels.images_read, pixels.images_total) == (16, 16)
    assert pixels.histograms.sum(1).tolist() == [16 * classes.STATISTICS_SIDE**2] * 3
    assert pixels.mean_images.shape == (3, classes.STATISTICS_SIDE, classes.STATISTICS_SIDE, 3)
    monkeypatch.setattr(classes, "MAX_IMAGES_READ", 6)
    pixels = classes.colour_statistics(AppContext([], unequal.open_dataset().root, CPU))
    assert (pixels.images_read, pixels.images_total) == (6, 16)


def test_channel_histograms_equal_numpy():
    images = batch(5)
    expected = [np.histogram(images[:, c], bins=256, range=(0, 256))[0] for c in range(3)]
    assert np.array_equal(classes.channel_histograms(images), expected)


def test_class_means_equal_a_loop_and_an_empty_class_is_grey():
    images, labels = batch(6), torch.tensor([0, 2, 0, 2, 2, 0])
    means = classes.compute_mean_images(LabelledImages(images, labels), 3)
    for label in (0, 2):
        members = [images[i].double().numpy() for i in range(6) if labels[i] == label]
        expected = np.rint(sum(members) / len(members)).transpose(1, 2, 0)
        assert np.abs(means[label] - expected).max() <= 1
    assert (means[1] == 127).all()


def test_cifar10_has_its_published_counts_and_colours(cifar10):
    context = AppContext([], cifar10.root, CPU)
    assert classes.count_classes(context).train.tolist() == [5000] * 10
    assert classes.count_classes(context).test.tolist() == [1000] * 10
    statistics = classes.colour_statistics(context)
    assert (statistics.images_read, statistics.images_total) == (classes.MAX_IMAGES_READ, 50_000)
    assert np.allclose(statistics.mean, CIFAR10_MEAN, atol=0.01)
    assert np.allclose(statistics.std, CIFAR10_STD, atol=0.01)


def test_missing_dataset_and_missing_patches_raise_errors(tmp_path):
    with pytest.raises(DataError, match=r"train\.py download"):
        classes.count_classes(AppContext([], tmp_path / "none", CPU))
    run = make_run(tmp_path / "resnet", RESNET)
    with pytest.raises(RunError, match="has no patches"):
        patches.patch_blocks(AppContext([tmp_path], None, CPU), run, Image.new("RGB", (9, 9)))


def test_load_subset_returns_the_same_images_as_load(put_pictures):
    source = data.open_dataset(put_pictures(UNEQUAL_COUNTS), download=False)
    subset, full = source.load_subset("test", torch.tensor([4, 0, 6])), source.load("test")
    assert torch.equal(subset.images, full.images[[4, 0, 6]])
    assert torch.equal(subset.labels, full.labels[[4, 0, 6]])
    assert torch.equal(source.load_labels("train"), source.load("train").labels)


def make_images() -> list[Image.Image]:
    return [noise(seed, (20, 20)) for seed in range(4)]


def test_recipes_of_available_models_with_augmentation_come_first(tmp_path):
    augmented, plain = "vit-plain-cpu-augmented", "first-steps"
    assert (RECIPES[augmented].policy, RECIPES[plain].policy) == ("trivial", "none")
    available = [make_run(tmp_path / name) for name in (plain, augmented, "of-no-recipe")]
    assert order_recipes(available)[:2] == [augmented, plain]
    assert sorted(order_recipes(available)) == sorted(RECIPES)
    assert RECIPES[order_recipes([])[0]].policy != "none"


@pytest.mark.parametrize("name", RECIPES)
def test_augmentations_follow_the_recipe(name):
    recipe = get_recipe(name)
    steps = apply_augmentations(recipe, make_images(), "abca", side=16, seed=5)
    expected = {
        "Random crop": recipe.crop_padding,
        "Random flip": recipe.flip,
        "Random operations": recipe.policy != "none",
        "Random erasing": recipe.erasing,
        "Cutout": recipe.cutout,
    }
    titles = [step.title for step in steps]
    assert {t: t in titles for t in expected} == {t: bool(v) for t, v in expected.items()}
    assert any("MixUp" in t or "CutMix" in t for t in titles) == bool(recipe.mixup + recipe.cutmix)
    assert all(step.pictures.shape == (4, 16, 16, 3) for step in steps)
    assert titles[0] == "Original images"
    assert titles[-1] == ("All steps together" if any(expected.values()) else "Original images")
    assert ("patch tokens are dropped" in steps[-1].words) == bool(recipe.patch_dropout)


def make_model_inputs() -> torch.Tensor:
    return torch.stack([torch.from_numpy(to_uint8(crop_and_resize(p, 16))) for p in make_images()])


def test_each_step_equals_the_training_step_without_side_effects():
    recipe = get_recipe("vit-small-cpu")
    before = torch.random.get_rng_state()
    first, same, other = (
        apply_augmentations(recipe, make_images(), "abca", side=16, seed=seed) for seed in (7, 7, 8)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    flipped = draw_flip(4, torch.Generator().manual_seed(7))
    assert np.array_equal(
        first[2].pictures, flip_images(make_model_inputs(), flipped).permute(0, 2, 3, 1)
    )
    assert 0 < flipped.sum() < 4
    assert np.array_equal(first[-1].pictures, same[-1].pictures)
    assert not np.array_equal(first[-1].pictures, other[-1].pictures)


def test_all_steps_together_equal_the_trainer_input():
    """Apply the trainer's augmentation to the same random draws, with one class per image."""
    recipe = get_recipe("vit-tiny-regularised")
    augmentation = Augmentation(4, True, "trivial", 0.25, 0, 0.2, 1.0)
    generator = torch.Generator().manual_seed(11)
    draws = augmentation.draw(4, 16, generator)
    partners = torch.rand((4,), generator=generator).argsort()
    pixels, targets = augment_batch(
        augmentation, make_model_inputs(), torch.eye(4), draws, partners, torch.zeros(3, 1, 1)
    )
    step = apply_augmentations(recipe, make_images(), "abcd", side=16, seed=11)[-1]
    expected = pixels.clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    assert np.array_equal(step.pictures, expected.numpy())
    for row, fractions in zip(targets.tolist(), step.targets, strict=True):
        named = {name: fraction for name, fraction in zip("abcd", row, strict=True) if fraction > 0}
        assert fractions == pytest.approx(named)
    cats = apply_augmentations(recipe, make_images(), ["cat"] * 4, side=16, seed=0)[-1]
    assert all(each == {"cat": pytest.approx(1)} for each in cats.targets)


def test_patches_tile_the_image():
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    tiles = patches.split_patches(image, (4, 4))
    assert tiles.shape == (4, 4, 4, 4, 3)
    assert np.array_equal(tiles[2, 1], image[8:12, 4:8])
