"""Augmentation steps of the recipes, compared with the trainer."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.factories import noise
from vitdemo.analyses.augmentation import apply_augmentations
from vitdemo.data.image_files import crop_and_resize, to_uint8
from vitdemo.training.augment import Augmentation, draw_flip, flip_images
from vitdemo.training.batches import augment_batch
from vitdemo.training.recipes import RECIPES, get_recipe


def make_images() -> list[Image.Image]:
    return [noise(seed, (20, 20)) for seed in range(4)]


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
    assert ("patch tokens are dropped" in steps[-1].description) == bool(recipe.patch_dropout)


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
