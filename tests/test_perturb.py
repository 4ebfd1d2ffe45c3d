"""Changes of a picture: each equals a known reference, and no picture knows of another."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from vitdemo import perturb
from vitdemo.perturb import PERTURBATIONS, apply

SIDE = 32
SIZED = {"noise": 20, "blur": 3, "jpeg": 20, "rotate": 30, "brightness": 1.5} | {
    "shuffle": 4, "remove": 50
}  # fmt: skip


def noise(count=3, side=SIDE, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)


def patches(image, pieces):
    """The squares of (3, S, S) in reading order, as tuples."""
    side = image.shape[-1] // pieces
    return [
        tuple(image[:, y : y + side, x : x + side].flatten().tolist())
        for y in range(0, image.shape[-1], side)
        for x in range(0, image.shape[-1], side)
    ]


def test_every_change_has_a_strength_to_test_here():
    assert SIZED.keys() == PERTURBATIONS.keys()


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_the_neutral_strength_changes_no_bit(name):
    images = noise()
    same = apply(name, images, PERTURBATIONS[name].neutral)
    assert torch.equal(same, images)
    assert same.data_ptr() != images.data_ptr()


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_any_other_strength_changes_the_picture_and_not_what_was_given(name):
    images = noise()
    before = images.clone()
    changed = apply(name, images, SIZED[name])
    assert changed.dtype == torch.uint8
    assert changed.shape == images.shape
    assert all((new != old).any() for new, old in zip(changed, images, strict=True))
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_the_other_pictures_of_a_batch_never_matter(name):
    images, seeds = noise(4), [5, 6, 7, 8]
    together = apply(name, images, SIZED[name], seeds)
    for i, seed in enumerate(seeds):
        assert torch.equal(apply(name, images[i : i + 1], SIZED[name], seed)[0], together[i])
    turned = apply(name, images.flip(0), SIZED[name], seeds[::-1])
    assert torch.equal(turned.flip(0), together)


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_the_same_seed_gives_the_same_and_another_seed_matters_where_it_says_so(name):
    images = noise()
    first = apply(name, images, SIZED[name], 1)
    torch.manual_seed(99)  # nothing draws from the global generator
    assert torch.equal(apply(name, images, SIZED[name], 1), first)
    assert torch.equal(apply(name, images, SIZED[name], 2), first) != PERTURBATIONS[name].seeded


@pytest.mark.parametrize("name", PERTURBATIONS)
@pytest.mark.parametrize("side", [1, 2, 50])
def test_any_side_will_do_at_every_strength_of_the_curves(name, side):
    images = noise(1, side)
    for strength in (*PERTURBATIONS[name].strengths, PERTURBATIONS[name].high):
        if name == "shuffle" and side % strength:
            with pytest.raises(ValueError, match="equal pieces"):
                apply(name, images, strength)
        else:
            assert apply(name, images, strength).shape == images.shape


@pytest.mark.parametrize("change", PERTURBATIONS.values(), ids=PERTURBATIONS)
def test_a_curve_stays_in_range_and_passes_through_neutral(change):
    assert change.neutral in change.strengths
    assert all(change.low <= strength <= change.high for strength in change.strengths)
    steps = np.diff(change.strengths)
    assert (steps > 0).all() or (steps < 0).all()


def test_a_bad_wish_is_named():
    with pytest.raises(ValueError, match="'fog': choose one of noise, blur"):
        apply("fog", noise(), 1)
    with pytest.raises(ValueError, match="Blur of 99 is not in 0 to 15"):
        apply("blur", noise(), 99)
    with pytest.raises(ValueError, match="Noise of nan"):
        apply("noise", noise(), float("nan"))
    with pytest.raises(ValueError, match="2 seeds for 3 pictures"):
        apply("noise", noise(), 1, [1, 2])


def test_noise_has_the_deviation_it_says():
    grey = torch.full((1, 3, SIDE, SIDE), 128, dtype=torch.uint8)
    difference = apply("noise", grey, 20).double() - 128
    assert difference.std().item() == pytest.approx(20, rel=0.05)
    assert difference.mean().item() == pytest.approx(0, abs=1.5)


def test_a_seeds_noise_grows_with_the_strength():
    grey = torch.full((1, 3, SIDE, SIDE), 128, dtype=torch.uint8)
    weak, strong = (apply("noise", grey, strength).double() - 128 for strength in (10, 30))
    assert (strong - 3 * weak).abs().max() <= 2  # rounding, once and three times half a level


def test_a_larger_picture_meets_the_same_noise_in_larger_grains():
    small = apply("noise", torch.full((1, 3, 32, 32), 128, dtype=torch.uint8), 20, 3)
    large = apply("noise", torch.full((1, 3, 96, 96), 128, dtype=torch.uint8), 20, 3)
    assert torch.equal(large, small.repeat_interleave(3, -1).repeat_interleave(3, -2))


@pytest.mark.parametrize("percent", [1.0, 4.0, 10.0])
def test_blur_is_torchvisions(percent):
    images, sigma = noise(), percent / 100 * SIDE
    reach = int(np.ceil(3 * sigma))
    wanted = tv.gaussian_blur(images, [2 * reach + 1] * 2, [sigma] * 2)
    assert torch.equal(apply("blur", images, percent), wanted)


@pytest.mark.parametrize("quality", [5, 50, 99])
def test_jpeg_is_pillows(quality):
    image = noise(1)
    buffer = io.BytesIO()
    Image.fromarray(image[0].permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=quality)
    wanted = np.asarray(Image.open(buffer)).transpose(2, 0, 1)
    assert np.array_equal(apply("jpeg", image, quality)[0].numpy(), wanted)


@pytest.mark.parametrize(("degrees", "turns"), [(90, 1), (180, 2), (-90, 3), (-180, 2)])
def test_right_angles_are_exact(degrees, turns):
    assert torch.equal(apply("rotate", noise(), degrees), noise().rot90(turns, (2, 3)))


def test_rotation_is_torchvisions_around_the_pictures_own_mean():
    images = noise(2)
    turned = apply("rotate", images, 30)
    for image, result in zip(images, turned, strict=True):
        mean = image.double().mean((1, 2))  # (3,)
        fill = mean.tolist()
        wanted = tv.rotate(image.double(), 30, InterpolationMode.BILINEAR, fill=fill)
        inside = tv.rotate(torch.ones(1, SIDE, SIDE), 30, InterpolationMode.BILINEAR)[0] > 0.999
        assert (result - wanted)[:, inside].abs().max() <= 0.51
        assert (result[:, 0, 0] - mean).abs().max() <= 0.51  # a corner


def test_brightness_is_torchvisions_but_for_rounding():
    wanted = tv.adjust_brightness(noise(), 1.5)  # which cuts off where we round
    assert (apply("brightness", noise(), 1.5).int() - wanted.int()).abs().max() <= 1
    assert apply("brightness", noise(), 0).max() == 0


@pytest.mark.parametrize("pieces", [2, 4, 8, 16])
def test_shuffling_keeps_every_patch(pieces):
    image = noise(1)
    for seed in range(5):
        shuffled = apply("shuffle", image, pieces, seed)
        assert not torch.equal(shuffled, image)
        assert sorted(patches(shuffled[0], pieces)) == sorted(patches(image[0], pieces))


def test_removed_patches_have_the_mean_colour_and_the_others_stay():
    images = noise(2)
    removed = perturb.patch_mask([0, 5], (4, 4))
    changed = perturb.remove_patches(images, removed)
    for image, result in zip(images, changed, strict=True):
        mean = image.double().mean((1, 2)).round()
        for cell, (old, new) in enumerate(zip(patches(image, 4), patches(result, 4), strict=True)):
            colours = tuple(v for c in mean.tolist() for v in [c] * 64)
            assert new == (colours if cell in (0, 5) else old)


def test_each_picture_may_lose_patches_of_its_own():
    images = noise(2)
    removed = torch.stack([perturb.patch_mask(cells, (2, 2)) for cells in ([1], [2])])
    changed = perturb.remove_patches(images, removed)
    lost = [
        [a != b for a, b in zip(patches(image, 2), patches(result, 2), strict=True)]
        for image, result in zip(images, changed, strict=True)
    ]
    assert lost == [[False, True, False, False], [False, False, True, False]]


def test_a_grid_that_does_not_divide_the_side_still_covers_it():
    image = noise(1, 32)
    everything = torch.ones(12, 12, dtype=torch.bool)
    assert len(perturb.remove_patches(image, everything).unique(dim=-1)[0, 0, 0]) == 1
    one = perturb.remove_patches(image, perturb.patch_mask([143], (12, 12)))
    assert (one != image).any(1)[0].nonzero().min() == 30  # pixels 30 and 31: 11/12 of 32 on


def test_a_patch_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no patch 16 in a grid of 4 x 4"):
        perturb.patch_mask([16], (4, 4))


def test_a_larger_share_removes_more_of_the_same_seed():
    few, many = (perturb.random_mask(share, [7])[0] for share in (0.25, 0.5))
    assert (few.sum(), many.sum()) == (16, 32)
    assert (many | few).equal(many)
