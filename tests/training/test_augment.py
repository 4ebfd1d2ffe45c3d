"""Augmentation: random draws for each image, and targets that match the mixed images."""

import math

import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torchvision import transforms
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from vitdemo.training import augment
from vitdemo.training.augment import Augmentation, policies

SIDE = 12


def augment_images(images, seed=0, **fields):
    """Apply an `Augmentation` of these fields to `images`, without mixing."""
    generator = torch.Generator().manual_seed(seed)
    augmentation = Augmentation(**fields)
    draws = augmentation.draw(len(images), images.shape[-1], generator)
    return augmentation.apply(images, draws, torch.full((3, 1, 1), 99.0))


def mix_batch(images, targets, *, mixup, cutmix, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixture = augment.draw_mix(len(images), images.shape[-1], mixup, cutmix, generator)
    partner = torch.randperm(len(images), generator=generator)
    return augment.mix_images(images, targets, partner, mixture)


def make_numbered_images(count):
    """Return `count` equal images in which every value is different."""
    return torch.arange(3.0 * SIDE * SIDE).view(1, 3, SIDE, SIDE).repeat(count, 1, 1, 1)


def make_one_channel_images(count):
    """Return images that are 1 in one channel each: a mixture's channel means are its target."""
    targets = torch.eye(count)
    return targets[:, :, None, None].expand(-1, -1, SIDE, SIDE).clone(), targets


def test_flip_mirrors_about_half_of_the_images():
    images = make_numbered_images(400)
    flipped = augment_images(images, flip=True)
    mirrored = (flipped == images.flip(-1)).all((1, 2, 3))
    same = (flipped == images).all((1, 2, 3))
    assert (mirrored ^ same).all()
    assert 150 < mirrored.sum() < 250


def test_crops_are_windows_of_the_reflected_image():
    images = make_numbered_images(1)
    padded = F.pad(images, (2,) * 4, mode="reflect")[0]
    windows = {
        tuple(padded[:, y : y + SIDE, x : x + SIDE].flatten().tolist())
        for y in range(5)
        for x in range(5)
    }
    crops = augment_images(make_numbered_images(400), crop_padding=2)
    assert {tuple(crop.flatten().tolist()) for crop in crops} == windows


def test_erasing_fills_a_rectangle_of_2_to_33_percent_with_noise():
    side = 64
    changed = augment_images(torch.full((500, 3, side, side), -1.0), erasing=1.0)
    erased = changed[:, 0] >= 0
    fraction = erased.float().mean((1, 2))
    rim = 2 / side  # rounding makes a box up to one pixel wider and higher
    assert fraction.min() > 0.01
    assert fraction.max() < 0.33 + rim
    assert 0.14 < fraction.mean() < 0.20
    for image, cut in zip(changed[:, 0], erased, strict=True):
        rows, columns = cut.any(1).nonzero(), cut.any(0).nonzero()
        box = image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert (box >= 0).all()
        assert box.max() - box.min() > 128


def test_erasing_is_applied_with_its_probability():
    erased = augment_images(torch.full((400, 3, 8, 8), -1.0), erasing=0.25)
    assert 60 < (erased >= 0).any(3).any(2).any(1).sum() < 140


@pytest.mark.parametrize(("mixup", "cutmix"), [(1.0, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_mixed_target_is_the_fraction_of_each_image(mixup, cutmix):
    images, targets = mix_batch(*make_one_channel_images(64), mixup=mixup, cutmix=cutmix)
    assert torch.allclose(targets.sum(1), torch.ones(64))
    assert torch.allclose(images.mean((2, 3)), targets, atol=1e-5)
    assert ((targets > 0.02) & (targets < 0.98)).any()


def test_mixup_blends_images_cutmix_pastes_a_box_and_both_alternate():
    blended, _ = mix_batch(*make_one_channel_images(64), mixup=1.0, cutmix=0.0)
    pasted, _ = mix_batch(*make_one_channel_images(64), mixup=0.0, cutmix=1.0)
    both, _ = mix_batch(*make_one_channel_images(200), mixup=1.0, cutmix=1.0)
    assert (blended == blended[:, :, :1, :1]).all()
    assert pasted.unique().tolist() == [0, 1]
    assert 60 < ((both > 0) & (both < 1)).any(3).any(2).any(1).sum() < 140


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 3.0])
def test_mixing_fractions_follow_the_beta_distribution(alpha):
    mixture = augment.draw_mix(20_000, 32, alpha, 0.0, torch.Generator().manual_seed(0))
    # A p-value would be too strict, because float32 rounds 3% of the values to 1 at alpha 0.2.
    assert stats.kstest(mixture.share.numpy(), stats.beta(alpha, alpha).cdf).statistic < 0.02


def test_cutout_fills_a_square_clipped_at_the_border():
    changed = augment_images(torch.zeros(400, 3, SIDE, SIDE), cutout=6)
    cut = (changed == 99).all(1)  # (B, S, S)
    assert torch.isin(changed, torch.tensor([0.0, 99.0])).all()
    sides = [{int(n) for n in cut.any(axis).sum(1)} for axis in (1, 2)]
    assert sides == [{3, 4, 5, 6}] * 2  # the centre can be any pixel
    assert (cut.sum((1, 2)) == cut.any(1).sum(1) * cut.any(2).sum(1)).all()


ALL_AUGMENTATIONS = {"crop_padding": 2, "flip": True, "policy": "auto", "erasing": 0.5, "cutout": 4}


@pytest.mark.parametrize(
    "transform",
    [
        *(
            lambda x, seed, f=f, v=v: augment_images(x, seed, **{f: v})
            for f, v in ALL_AUGMENTATIONS.items()
        ),
        lambda x, seed: mix_batch(x, torch.eye(len(x)), mixup=0.8, cutmix=1.0, seed=seed)[0],
    ],
)
def test_augmentation_is_reproducible_and_keeps_its_input(transform):
    images = torch.rand(16, 3, SIDE, SIDE)
    before, results = images.clone(), [transform(images, seed) for seed in (1, 1, 2)]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert torch.equal(images, before)


STRENGTHS_AND_SIGNS = [(0.3, 1), (0.3, -1), (0.7, -1)]


def make_smooth_image(seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 8, 8, generator=generator)
    return (255 * F.interpolate(coarse, (32, 32), mode="bicubic").clamp(0, 1)).round()


def apply_torchvision(image, name, strength, sign, ranges):
    """Apply the same operation to one uint8 image with torchvision's functions."""
    amount, near = sign * strength, InterpolationMode.NEAREST
    slope = math.degrees(math.atan(amount * ranges["shear"]))
    shift, factor = int(amount * ranges["translate"] * 32), 1 + amount * ranges["blend"]
    image = image.to(torch.uint8)
    return {
        "identity": lambda: image,
        "shear_x": lambda: tv.affine(image, 0, [0, 0], 1, [slope, 0.0], near, center=[0, 0]),
        "shear_y": lambda: tv.affine(image, 0, [0, 0], 1, [0.0, slope], near, center=[0, 0]),
        "translate_x": lambda: tv.affine(image, 0, [shift, 0], 1, [0.0, 0.0], near),
        "translate_y": lambda: tv.affine(image, 0, [0, shift], 1, [0.0, 0.0], near),
        "rotate": lambda: tv.rotate(image, amount * ranges["rotate"], near),
        "brightness": lambda: tv.adjust_brightness(image, factor),
        "colour": lambda: tv.adjust_saturation(image, factor),
        "contrast": lambda: tv.adjust_contrast(image, factor),
        "sharpness": lambda: tv.adjust_sharpness(image, factor),
        "posterize": lambda: tv.posterize(image, 8 - round(strength * ranges["posterize"])),
        "solarize": lambda: tv.solarize(image, 255 * (1 - strength)),
        "autocontrast": lambda: tv.autocontrast(image),
        "equalize": lambda: tv.equalize(image),
        "invert": lambda: tv.invert(image),
    }[name]().float()


@pytest.mark.parametrize("name", policies.OPERATIONS)
def test_operations_equal_torchvision(name):
    image, operation = make_smooth_image(), torch.tensor([policies.OPERATIONS.index(name)])
    for ranges in (policies.WIDE_RANGES, policies.NARROW_RANGES):
        for strength, sign in STRENGTHS_AND_SIGNS:
            settings = (torch.tensor([strength]), torch.tensor([float(sign)]), ranges)
            ours = policies.apply_operations(image, operation, *settings)
            theirs = apply_torchvision(image, name, strength, sign, ranges)
            # torchvision rounds greys and means to integers, so results differ by up to two levels.
            assert (ours - theirs).abs().max() < 2, (ranges, strength, sign)


def test_each_image_gets_its_own_operation():
    images = torch.cat([make_smooth_image(seed) for seed in range(3)])
    chosen = torch.tensor([policies.OPERATIONS.index(n) for n in ("rotate", "equalize", "shear_x")])
    strength, sign = torch.tensor([0.2, 0.5, 0.8]), torch.tensor([1.0, 1.0, -1.0])
    parts = (images, chosen, strength, sign)
    batch = policies.apply_operations(*parts, policies.WIDE_RANGES)
    for i in range(3):
        single = policies.apply_operations(
            *(part[i : i + 1] for part in parts), policies.WIDE_RANGES
        )
        assert torch.equal(batch[i : i + 1], single)


@pytest.mark.parametrize("operation", [policies._autocontrast, policies._equalize])
def test_uniform_image_is_unchanged(operation):
    image = torch.full((2, 3, 8, 8), 77.0)
    assert torch.equal(operation(image), image)


@pytest.mark.parametrize("policy", ["trivial", "rand", "auto"])
def test_policies_differ_by_image_and_stay_in_range(policy):
    images = make_smooth_image().expand(64, -1, -1, -1)
    changed = augment_images(images, policy=policy)
    assert changed.shape == images.shape
    assert changed.min() >= 0 and changed.max() <= 255
    assert len({image.sum().item() for image in changed}) > 20


def test_autoaugment_pairs_equal_torchvision():
    auto = transforms.AutoAugment(transforms.AutoAugmentPolicy.CIFAR10)
    names = {"color": "colour", "shearx": "shear_x", "sheary": "shear_y"}
    names |= {"translatex": "translate_x", "translatey": "translate_y"}
    assert len(auto.policies) == len(policies.CIFAR10_PAIRS)
    for theirs, ours in zip(auto.policies, policies.CIFAR10_PAIRS, strict=True):
        for (name, chance, magnitude), (our_name, tenths, ninths) in zip(theirs, ours, strict=True):
            assert names.get(name.lower(), name.lower()) == our_name
            assert chance == pytest.approx(tenths / 10)
            assert magnitude in (None, ninths)


def test_autoaugment_magnitudes_equal_torchvision():
    space = transforms.AutoAugment()._augmentation_space(10, (32, 32))
    for ninths in range(10):
        amount = ninths / 9
        ours = {
            "ShearX": amount * policies.NARROW_RANGES["shear"],
            "TranslateX": amount * policies.NARROW_RANGES["translate"] * 32,
            "Rotate": amount * policies.NARROW_RANGES["rotate"],
            "Color": amount * policies.NARROW_RANGES["blend"],
            "Posterize": 8 - round(amount * policies.NARROW_RANGES["posterize"]),
            "Solarize": 255 * (1 - amount),
        }
        for name, value in ours.items():
            assert value == pytest.approx(space[name][0][ninths].item(), abs=1e-3), name


def test_autoaugment_operations_have_their_expected_frequency():
    count = 50_000
    operations = policies.draw_auto(count, torch.Generator().manual_seed(0)).operation
    for i in (0, 1):
        for name in ("equalize", "translate_y", "invert"):
            pairs = [pair[i] for pair in policies.CIFAR10_PAIRS]
            expected = sum(tenths for n, tenths, _ in pairs if n == name) / 250
            rate = (operations[:, i] == policies.OPERATIONS.index(name)).float().mean().item()
            assert rate == pytest.approx(expected, abs=0.01), (name, i)


def test_operations_of_a_pair_are_applied_in_order():
    image = make_smooth_image()
    indices = torch.tensor([[policies.OPERATIONS.index(n) for n in ("invert", "solarize")]])
    strength, sign = torch.tensor([[0.0, 0.5]]), torch.ones(1, 2)
    operations = policies.Operations(indices, strength, sign)
    expected = tv.solarize(tv.invert(image.to(torch.uint8)), 127.5).float()
    assert torch.equal(policies.apply_policy(image, operations, policies.NARROW_RANGES), expected)


def test_trivial_and_rand_augment_never_invert():
    generator = torch.Generator().manual_seed(0)
    for draw in (policies.draw_trivial, policies.draw_rand):
        operations = draw(5000, generator).operation.unique()
        assert operations.tolist() == list(range(len(policies.RANDOM_OPERATIONS)))


def test_draws_use_only_the_given_generator():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Augmentation(mixup=0.2, cutmix=1.0, **ALL_AUGMENTATIONS).draw(8, SIDE, torch.Generator())
    assert torch.equal(torch.rand(1), expected)
