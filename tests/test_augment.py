"""Augmentation: drawn for each picture, and a target tells exactly what is in its mixture."""

import math

import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from vitdemo import augment
from vitdemo.augment import mix, random_crop, random_erasing, random_flip

SIDE = 12


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def numbered(count):
    """`count` equal pictures in which every pixel has a value of its own."""
    return torch.arange(3.0 * SIDE * SIDE).view(1, 3, SIDE, SIDE).repeat(count, 1, 1, 1)


def pure(count):
    """Picture i is 1 in channel i and 0 elsewhere, so a mixture's means are its shares."""
    targets = torch.eye(count)
    return targets[:, :, None, None].expand(-1, -1, SIDE, SIDE).clone(), targets


def test_flip_mirrors_about_half_of_the_pictures():
    images = numbered(400)
    flipped = random_flip(images)
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
    crops = random_crop(numbered(400), 2)
    assert {tuple(crop.flatten().tolist()) for crop in crops} == windows


@pytest.mark.parametrize("change", [random_flip, lambda x: random_crop(x, 4)])
def test_no_pixel_value_is_invented(change):
    images = torch.rand(16, 3, SIDE, SIDE)
    for before, after in zip(images, change(images), strict=True):
        assert torch.isin(after, before).all()


def test_erasing_takes_2_to_33_percent_of_a_picture():
    side = 64
    erased = random_erasing(torch.full((500, 3, side, side), -1.0), 1.0) >= 0
    share = erased[:, 0].float().mean((1, 2))
    rim = 2 / side  # a box of whole pixels is up to one wider and higher
    assert share.min() > 0.01
    assert share.max() < 0.33 + rim
    assert 0.14 < share.mean() < 0.20


def test_erasing_takes_one_rectangle_with_noise_of_the_full_range():
    erased = random_erasing(torch.full((1, 3, 32, 32), -1.0), 1.0)[0, 0]
    rows, columns = (erased >= 0).any(1).nonzero(), (erased >= 0).any(0).nonzero()
    box = erased[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    assert (box >= 0).all()
    assert box.max() - box.min() > 128


def test_erasing_spares_pictures_by_chance():
    erased = random_erasing(torch.full((400, 3, 8, 8), -1.0), 0.25)
    assert 60 < (erased >= 0).any(3).any(2).any(1).sum() < 140


@pytest.mark.parametrize(
    "alphas",
    [
        {"mixup": 1.0, "cutmix": 0.0},
        {"mixup": 0.0, "cutmix": 1.0},
        {"mixup": 0.8, "cutmix": 1.0},
    ],
)
def test_target_is_the_share_of_each_picture_in_the_mixture(alphas):
    images, targets = mix(*pure(64), **alphas)
    assert torch.allclose(targets.sum(1), torch.ones(64))
    assert torch.allclose(images.mean((2, 3)), targets, atol=1e-5)
    assert ((targets > 0.02) & (targets < 0.98)).any()


def test_mixup_blends_whole_pictures_and_cutmix_pastes_a_box():
    blended, _ = mix(*pure(64), mixup=1.0, cutmix=0.0)
    pasted, _ = mix(*pure(64), mixup=0.0, cutmix=1.0)
    assert (blended == blended[:, :, :1, :1]).all()
    assert pasted.unique().tolist() == [0, 1]


def test_both_at_once_take_turns():
    images, _ = mix(*pure(200), mixup=1.0, cutmix=1.0)
    blended = ((images > 0) & (images < 1)).any(3).any(2).any(1)
    assert 60 < blended.sum() < 140


def test_each_picture_has_its_own_share():
    _, targets = mix(*pure(64), mixup=1.0, cutmix=0.0)
    assert targets.max(1).values.unique().numel() > 50


def test_alpha_zero_changes_nothing():
    images, targets = mix(*pure(8), mixup=0.0, cutmix=0.0)
    assert torch.equal(images, pure(8)[0])
    assert torch.equal(targets, pure(8)[1])


@pytest.mark.parametrize(
    "change",
    [
        random_flip,
        lambda x: random_crop(x, 4),
        lambda x: random_erasing(x, 0.5),
        lambda x: mix(x, torch.eye(len(x)), mixup=0.8, cutmix=1.0)[0],
    ],
)
def test_one_seed_one_result_and_the_input_is_untouched(change):
    images = torch.rand(16, 3, SIDE, SIDE)
    before, results = images.clone(), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(change(images))
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
    }[name]().float()


@pytest.mark.parametrize("ranges", [augment.WIDE, augment.NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize(("strength", "sign"), SIGNS)
@pytest.mark.parametrize("name", augment.OPERATIONS)
def test_operations_are_torchvisions(name, strength, sign, ranges):
    picture, chosen = smooth_picture(), torch.tensor([augment.OPERATIONS.index(name)])
    how = (torch.tensor([strength]), torch.tensor([float(sign)]), ranges)
    ours = augment.apply_operations(picture, chosen, *how)
    # torchvision rounds grey and mean to whole levels on the way: up to two levels apart.
    assert (ours - by_torchvision(picture, name, strength, sign, ranges)).abs().max() < 2


def test_each_picture_takes_its_own_operation():
    pictures = torch.cat([smooth_picture(seed) for seed in range(3)])
    chosen = torch.tensor([augment.OPERATIONS.index(n) for n in ("rotate", "equalize", "shear_x")])
    strength, sign = torch.tensor([0.2, 0.5, 0.8]), torch.tensor([1.0, 1.0, -1.0])
    together = augment.apply_operations(pictures, chosen, strength, sign, augment.WIDE)
    for i in range(3):
        one = slice(i, i + 1)
        alone = augment.apply_operations(
            pictures[one], chosen[one], strength[one], sign[one], augment.WIDE
        )
        assert torch.equal(together[one], alone)


@pytest.mark.parametrize("operation", [augment._autocontrast, augment._equalize])
def test_a_picture_of_one_colour_stays(operation):
    picture = torch.full((2, 3, 8, 8), 77.0)
    assert torch.equal(operation(picture), picture)


@pytest.mark.parametrize("policy", ["trivial", "rand"])
def test_policies_differ_by_picture_and_stay_in_range(policy):
    torch.manual_seed(0)
    pictures = smooth_picture().expand(64, -1, -1, -1)
    changed = augment.POLICIES[policy](pictures)
    assert changed.shape == pictures.shape
    assert changed.min() >= 0 and changed.max() <= 255
    assert len({picture.sum().item() for picture in changed}) > 30
