"""Perturbations compared with reference libraries, and independence of the images of a batch."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from tests.support.factories import noise_batch
from vitdemo.data import perturb
from vitdemo.data.perturb import PERTURBATIONS, apply_perturbation

SIDE = 32
STRENGTHS = {"noise": 20, "blur": 3, "jpeg": 20, "rotate": 30, "brightness": 1.5} | {
    "shuffle": 4, "remove": 50
}  # fmt: skip
NOISE = noise_batch(3, SIDE)
GREY = torch.full((1, 3, SIDE, SIDE), 128, dtype=torch.uint8)


def split_into_patches(image, pieces):
    """Split an image (3, S, S) into squares in reading order, as tuples."""
    side = image.shape[-1] // pieces
    return [
        tuple(image[:, y : y + side, x : x + side].flatten().tolist())
        for y in range(0, image.shape[-1], side)
        for x in range(0, image.shape[-1], side)
    ]


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_perturbation_depends_only_on_image_strength_and_seed(name):
    images, seeds = NOISE, [5, 6, 7]
    before = images.clone()
    same = apply_perturbation(name, images, PERTURBATIONS[name].neutral)
    assert torch.equal(same, images) and same.data_ptr() != images.data_ptr()
    changed = apply_perturbation(name, images, STRENGTHS[name], seeds)
    torch.manual_seed(99)  # nothing draws from the global generator
    assert changed.dtype == torch.uint8 and changed.shape == images.shape
    assert all((new != old).any() for new, old in zip(changed, images, strict=True))
    assert torch.equal(images, before)
    for i, seed in enumerate(seeds):  # the other images of the batch have no effect
        assert torch.equal(
            apply_perturbation(name, images[i : i + 1], STRENGTHS[name], seed)[0], changed[i]
        )
    reversed_batch = apply_perturbation(name, images.flip(0), STRENGTHS[name], seeds[::-1])
    assert torch.equal(reversed_batch.flip(0), changed)
    other = apply_perturbation(name, images, STRENGTHS[name], [1, 2, 3])
    assert torch.equal(other, changed) != (name in ("noise", "shuffle", "remove"))


@pytest.mark.parametrize("name", PERTURBATIONS)
@pytest.mark.parametrize("side", [1, 2, 50])
def test_perturbations_work_at_any_image_size_and_strength(name, side):
    images = noise_batch(1, side)
    for strength in (*PERTURBATIONS[name].strengths, PERTURBATIONS[name].high):
        if name == "shuffle" and side % strength:
            with pytest.raises(ValueError, match="choose a divisor"):
                apply_perturbation(name, images, strength)
        else:
            assert apply_perturbation(name, images, strength).shape == images.shape


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: apply_perturbation("fog", NOISE, 1), "'fog': choose one of noise, blur"),
        (lambda: apply_perturbation("blur", NOISE, 99), "Blur is 99: choose 0 to 15"),
        (lambda: apply_perturbation("noise", NOISE, float("nan")), "Noise is nan"),
        (lambda: apply_perturbation("noise", NOISE, 1, [1, 2]), "2 seeds for 3 images"),
        (lambda: perturb.make_patch_mask([16], (4, 4)), "There is no patch 16"),
    ],
)
def test_invalid_perturbation_arguments_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_noise_has_the_requested_deviation_and_scales_linearly():
    weak, middle, strong = (
        apply_perturbation("noise", GREY, s).double() - 128 for s in (10, 20, 30)
    )
    assert middle.std().item() == pytest.approx(20, rel=0.05)
    assert middle.mean().item() == pytest.approx(0, abs=1.5)
    assert (strong - 3 * weak).abs().max() <= 2  # rounding errors of 0.5 and 3 * 0.5


def test_noise_pattern_scales_with_the_image_size():
    small = apply_perturbation("noise", GREY, 20, 3)
    large = apply_perturbation("noise", torch.full((1, 3, 96, 96), 128, dtype=torch.uint8), 20, 3)
    assert torch.equal(large, small.repeat_interleave(3, -1).repeat_interleave(3, -2))


@pytest.mark.parametrize("percent", [1.0, 10.0])
def test_blur_equals_torchvision(percent):
    images, sigma = NOISE, percent / 100 * SIDE
    radius = int(np.ceil(3 * sigma))
    expected = tv.gaussian_blur(images, [2 * radius + 1] * 2, [sigma] * 2)
    found = apply_perturbation("blur", images, percent)
    differences = (found.int() - expected.int()).abs()  # from rounding
    assert differences.max() <= 1 and differences.float().mean() < 1e-3


@pytest.mark.parametrize("quality", [5, 50, 99])
def test_jpeg_equals_pillow(quality):
    image = noise_batch(1, SIDE)
    buffer = io.BytesIO()
    Image.fromarray(image[0].permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=quality)
    expected = np.asarray(Image.open(buffer)).transpose(2, 0, 1)
    assert np.array_equal(apply_perturbation("jpeg", image, quality)[0].numpy(), expected)


@pytest.mark.parametrize(("degrees", "turns"), [(90, 1), (180, 2), (-90, 3), (-180, 2)])
def test_rotation_by_right_angles_is_exact(degrees, turns):
    assert torch.equal(apply_perturbation("rotate", NOISE, degrees), NOISE.rot90(turns, (2, 3)))


def test_rotation_equals_torchvision_filled_with_the_image_mean():
    images = noise_batch(2, SIDE)
    rotated = apply_perturbation("rotate", images, 30)
    for image, result in zip(images, rotated, strict=True):
        mean = image.double().mean((1, 2))  # (3,)
        fill = mean.tolist()
        expected = tv.rotate(image.double(), 30, InterpolationMode.BILINEAR, fill=fill)
        inside = tv.rotate(torch.ones(1, SIDE, SIDE), 30, InterpolationMode.BILINEAR)[0] > 0.999
        assert (result - expected)[:, inside].abs().max() <= 0.51
        assert (result[:, 0, 0] - mean).abs().max() <= 0.51  # a corner


def test_brightness_equals_torchvision_up_to_rounding():
    expected = tv.adjust_brightness(NOISE, 1.5)  # torchvision truncates instead of rounding
    assert (apply_perturbation("brightness", NOISE, 1.5).int() - expected.int()).abs().max() <= 1
    assert apply_perturbation("brightness", NOISE, 0).max() == 0


@pytest.mark.parametrize("pieces", [2, 16])
def test_shuffling_keeps_every_patch(pieces):
    image = noise_batch(1, SIDE)
    for seed in range(5):
        shuffled = apply_perturbation("shuffle", image, pieces, seed)
        assert not torch.equal(shuffled, image)
        assert sorted(split_into_patches(shuffled[0], pieces)) == sorted(
            split_into_patches(image[0], pieces)
        )


@pytest.mark.parametrize("removed", [([0, 5], [0, 5]), ([1], [2])], ids=["shared", "per image"])
def test_removed_patches_have_the_mean_colour_and_the_others_stay(removed):
    images = noise_batch(2, SIDE)
    first, second = (perturb.make_patch_mask(cells, (4, 4)) for cells in removed)
    masks = first if first.equal(second) else torch.stack([first, second])
    changed = perturb.remove_patches(images, masks)
    for image, result, cells in zip(images, changed, removed, strict=True):
        mean = image.double().mean((1, 2)).round()
        for cell, (old, new) in enumerate(
            zip(split_into_patches(image, 4), split_into_patches(result, 4), strict=True)
        ):
            colours = tuple(v for c in mean.tolist() for v in [c] * 64)
            assert new == (colours if cell in cells else old)


def test_grid_that_does_not_divide_the_side_covers_the_image():
    image = noise_batch(1, SIDE)
    everything = torch.ones(12, 12, dtype=torch.bool)
    assert len(perturb.remove_patches(image, everything).unique(dim=-1)[0, 0, 0]) == 1
    changed = perturb.remove_patches(image, perturb.make_patch_mask([143], (12, 12)))
    assert (changed != image).any(1)[0].nonzero().min() == 30  # pixels 30 and 31


def test_larger_fraction_removes_a_superset_of_patches():
    quarter, half = (perturb.sample_patch_masks(fraction, [7])[0] for fraction in (0.25, 0.5))
    assert (quarter.sum(), half.sum()) == (16, 32)
    assert (half | quarter).equal(half)
