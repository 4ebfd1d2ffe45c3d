"""Augmentation: drawn for each picture, and a target tells exactly what is in its mixture."""

import math

import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torchvision import transforms
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from vitdemo import augment
from vitdemo.augment import Augmentation, policies

SIDE = 12


def change(images, seed=0, **fields):
    """`images` after an `Augmentation` of these fields, not mixed."""
    generator = torch.Generator().manual_seed(seed)
    augmentation = Augmentation(**fields)
    draws = augmentation.draw(len(images), images.shape[-1], generator)
    return augmentation.apply(images, draws, torch.full((3, 1, 1), 99.0))


def mix(images, targets, *, mixup, cutmix, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixture = augment.draw_mix(len(images), images.shape[-1], mixup, cutmix, generator)
    partner = torch.randperm(len(images), generator=generator)
    return augment.mix(images, targets, partner, mixture)


def numbered(count):
    """`count` equal pictures in which every pixel has a value of its own."""
    return torch.arange(3.0 * SIDE * SIDE).view(1, 3, SIDE, SIDE).repeat(count, 1, 1, 1)


def pure(count):
    """Picture i is 1 in channel i and 0 elsewhere, so a mixture's means are its shares."""
    targets = torch.eye(count)
    return targets[:, :, None, None].expand(-1, -1, SIDE, SIDE).clone(), targets


def test_flip_mirrors_about_half_of_the_pictures():
    images = numbered(400)
    flipped = change(images, flip=True)
    mirrored = (flipped == images.flip(-1)).all((1, 2, 3))
    same = (flipped == images).all((1, 2, 3))
    assert (mirrored ^ same).all()
    assert 150 < mirrored.sum() < 250


def test_crops_are_windows_of_the_reflected_picture():
    images = numbered(1)
    padded = F.pad(images, (2,) * 4, mode="reflect")[0]
    windows = {
        tuple(padded[:, y : y + SIDE, x : x + SIDE].flatten().tolist())
        for y in range(5)
        for x in range(5)
    }
    crops = change(numbered(400), crop_padding=2)
    assert {tuple(crop.flatten().tolist()) for crop in crops} == windows


def test_erasing_takes_one_rectangle_of_2_to_33_percent_with_noise_of_the_full_range():
    side = 64
    changed = change(torch.full((500, 3, side, side), -1.0), erasing=1.0)
    erased = changed[:, 0] >= 0
    share = erased.float().mean((1, 2))
    rim = 2 / side  # a box of whole pixels is up to one wider and higher
    assert share.min() > 0.01
    assert share.max() < 0.33 + rim
    assert 0.14 < share.mean() < 0.20
    for picture, cut in zip(changed[:, 0], erased, strict=True):
        rows, columns = cut.any(1).nonzero(), cut.any(0).nonzero()
        box = picture[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert (box >= 0).all()
        assert box.max() - box.min() > 128


def test_erasing_spares_pictures_by_chance():
    erased = change(torch.full((400, 3, 8, 8), -1.0), erasing=0.25)
    assert 60 < (erased >= 0).any(3).any(2).any(1).sum() < 140


@pytest.mark.parametrize(("mixup", "cutmix"), [(1.0, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_target_is_the_share_of_each_picture_in_the_mixture(mixup, cutmix):
    images, targets = mix(*pure(64), mixup=mixup, cutmix=cutmix)
    assert torch.allclose(targets.sum(1), torch.ones(64))
    assert torch.allclose(images.mean((2, 3)), targets, atol=1e-5)
    assert ((targets > 0.02) & (targets < 0.98)).any()


def test_mixup_blends_whole_pictures_cutmix_pastes_a_box_and_both_take_turns():
    blended, _ = mix(*pure(64), mixup=1.0, cutmix=0.0)
    pasted, _ = mix(*pure(64), mixup=0.0, cutmix=1.0)
    both, _ = mix(*pure(200), mixup=1.0, cutmix=1.0)
    assert (blended == blended[:, :, :1, :1]).all()
    assert pasted.unique().tolist() == [0, 1]
    assert 60 < ((both > 0) & (both < 1)).any(3).any(2).any(1).sum() < 140


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 3.0])
def test_shares_are_of_the_beta_distribution(alpha):
    mixture = augment.draw_mix(20_000, 32, alpha, 0.0, torch.Generator().manual_seed(0))
    # Not a p-value: float32 rounds what is nearest to 1 up to it, which is 3% of all at 0.2.
    assert stats.kstest(mixture.share.numpy(), stats.beta(alpha, alpha).cdf).statistic < 0.02


def test_cutout_fills_a_square_that_the_border_cuts():
    changed = change(torch.zeros(400, 3, SIDE, SIDE), cutout=6)
    cut = (changed == 99).all(1)  # (B, S, S)
    assert torch.isin(changed, torch.tensor([0.0, 99.0])).all()
    sides = [{int(n) for n in cut.any(axis).sum(1)} for axis in (1, 2)]
    assert sides == [{3, 4, 5, 6}] * 2  # its centre is any pixel
    assert (cut.sum((1, 2)) == cut.any(1).sum(1) * cut.any(2).sum(1)).all()


ALL = {"crop_padding": 2, "flip": True, "policy": "auto", "erasing": 0.5, "cutout": 4}


@pytest.mark.parametrize(
    "changed",
    [
        *(lambda x, seed, f=f, v=v: change(x, seed, **{f: v}) for f, v in ALL.items()),
        lambda x, seed: mix(x, torch.eye(len(x)), mixup=0.8, cutmix=1.0, seed=seed)[0],
    ],
)
def test_one_seed_one_result_and_the_input_is_untouched(changed):
    images = torch.rand(16, 3, SIDE, SIDE)
    before, results = images.clone(), [changed(images, seed) for seed in (1, 1, 2)]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert torch.equal(images, before)


SIGNS = [(0.3, 1), (0.3, -1), (0.7, -1)]


def smooth_picture(seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 8, 8, generator=generator)
    return (255 * F.interpolate(coarse, (32, 32), mode="bicubic").clamp(0, 1)).round()


def by_torchvision(picture, name, strength, sign, ranges):
    """The same operation on one uint8 picture, by torchvision's own functions."""
    amount, near = sign * strength, InterpolationMode.NEAREST
    slope = math.degrees(math.atan(amount * ranges["shear"]))
    shift, factor = int(amount * ranges["translate"] * 32), 1 + amount * ranges["blend"]
    image = picture.to(torch.uint8)
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
def test_operations_are_torchvisions(name):
    picture, chosen = smooth_picture(), torch.tensor([policies.OPERATIONS.index(name)])
    for ranges in (policies.WIDE, policies.NARROW):
        for strength, sign in SIGNS:
            how = (torch.tensor([strength]), torch.tensor([float(sign)]), ranges)
            ours = policies.apply_operations(picture, chosen, *how)
            theirs = by_torchvision(picture, name, strength, sign, ranges)
            # torchvision rounds grey and mean to whole levels on the way: up to two levels apart.
            assert (ours - theirs).abs().max() < 2, (ranges, strength, sign)


def test_each_picture_takes_its_own_operation():
    pictures = torch.cat([smooth_picture(seed) for seed in range(3)])
    chosen = torch.tensor([policies.OPERATIONS.index(n) for n in ("rotate", "equalize", "shear_x")])
    strength, sign = torch.tensor([0.2, 0.5, 0.8]), torch.tensor([1.0, 1.0, -1.0])
    parts = (pictures, chosen, strength, sign)
    together = policies.apply_operations(*parts, policies.WIDE)
    for i in range(3):
        alone = policies.apply_operations(*(part[i : i + 1] for part in parts), policies.WIDE)
        assert torch.equal(together[i : i + 1], alone)


@pytest.mark.parametrize("operation", [policies._autocontrast, policies._equalize])
def test_a_picture_of_one_colour_stays(operation):
    picture = torch.full((2, 3, 8, 8), 77.0)
    assert torch.equal(operation(picture), picture)


@pytest.mark.parametrize("policy", ["trivial", "rand", "auto"])
def test_policies_differ_by_picture_and_stay_in_range(policy):
    pictures = smooth_picture().expand(64, -1, -1, -1)
    changed = change(pictures, policy=policy)
    assert changed.shape == pictures.shape
    assert changed.min() >= 0 and changed.max() <= 255
    assert len({picture.sum().item() for picture in changed}) > 20


def test_the_pairs_are_torchvisions():
    auto = transforms.AutoAugment(transforms.AutoAugmentPolicy.CIFAR10)
    names = {"color": "colour", "shearx": "shear_x", "sheary": "shear_y"}
    names |= {"translatex": "translate_x", "translatey": "translate_y"}
    assert len(auto.policies) == len(policies.CIFAR10_PAIRS)
    for theirs, ours in zip(auto.policies, policies.CIFAR10_PAIRS, strict=True):
        for (name, chance, magnitude), (our_name, tenths, ninths) in zip(theirs, ours, strict=True):
            assert names.get(name.lower(), name.lower()) == our_name
            assert chance == pytest.approx(tenths / 10)
            assert magnitude in (None, ninths)


def test_magnitudes_of_the_pairs_are_torchvisions():
    space = transforms.AutoAugment()._augmentation_space(10, (32, 32))
    for ninths in range(10):
        amount = ninths / 9
        ours = {
            "ShearX": amount * policies.NARROW["shear"],
            "TranslateX": amount * policies.NARROW["translate"] * 32,
            "Rotate": amount * policies.NARROW["rotate"],
            "Color": amount * policies.NARROW["blend"],
            "Posterize": 8 - round(amount * policies.NARROW["posterize"]),
            "Solarize": 255 * (1 - amount),
        }
        for name, value in ours.items():
            assert value == pytest.approx(space[name][0][ninths].item(), abs=1e-3), name


def test_each_pair_happens_as_often_as_its_chances_say():
    count = 50_000
    drawn = policies.draw_auto(count, torch.Generator().manual_seed(0)).operation
    for place in (0, 1):
        for name in ("equalize", "translate_y", "invert"):
            pairs = [pair[place] for pair in policies.CIFAR10_PAIRS]
            wanted = sum(tenths for n, tenths, _ in pairs if n == name) / 250
            share = (drawn[:, place] == policies.OPERATIONS.index(name)).float().mean().item()
            assert share == pytest.approx(wanted, abs=0.01), (name, place)


def test_the_two_operations_of_a_pair_follow_each_other():
    picture = smooth_picture()
    both = torch.tensor([[policies.OPERATIONS.index(n) for n in ("invert", "solarize")]])
    strength, sign = torch.tensor([[0.0, 0.5]]), torch.ones(1, 2)
    operations = policies.Operations(both, strength, sign)
    expected = tv.solarize(tv.invert(picture.to(torch.uint8)), 127.5).float()
    assert torch.equal(policies.apply_policy(picture, operations, policies.NARROW), expected)


def test_trivial_and_rand_augment_never_invert():
    generator = torch.Generator().manual_seed(0)
    for draw in (policies.draw_trivial, policies.draw_rand):
        drawn = draw(5000, generator).operation.unique()
        assert drawn.tolist() == list(range(len(policies.DRAWN)))


def test_draws_come_from_the_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Augmentation(mixup=0.2, cutmix=1.0, **ALL).draw(8, SIDE, torch.Generator())
    assert torch.equal(torch.rand(1), expected)
